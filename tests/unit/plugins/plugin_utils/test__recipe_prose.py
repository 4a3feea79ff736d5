# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits are found in sentences; a version that is only mentioned is none."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _recipe_prose as prose
from hypothesis import given
from hypothesis import strategies as st


def found(text: str) -> list[tuple[str, str]]:
    return [(find.limit, find.value) for find in prose.find([("guide", text)])]


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("The host needs an r580+ NVIDIA driver.", [("driver_branch", "580")]),
        ("Install driver 580 or newer.", [("driver_branch", "580")]),
        ("NVIDIA driver >= 570.86.15 is needed", [("driver_branch", "570")]),
        ("- CUDA Driver >= 575 for GPUs", [("driver_branch", "575")]),
        ("a 590+ driver", [("driver_branch", "590")]),
        ("on a CUDA 12.9 (r575) host, upgrade the driver", []),
        ("driver 550 does not work", []),
        ("CUDA 13 (cu130) build only", [("cuda", "13.0")]),
        ("ships as a CUDA 13.1 (cu131) build only", [("cuda", "13.1")]),
        ("cu130 only", [("cuda", "13.0")]),
        ("**CUDA**: 12.x or later (CUDA 13.x may need more)", [("cuda", "12.0")]),
        ("CUDA >= 12.8 if building from source", []),
        ("there is no -cu129 tag", []),
        ("append -cu129 for CUDA 12.9 hosts", []),
        ("At least 8x GB300.", [("gpu_count", "8")]),
        ("at least 8 \u00d7 H200", [("gpu_count", "8")]),
        ("needs 8x more time", []),
        ("Use the vllm/vllm-openai:kimi-k3 docker", [("image", "vllm/vllm-openai:kimi-k3")]),
        ("Use vllm/vllm-openai:model.", [("image", "vllm/vllm-openai:model")]),
        ("see the vllm/vllm-openai repository", []),
        (
            "pull vllm/vllm-openai@sha256:" + "a" * 64,
            [("image", "vllm/vllm-openai@sha256:" + "a" * 64)],
        ),
    ],
)  # fmt: skip
def test_sentences(text: str, limits: list[tuple[str, str]]) -> None:
    assert found(text) == limits


def test_a_find_tells_its_place_its_sentence_and_its_gpus() -> None:
    (find,) = prose.find([("notes.x", "Overview. At least 4x H100/H200 GPUs. More is better.")])
    assert (find.where, find.sentence, find.gpus) == (
        "notes.x",
        "At least 4x H100/H200 GPUs.",
        ("h100", "h200"),
    )


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    for find in prose.find([("guide", text)]):
        assert find.value
        assert find.sentence in " ".join(text.split())


@given(st.integers(400, 999), st.sampled_from(["r{}+", "driver {} or newer", "driver >= {}.86.15"]))
def test_every_branch_is_found(branch: int, form: str) -> None:
    assert ("driver_branch", str(branch)) in found(f"The host needs {form.format(branch)} here.")
