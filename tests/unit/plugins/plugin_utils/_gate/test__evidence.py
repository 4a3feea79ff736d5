# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of a score as it stands in runs: verdict, requests, launch and what a freeze found first."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _attempt
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._evidence import (
    evidence_of_run,
    score_of,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._score import Score
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._requests_kept import keep
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import SCHEMA, Run, write_json
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    document,
    with_engine,
)

RANKS = [{"host": f"n{n}", "node_rank": n - 1, "role": "head", "argv": ["vllm"], "env": {}} for n in (1, 2)]
TWO = tuple(_attempt.Rank(rank["host"], rank["node_rank"], rank["role"]) for rank in RANKS)
STARTED = {"n1": {"outcome": "started"}, "n2": {"outcome": "started"}}
LOST = {
    "outcome": "failed",
    "stage": "engine",
    "failure_class": "oom",
    "node": 1,
    "time": "2026-12-01 00:46:49",
}
FAILED = _attempt.Evidence(
    TWO,
    STARTED,
    {"n1": {"outcome": "sibling"}, "n2": {"outcome": "failed", "exit": {"exit_code": 1}}},
    first_failure=LOST,
)
REQUEST = {"schema": "gpufleet.baseline/request/1", "body": "{}", "outcome": "answered", "disturbed": ""}


def run_of(reproduction: Path, number: int, engine: bool = True, hosts: tuple[int, ...] = (1, 2)) -> Run:
    """A run that a gate or a freeze left: the facts of hosts."""
    run = Run(reproduction / f"run-{number:03d}")
    entries = {f"n{host}": {"state": "measured"} for host in hosts}
    write_json(run.path / "run.json", {"schema": SCHEMA, "hosts": entries, "started": "2026-12-01T00:47:00Z"})
    for host in hosts:
        made = with_engine(document(host)) if engine else document(host)
        write_json(run.path / "facts" / f"n{host}.json", {"schema": "gpufleet.baseline/facts/1", **made})
    return run


def attempted(run: Run, evidence: _attempt.Evidence = FAILED, launch: str = "a" * 64) -> Run:
    """The run with what an attempt leaves."""
    write_json(run.path / "verdict.json", _attempt.judge(evidence))
    sheet = {"schema": "gpufleet.baseline/launch/1", "ranks": RANKS, "sha256": launch}
    write_json(run.path / "launch.json", sheet)
    return run


