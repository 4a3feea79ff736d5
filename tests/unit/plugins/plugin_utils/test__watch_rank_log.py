# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a growing log says is what the judge of the first failure says of it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import LogSource, judge_files
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rank_log import RankLog

RECORDINGS = Path(__file__).parents[3] / "lab" / "engine" / "recordings"
FAILURES = sorted(
    path
    for path in RECORDINGS.glob("*.log")
    if "end: exit" in path.read_text() and "part: tail" not in path.read_text()
)


def lines_of(path: Path) -> list[str]:
    # Only a line feed ends a line: progress bars carry carriage returns inside one.
    text = path.read_bytes().decode()
    return [line + "\n" for line in text.split("\n") if line and not line.startswith("#|")]


@pytest.mark.parametrize("path", FAILURES, ids=lambda path: path.stem)
def test_line_by_line_it_comes_to_the_same_verdict(path, tmp_path):
    lines = lines_of(path)
    log, whole = RankLog("log"), tmp_path / "log"
    failed = False
    for number in range(0, len(lines), 7):
        failed |= log.feed("".join(lines[number : number + 7]), 0.0).failed
    log.end(0.0)
    whole.write_text("".join(lines))
    wanted = judge_files([LogSource(str(whole))])
    found = {key: log.verdict[key] for key in ("outcome", "stage", "failure_class", "line")}
    assert found == {key: wanted[key] for key in found}


def test_stages_are_told_once_and_progress_when_it_moves():
    log, stages, progress = RankLog("log"), [], []
    for line in lines_of(RECORDINGS / "healthy.log"):
        change = log.feed(line, 0.0)
        stages += [(stage["stage"], stage["substage"]) for stage in change.stages]
        progress += [change.progress] if change.progress else []
    assert all(one != other for one, other in itertools.pairwise(stages))
    assert stages[0] == ("weights", "model-config")
    assert ("weights", "load") in stages
    assert all(one != other for one, other in itertools.pairwise(progress))
    assert any("/" in one for one in progress)


def test_readiness_is_told_once():
    log = RankLog("log")
    told = [log.feed(line, 0.0).ready for line in lines_of(RECORDINGS / "healthy.log")]
    assert told.count(True) == 1


def test_the_last_line_of_a_hang_is_the_last_progress():
    log = RankLog("log")
    log.feed("".join(lines_of(RECORDINGS / "engine-hang-nccl.log")), 0.0)
    assert log.last_line
    assert "broadcast block" not in log.last_line


def test_a_log_of_something_else():
    log = RankLog("log")
    log.feed("hello\n\n", 0.0)
    assert (log.outcome, log.stage, log.last_line, log.spoke) == ("unknown", "container", "hello", True)
