# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attempt from its permission to its close, on a run on disk."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible import context
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.baseline.plugins.action import attempt
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _requests_kept, _run
from ansible_collections.gpufleet.baseline.tests.unit.plugins.action._host import action

HOSTS = ["tray1", "tray2"]
LAUNCH = {
    "schema": "gpufleet.baseline/launch/1",
    "ranks": [
        {"host": "tray1", "node_rank": 0, "role": "head"},
        {"host": "tray2", "node_rank": 1, "role": "worker"},
    ],
    "image": {"reference": "vllm/vllm-openai:kimi-k3", "id": "sha256:1"},
    "sha256": "ab",
    "diagnostics": "none",
}
LOG = "(EngineCore pid=270) ERROR 08-09 10:00:00 [core.py:121] torch.OutOfMemoryError: CUDA out of memory.\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _run.Run:
    monkeypatch.setattr(context, "CLIARGS", {"forks": 5})
    frozen = _run.open_run(tmp_path / "repro", "1 1", {"kind": "freeze"})
    told = {}
    for host in HOSTS:
        _run.write_bytes(frozen.record(host), b"record of " + host.encode())
        told[host] = {"state": "frozen", "sha256": _run.sha256_of(frozen.record(host))}
    _run.finish(frozen, "freeze", {"state": "complete", "hosts": told})
    opened = _run.open_run(tmp_path / "repro", "1 1", {"kind": "minimal"})
    _run.write_json(opened.path / "gate.json", {"verdict": "pass"})
    _run.write_json(opened.path / "launch.json", LAUNCH)
    return opened


def turn(run: _run.Run, state: str, hostvars: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    made = action(attempt, {"run": str(run.path), "state": state, "hosts": HOSTS, **more}, name="attempt")
    made.validate_argument_spec = lambda spec: (
        None,
        {name: made._task.args.get(name, option.get("default")) for name, option in spec.items()},
    )
    return made.run(None, {"hostvars": hostvars or {}})


def each(variable: str, answer: dict[str, Any], **odd: dict[str, Any]) -> dict[str, Any]:
    return {host: {variable: odd.get(host, answer)} for host in HOSTS}


def test_with_records_a_gate_and_forks_it_may_begin(run: _run.Run) -> None:
    assert turn(run, "allowed")["refusals"] == []


def test_a_host_without_a_record_is_named(run: _run.Run) -> None:
    (run.reproduction / "run-001" / "hosts" / "tray2.tar.gz").unlink()
    assert "found none of tray2;" in turn(run, "allowed")["msg"]


def test_a_record_that_is_not_what_it_was_is_none(run: _run.Run) -> None:
    (run.reproduction / "run-001" / "hosts" / "tray1.tar.gz").write_bytes(b"other")
    assert "found none of tray1;" in turn(run, "allowed")["msg"]


@pytest.mark.parametrize(
    ("verdict", "word"), [("fail", "found fail"), ("undecided", "found undecided"), (None, "found None")]
)
def test_a_gate_that_did_not_pass_is_named(run: _run.Run, verdict: str | None, word: str) -> None:
    _run.write_json(run.path / "gate.json", {"verdict": verdict})
    assert word in turn(run, "allowed")["msg"]


def test_no_gate_of_this_run_is_a_refusal(run: _run.Run) -> None:
    (run.path / "gate.json").unlink()
    assert "expected a judgement of the gate" in turn(run, "allowed")["msg"]


def test_fewer_forks_than_hosts_is_a_refusal_with_the_number(
    run: _run.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "CLIARGS", {"forks": 1})
    assert "add --forks 2" in turn(run, "allowed")["msg"]


def test_an_override_needs_a_reason_which_is_kept(run: _run.Run) -> None:
    (run.path / "gate.json").unlink()
    assert "failed" in turn(run, "allowed", without_gate="  ")
    assert turn(run, "allowed", without_gate="lab without GPUs")["overrides"] == ["no gate: lab without GPUs"]
    assert run.document()["overrides"] == ["no gate: lab without GPUs"]


def finish(run: _run.Run, watched: dict[str, Any], stopped: dict[str, Any], **more: Any) -> dict[str, Any]:
    turn(run, "started", each("__launch_started", {"outcome": "started"}))
    turn(run, "judged", watched)
    return turn(run, "closed", stopped, **more)


FREE = {"gpus_free": {"verdict": "free"}}


def test_a_stable_attempt_is_closed_with_its_sheet_and_checksums(run: _run.Run) -> None:
    _requests_kept.keep(run, {"outcome": "answered", "answered": 2, "host": "tray1"})
    result = finish(
        run,
        each("__launch_watched", {"outcome": "ready"}),
        each("__launch_stopped", FREE),
        only_change="x: 1 -> 2",
    )
    assert (result["outcome"], result["gpus_free"]) == ("stable", True)
    document = run.document()
    assert (document["state"], document["changed_variable"], document["launch"]) == (
        "complete",
        "x: 1 -> 2",
        "ab",
    )
    assert "stable" in (run.path / "sheet.md").read_text()
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=run.path, check=True)