def frozen(run: Run, host: str, *verdicts: dict[str, Any]) -> None:
    """A sealed record of a host, of which the score reads what failed first."""
    engines = {f"container:{n}": {"verdict": verdict} for n, verdict in enumerate(verdicts)}
    content = json.dumps({"schema": "gpufleet.baseline/first-failures/1", "engines": engines}).encode()
    run.record(host).parent.mkdir(exist_ok=True)
    with tarfile.open(run.record(host), "w:gz") as archive:
        member = tarfile.TarInfo("first-failure.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def missing(found: Score) -> str:
    return "\n".join(found.missing)


def test_a_run_alone_has_no_failure_no_request_and_no_second_run(tmp_path: Path) -> None:
    found = score_of(run_of(tmp_path, 1).path)
    assert [item.points for item in found.criteria] == [2, 2, 2, 2, 0, 0, 1]
    assert found.unread == ()


def test_verdict_and_requests_of_an_attempt_count(tmp_path: Path) -> None:
    run = attempted(run_of(tmp_path, 1))
    assert [item.points for item in score_of(run.path).criteria] == [2, 2, 2, 2, 2, 0, 1]
    keep(run, REQUEST)
    found = score_of(run.path)
    assert [item.points for item in found.criteria] == [2, 2, 2, 2, 2, 2, 1]
    assert missing(found) == "a second clean run with the same launch and signature"


def test_a_second_run_of_the_same_launch_with_the_same_end_counts(tmp_path: Path) -> None:
    first = attempted(run_of(tmp_path, 1))
    second = attempted(run_of(tmp_path, 2), launch="b" * 64)
    assert "second clean run" in missing(score_of(first.path))  # of another launch
    attempted(second)
    assert "second clean run" not in missing(score_of(first.path))
    assert "second clean run" not in missing(score_of(second.path))
    attempted(
        second, _attempt.Evidence(TWO, STARTED, FAILED.watched, first_failure={**LOST, "stage": "nccl"})
    )
    assert "second clean run" in missing(score_of(first.path))  # failed in another way


@pytest.mark.parametrize(
    "evidence",
    [
        _attempt.Evidence(TWO, STARTED, FAILED.watched, first_failure=LOST, diagnostics="nccl"),
        _attempt.Evidence(TWO, STARTED, {"n1": {"outcome": "disturbed"}, "n2": {"outcome": "ready"}}),
        _attempt.Evidence(TWO, {"n1": {"outcome": "blocked"}}),
        _attempt.Evidence(TWO, {}),
    ],
)
def test_disturbed_blocked_and_diagnosed_runs_are_no_clean_ones(
    tmp_path: Path, evidence: _attempt.Evidence
) -> None:
    first, _second = attempted(run_of(tmp_path, 1), evidence), attempted(run_of(tmp_path, 2), evidence)
    assert "second clean run" in missing(score_of(first.path))
    assert "second clean run" in missing(score_of(tmp_path))


def test_a_stable_attempt_is_no_failure_but_a_clean_run(tmp_path: Path) -> None:
    ready = {"n1": {"outcome": "ready"}, "n2": {"outcome": "ready"}}
    stable = _attempt.Evidence(TWO, STARTED, ready, requests=(REQUEST,))
    for number in (1, 2):
        attempted(run_of(tmp_path, number), stable)
    found = score_of(tmp_path)
    assert "second clean run" not in missing(found)
    assert "stage of the first failure" in missing(found)


def test_without_an_attempt_the_freeze_tells_the_first_failure(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    frozen(run, "n1", {"outcome": "running", "stage": "none", "time": "2026-12-01 00:00:00", "node": 0})
    assert "stage of the first failure" in missing(score_of(run.path))
    later = {"outcome": "failed", "stage": "weights", "time": "2026-12-01 00:46:59", "node": 0}
    frozen(run, "n1", {"outcome": "hung", "stage": "engine"}, later)
    frozen(run, "n2", {**later, "stage": "engine", "time": "2026-12-01 00:46:49"})
    found = evidence_of_run(run, ())
    assert (found.failure["stage"], found.failure["host"]) == ("engine", "n2")
    attempted(run)
    assert evidence_of_run(run, ()).failure["failure_class"] == "oom"  # an attempt tells more


def test_a_reproduction_has_what_any_of_its_runs_found(tmp_path: Path) -> None:
    freeze = run_of(tmp_path, 1)
    frozen(freeze, "n1", {"outcome": "failed", "stage": "engine", "time": "2026-12-01 00:46:49"})
    write_json(freeze.path / "request" / "body.json", {})
    run_of(tmp_path, 2, engine=False)
    found = score_of(tmp_path)
    assert [item.points for item in found.criteria] == [2, 2, 2, 2, 2, 1, 1]
    for number in (3, 4):
        keep(attempted(run_of(tmp_path, number, engine=False)), REQUEST)
    assert score_of(tmp_path).points == 14
    # Its runs have no engine each.
    assert [item.points for item in score_of(tmp_path / "run-004").criteria] == [2, 0, 1, 2, 2, 2, 2]


def test_a_host_that_left_the_launch_group_costs_nothing(tmp_path: Path) -> None:
    run_of(tmp_path, 1, hosts=(1, 2, 3))
    (tmp_path / "run-001" / "facts" / "n3.json").unlink()
    assert "loaded driver: n3" in missing(score_of(tmp_path))
    run_of(tmp_path, 2, engine=False)
    assert [item.points for item in score_of(tmp_path).criteria] == [2, 2, 2, 2, 0, 0, 1]


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "gpufleet.baseline/verdict/9"}', '"x"'])
def test_t28_what_cannot_be_read_costs_points_and_is_named(tmp_path: Path, content: str) -> None:
    run = attempted(run_of(tmp_path, 1))
    keep(run, REQUEST)
    whole = score_of(run.path).points
    (run.path / "verdict.json").write_text(content)
    (run.path / "request" / "001.json").write_text(content)
    (run.path / "facts" / "n1.json").write_text(content)
    found = score_of(run.path)
    assert whole - found.points > 4
    assert [str(run.path / "verdict.json") in text for text in found.unread].count(True) == 1
    assert any(str(run.path / "request" / "001.json") in text for text in found.unread)
    assert found.as_dict()["unread"] == list(found.unread)


def test_a_damaged_record_costs_its_first_failure(tmp_path: Path) -> None:
    run = run_of(tmp_path, 1)
    frozen(run, "n1", {"outcome": "failed", "stage": "engine", "time": "t"})
    run.record("n1").write_bytes(run.record("n1").read_bytes()[:40])
    found = score_of(run.path)
    assert "stage of the first failure" in missing(found)
    assert "expected a sealed record" in found.unread[0]


@pytest.mark.parametrize("name", ["", "no-such-place"])
def test_t28_neither_run_nor_reproduction_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(BaselineError, match="expected a run or a reproduction with runs"):
        score_of(tmp_path / name)


def test_a_run_that_is_open_and_empty_has_no_points(tmp_path: Path) -> None:
    write_json(tmp_path / "run-001" / "run.json", {"schema": SCHEMA, "hosts": {}})
    assert score_of(tmp_path / "run-001").points == 0
    assert score_of(tmp_path).points == 0


def test_reading_a_score_changes_nothing(tmp_path: Path) -> None:
    keep(attempted(run_of(tmp_path, 1)), REQUEST)

    def state() -> dict[str, str]:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = state()
    score_of(tmp_path)
    assert state() == before
