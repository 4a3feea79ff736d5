# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the test run count what really ran."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest
from ansible_collections.gpufleet.baseline.tests.unit._checkout import ROOT

SANITY_OUTPUT = """\
Running sanity test "pep8"
ERROR: Found 1 pep8 issue(s) which need to be resolved:
ERROR: plugins/modules/freeze.py:1:2: E101: indentation
Running sanity test "shebang"
Running sanity test "pslint"
WARNING: Skipping sanity test "pslint" on Python 3.11.
FATAL: The 1 sanity test(s) listed below (out of 3) failed. See error output above for details.
pep8
"""


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "tools"))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def test_sanity_tests_are_counted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = tool("sanity", monkeypatch).outcomes
    assert outcomes(SANITY_OUTPUT) == ({"shebang"}, {"pep8"}, {"pslint"})
    assert outcomes("WARNING: All targets skipped.\n") == (set(), set(), set())


@pytest.mark.parametrize(
    ("counts", "status"),
    [((1, 0, 0), 0), ((1, 0, 2), 0), ((0, 0, 1), 0), ((1, 1, 0), 1), ((0, 0, 0), 1)],
)
def test_a_step_without_a_check_is_no_success(
    counts: tuple[int, int, int],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = tool("_step", monkeypatch).Step("lint")
    step.passed, step.failed, step.skipped = counts
    with pytest.raises(SystemExit) as ended:
        step.end()
    assert ended.value.code == status
    last = capsys.readouterr().out.splitlines()[-1]
    counted = tool("run_all", monkeypatch).COUNTS.match(last)
    assert counted
    assert tuple(int(number) for number in counted.groups()) == counts


def test_a_failed_check_shows_what_it_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tool("_step", monkeypatch)
    step = module.Step("unit-tests-of-tools")
    monkeypatch.setattr(module, "LOGS", module.LOGS / "unit")
    step.run("says why", [sys.executable, "-c", "print('because'); raise SystemExit(3)"])
    assert (step.passed, step.failed) == (0, 1)
    shown = capsys.readouterr().out
    assert "because" in shown
    assert "FAILED  says why" in shown
