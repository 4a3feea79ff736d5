# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one image that every host holds."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Image
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_image import id_in_facts, one_image

NAME = "vllm/vllm-openai:kimi-k3"


def facts(*images: dict[str, Any]) -> dict[str, Any]:
    return {"engine": {"images": {"value": list(images), "outcome": "ok"}}}


def test_the_same_id_everywhere() -> None:
    assert one_image(NAME, {"a": "sha256:1", "b": "sha256:1"}, ["a", "b"]) == Image(NAME, "sha256:1")
    assert one_image("sha256:1", {"a": "sha256:1"}, ["a"]) == Image("", "sha256:1")


def test_other_ids_and_missing_ones_are_named() -> None:
    with pytest.raises(BaselineError, match="sha256:1 on a, c; sha256:2 on b"):
        one_image(NAME, {"a": "sha256:1", "b": "sha256:2", "c": "sha256:1"}, ["a", "b", "c"])
    with pytest.raises(BaselineError, match=r"none on b; .*docker pull"):
        one_image(NAME, {"a": "sha256:1", "b": ""}, ["a", "b"])


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (NAME, "sha256:1"),
        ("vllm/vllm-openai@sha256:9", "sha256:1"),
        ("sha256:1", "sha256:1"),
        ("other", "sha256:2"),
        ("vllm/vllm-openai", ""),
        ("registry:5000/x", "sha256:3"),
    ],
)
def test_an_image_among_the_facts(asked: str, found: str) -> None:
    known = facts(
        {"id": "sha256:1", "tags": [NAME], "digests": ["vllm/vllm-openai@sha256:9"]},
        {"id": "sha256:2", "tags": ["other:latest"]},
        {"id": "sha256:3", "tags": ["registry:5000/x:latest"]},
    )
    assert id_in_facts(asked, known) == found


@pytest.mark.parametrize("known", [None, {}, {"engine": None}, {"engine": {"images": {"value": None}}}])
def test_facts_without_images(known: Any) -> None:
    assert id_in_facts(NAME, known) == ""
