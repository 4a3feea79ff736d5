# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections import Counter

import pytest

from . import worked

CASES = worked.load()
pytestmark = pytest.mark.skipif(not CASES, reason=worked.MISSING)
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each
def test_stage_class_and_line(case: worked.Case, confusion: Counter[tuple[str, str, str]]) -> None:
    verdict = case.judge()
    confusion[(case.classes[0], verdict["failure_class"], verdict["confidence"])] += 1
    assert verdict["stage"] in case.stages
    assert verdict["failure_class"] in case.classes
    first, last = case.expect["first_error_line"], case.expect["exception_line"]
    if first is not None:
        assert first <= verdict["line"] <= last
        assert verdict["exception_line"] in (last, case.expect.get("decisive_line"))
    if case.expect.get("hang_after_line"):
        assert verdict["line"] == case.expect["hang_after_line"]
    if case.expect.get("first_failed_log"):
        assert verdict["path"] == case.expect["first_failed_log"]
    if case.expect.get("substage"):
        assert verdict["substage"] == case.expect["substage"]


@each
def test_no_consequence_and_no_noise_is_called_the_cause(case: worked.Case) -> None:
    verdict = case.judge()
    if verdict["failure_class"] == "hang":
        return  # the line is then the last progress, not a cause
    for kind in ("consequences", "noise_lines"):
        lines = case.expect.get(kind) or []
        if isinstance(lines, dict):
            lines = lines.get(verdict["path"], [])
        assert verdict["line"] not in lines


@each
def test_outcome(case: worked.Case) -> None:
    outcome = case.judge()["outcome"]
    if case.expect["failure_class"] == "hang":
        assert outcome == "hung"
    elif case.expect["failure_class"] in ("none", "request-rejected-4xx"):
        assert outcome in ("ready", "stopped")
    else:
        assert outcome == "failed"


@each
def test_the_verdict_is_plain_data(case: worked.Case) -> None:
    assert json.loads(json.dumps(case.judge()))["schema"] == "gpufleet.baseline/first_failure/1"


def test_never_sure_and_wrong() -> None:
    wrong = [
        case.name
        for case in CASES
        if (verdict := case.judge())["confidence"] == "high"
        and (verdict["stage"] not in case.stages or verdict["failure_class"] not in case.classes)
    ]
    assert wrong == []
