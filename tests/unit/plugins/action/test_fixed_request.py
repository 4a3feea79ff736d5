# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.baseline.plugins.action import fixed_request
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _carried_action, _requests_kept, _run
from ansible_collections.gpufleet.baseline.tests.unit.plugins.action._host import action


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _run.Run:
    monkeypatch.setattr(_carried_action, "carried_archive", lambda: "")
    return _run.open_run(tmp_path / "repro", "1 1", {"kind": "request"})


def ask(run: _run.Run, check: bool = False, **arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The result, and what the module was given."""
    given: dict[str, Any] = {}
    made = action(fixed_request, {"run": str(run.path), **arguments}, check, "fixed_request")

    def execute(module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        given.update(module_args)
        return {"changed": False, "request": {"outcome": "answered"}}

    made._execute_module = execute
    return made.run_module(dict(made._task.args), {"inventory_hostname": "n1"}), given


def test_each_request_is_kept_under_a_number_of_its_own(run: _run.Run) -> None:
    first, given = ask(run)
    second, _given = ask(run)
    assert [Path(result["file"]).name for result in (first, second)] == ["001.json", "002.json"]
    assert given["redaction_key"] == run.key().hex()
    assert given["request_id"] == "gpufleet-repro-run-001"
    assert _requests_kept.kept(run) == [{"outcome": "answered", "host": "n1"}] * 2


def test_a_number_that_another_has_taken_is_not_taken_again(run: _run.Run) -> None:
    ask(run)
    # Ended between taking its number and writing.
    (run.path / "request" / "002.json").touch()
    (run.path / "request" / "001.json").rename(run.path / "request" / "003.json")
    assert Path(ask(run)[0]["file"]).name == "004.json"
    assert len(_requests_kept.kept(run)) == 2


def test_a_body_that_a_freeze_kept_is_no_request(run: _run.Run) -> None:
    ask(run)
    (run.path / "request" / "body.json").write_text('{"model": "m"}')
    assert len(_requests_kept.kept(run)) == 1
    assert Path(ask(run)[0]["file"]).name == "002.json"


def test_check_mode_writes_nothing(run: _run.Run) -> None:
    assert "file" not in ask(run, check=True)[0]
    assert _requests_kept.kept(run) == []


def test_a_run_that_cannot_be_written_is_one_clear_line(run: _run.Run) -> None:
    (run.path / "request").write_text("in the way")
    with pytest.raises(AnsibleActionFail, match="expected to write the request into"):
        ask(run)


def test_body_and_key_are_read_on_the_controller_and_their_paths_do_not_travel(
    run: _run.Run, tmp_path: Path
) -> None:
    (tmp_path / "body.json").write_text('{"model": "m"}')
    (tmp_path / "key").write_text("sk-1\n")
    _result, given = ask(run, body_file=str(tmp_path / "body.json"), api_key_file=str(tmp_path / "key"))
    assert (given["body"], given["api_key"]) == ('{"model": "m"}', "sk-1")
    assert not {"body_file", "api_key_file"} & set(given)
