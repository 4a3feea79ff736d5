# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a start can tell is judged when it was asked for, and only then."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Finding
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    boundary,
    document,
    fact,
    judged,
)

UUIDS = [f"GPU-00000001-0000-4000-8000-{number:012}" for number in range(4)]
OFF = fact(None, "skipped", "not asked for")


def probed(rule: str, **facts: Any) -> Finding:
    made = document(1)
    made["probe"] = {
        "schema": "gpufleet.baseline/probe/1",
        "container": OFF,
        "cuda": OFF,
        "started": [],
        **facts,
    }
    return about(judged([made], boundary(gpu_count=4)), rule, "n1")


def test_what_was_not_asked_for_does_not_apply() -> None:
    result = judged([document(1)], boundary(gpu_count=4))
    assert about(result, "probe.cuda").answer.verdict == "not applicable"
    assert probed("probe.container").answer.verdict == "not applicable"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (fact(UUIDS), "pass"),
        (fact(UUIDS[:3]), "fail"),
        (fact([*UUIDS[:3], "GPU-other"]), "fail"),
        (fact([]), "fail"),
        (fact(None, "skipped", "refused: process 7 (python3) holds a GPU"), "undecided"),
        (fact(None, "absent", "the image is not on the host, and nothing is pulled"), "undecided"),
        (fact(None, "timeout", "did not end"), "undecided"),
    ],
)
def test_view_of_a_new_container(found: dict[str, Any], expected: str) -> None:
    assert probed("probe.container", container=found).answer.verdict == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"init": 0, "count": 4, "uuids": UUIDS}, "pass"),
        ({"init": 0, "count": 4, "uuids": None}, "pass"),
        ({"init": 0, "count": 3, "uuids": None}, "fail"),
        ({"init": 0, "count": 3, "uuids": UUIDS[:3]}, "fail"),
        ({"init": 803, "uuids": []}, "fail"),
    ],
)
def test_cuda(value: dict[str, Any], expected: str) -> None:
    answer = probed("probe.cuda", cuda=fact(value, message="cuInit gives 803: do not fit")).answer
    assert answer.verdict == expected
    if value["init"]:
        assert "do not fit" in answer.reason