def test_the_first_failure_is_read_from_the_logs_of_all_ranks(run: _run.Run) -> None:
    _run.write_bytes(run.path / "logs" / "tray2-1.log", LOG.encode())
    watched = each(
        "__launch_watched", {"outcome": "sibling"}, tray2={"outcome": "failed", "exit": {"exit_code": 1}}
    )
    turn(run, "started", each("__launch_started", {"outcome": "started"}))
    judged = turn(run, "judged", watched)
    verdict = _run.read_json(run.path / "verdict.json")
    assert (judged["outcome"], judged["freeze"]) == ("failed", True)
    assert (verdict["host"], verdict["path"], verdict["line"]) == ("tray2", "logs/tray2-1.log", 1)
    assert verdict["signature"]["role"] == "worker"


def test_one_rank_that_was_not_started_is_told_before_anything_is_watched(run: _run.Run) -> None:
    blocked = {"outcome": "blocked", "message": "held by 4711"}
    result = turn(run, "started", each("__launch_started", {"outcome": "started"}, tray2=blocked))
    assert (result["all_started"], result["not_started"]) == (False, ["tray2"])
    judged = turn(run, "judged", {})
    assert (judged["outcome"], judged["freeze"]) == ("blocked", False)


@pytest.mark.parametrize(
    "broken", [{"unreachable": True, "msg": "timed out"}, {"failed": True, "msg": "no python"}, None]
)
def test_a_task_that_broke_interrupts_and_keeps_its_words(
    run: _run.Run, broken: dict[str, Any] | None
) -> None:
    hostvars = each("__launch_started", {"outcome": "started"})
    hostvars["tray2"] = {"__launch_started": broken} if broken else {}
    assert not turn(run, "started", hostvars)["all_started"]
    assert turn(run, "judged", {})["outcome"] == "interrupted"
    if broken:
        assert broken["msg"] in _run.read_json(run.path / "verdict.json")["message"]


def test_gpus_that_were_not_shown_to_be_free_are_told_with_the_way_to_free_them(
    run: _run.Run, capsys: Any
) -> None:
    _requests_kept.keep(run, {"outcome": "answered", "answered": 1})
    held = {"gpus_free": {"verdict": "held"}}
    result = finish(
        run,
        each("__launch_watched", {"outcome": "ready"}),
        each("__launch_stopped", FREE, tray2=held),
        clean_command="ansible-playbook gpufleet.baseline.clean",
    )
    assert not result["gpus_free"]
    text = (run.path / "attempt.txt").read_text()
    assert "not shown to be free on tray2" in text
    assert "ansible-playbook gpufleet.baseline.clean" in text
    assert len(text.splitlines()) <= 25
    assert run.document()["gpus_not_free"] == ["tray2"]


def test_a_run_without_a_launch_is_one_clear_line(run: _run.Run) -> None:
    (run.path / "launch.json").unlink()
    with pytest.raises(AnsibleActionFail, match="expected a JSON document in"):
        turn(run, "judged", {})
