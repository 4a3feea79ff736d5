# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watching action: which calls it makes, and what it does when they fail."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.gpufleet.baseline.plugins.action import launch_watch
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run, _watch_loop
from ansible_collections.gpufleet.baseline.tests.unit.plugins.action._host import action

RANKS = [{"rank": 1, "container": {"id": "abc", "name": "n"}, "log": {"how": "docker"}}]
LAUNCH = {
    "ranks": [
        {"host": "head", "node_rank": 0, "api_port": 8000, "container": {"gpus": {"ids": ["all"]}}},
        {"host": "n1", "node_rank": 1, "api_port": None, "container": {"gpus": {"ids": ["GPU-1"]}}},
    ]
}


@pytest.fixture
def run(tmp_path: Path) -> _run.Run:
    made = _run.open_run(tmp_path / "repro", "1 1", {"kind": "minimal"})
    (made.path / "launch.json").write_text(json.dumps(LAUNCH))
    return made


def over(lines: str = "last words\n") -> dict[str, Any]:
    state = {"running": False, "status": "exited", "exit_code": 3, "finished_at": "2026-12-01T01:00:00Z"}
    row = {
        "rank": 1, "state": state, "lines": lines, "unfinished": "", "more": False, "gap": "",
        "log_problem": "", "sample": {}, "health": None, "lease": None,
    }  # fmt: skip
    return {"cursor": {"logs": {}}, "ranks": [row], "holders_new": [], "problems": []}


def watch(
    run: _run.Run, answers: list[Any], monkeypatch: pytest.MonkeyPatch, check: bool = False, **arguments: Any
) -> tuple[dict[str, Any], list[dict[str, Any]], Any]:
    """The result, what each call of the module was given, and the action."""
    given: list[dict[str, Any]] = []
    monkeypatch.setattr(_watch_loop, "RETRY_SECONDS", 0.0)
    given_options = {"run": str(run.path), "ranks": RANKS, **arguments}
    made = action(launch_watch, given_options, check, "launch_watch")

    def module(values: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
        given.append(values)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    made.run_module = module
    return made.run(None, {"inventory_hostname": "n1"}), given, made


def test_a_rank_that_ends(run: _run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result, given, made = watch(run, [over(), over("")], monkeypatch, wait_seconds=1)
    assert (result["outcome"], result["exit"]["exit_code"], result["ended_at"]) == (
        "failed", 3, "2026-12-01T01:00:00Z",
    )  # fmt: skip
    assert result["changed"] is False
    assert given[0]["redaction_key"] == run.key().hex()
    # Port and GPUs come from the launch; the action's own options stay on the controller.
    assert (given[0]["ranks"][0]["api_port"], given[0]["ranks"][0]["gpus"]) == (None, ["GPU-1"])
    assert "run" not in given[0]
    assert given[1]["wait_seconds"] == 0.0
    assert gzip.decompress((run.path / "logs" / "n1-1.log.gz").read_bytes()) == b"last words\n"
    shown = [call.args[0] for call in made._display.display.call_args_list]
    assert shown[0].startswith("to stop: ansible-playbook gpufleet.baseline.clean")
    assert any("failed: exit code 3" in line for line in shown)


def test_the_live_view_takes_the_place_of_shown_lines(run: _run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFLEET_BASELINE_LIVE", "1")
    _result, _given, made = watch(run, [over()], monkeypatch)
    made._display.display.assert_not_called()


@pytest.mark.parametrize(
    "fault", [AnsibleConnectionFailure("Connection\ntimed out"), {"failed": True, "msg": "MODULE FAILURE"}]
)
def test_a_call_that_fails_is_made_again(run: _run.Run, monkeypatch: pytest.MonkeyPatch, fault: Any) -> None:
    result, given, _made = watch(run, [fault, fault, over()], monkeypatch)
    assert result["outcome"] == "failed"
    assert len(given) == 4


def test_a_host_that_stays_away_is_a_result(run: _run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result, _given, _made = watch(
        run, [AnsibleConnectionFailure("timed out")], monkeypatch, unreachable_seconds=0
    )
    assert (result["outcome"], result["changed"]) == ("unreachable", False)


@pytest.mark.parametrize("collect", ["evidence", "python_stacks"])
def test_evidence_is_collected_once(run: _run.Run, monkeypatch: pytest.MonkeyPatch, collect: str) -> None:
    answer = {"changed": collect == "python_stacks", "evidence": {"ranks": {}}}
    result, given, _made = watch(run, [answer], monkeypatch, collect=collect)
    assert result == answer
    assert len(given) == 1
    assert not (run.path / "watch").exists()


def test_evidence_that_cannot_be_collected_fails(run: _run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleActionFail, match="no such thing"):
        watch(run, [{"failed": True, "msg": "no such thing"}], monkeypatch, collect="evidence")


def test_nothing_is_watched_in_check_mode_or_without_ranks(
    run: _run.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in ({"check": True}, {"ranks": []}):
        result, given, _made = watch(run, [over()], monkeypatch, **extra)
        assert result["skipped"]
        assert given == []


def test_a_task_that_is_written_wrong_fails(run: _run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnsibleActionFail, match="wieghts"):
        watch(run, [over()], monkeypatch, stage_limits={"wieghts": 3})
    made = action(launch_watch, {"ranks": RANKS}, False, "launch_watch")
    with pytest.raises(AnsibleActionFail, match="option run"):
        made.run(None, {"inventory_hostname": "n1"})


def test_without_a_launch_the_group_is_what_is_watched() -> None:
    members = launch_watch.members("n1", [{"rank": 0, "api_port": 8000}, {"rank": 1}], [])
    assert [(member.rank, member.api) for member in members] == [(0, True), (1, False)]


def test_a_connection_that_is_gone_at_the_end_keeps_the_result(
    run: _run.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _result, _given, made = watch(run, [over()], monkeypatch)
    monkeypatch.setattr(
        launch_watch.CarriedActionBase,
        "cleanup",
        lambda _self, force=False: _raise(AnsibleConnectionFailure("gone")),
    )
    made.cleanup()
    made._display.vv.assert_called_once()


def _raise(error: Exception) -> None:
    raise error
