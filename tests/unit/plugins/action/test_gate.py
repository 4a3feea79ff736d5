# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge's action: what is shown, what is written, and how it ends when something is wrong."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.baseline.plugins.action import gate
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.tests.unit.plugins.action._host import action
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import document


@pytest.fixture
def run(tmp_path: Path) -> _run.Run:
    return _run.open_run(tmp_path / "repro", "1 1", {"kind": "gate"})


def variables(run: _run.Run, *numbers: int) -> dict[str, Any]:
    """What the tasks of the role left for healthy trays."""
    hostvars = {}
    for number in numbers:
        made = document(number)
        hostvars[f"n{number}"] = {
            gate.DOCUMENT: {
                "run": str(run.path),
                "asked": 1796040000.0,
                "heard": 1796040001.0,
                "gpu_info": {"gpu": made["gpu"], "host": made["host"]},
                "engine_info": {"engine": made["engine"]},
            }
        }
    return {"hostvars": hostvars, "ansible_play_hosts_all": list(hostvars)}


def judge(run: _run.Run, task_vars: dict[str, Any], **arguments: Any) -> tuple[dict[str, Any], str]:
    made = action(gate, {"run": str(run.path), **arguments}, name="gate")
    result = made.run(task_vars=task_vars)
    return result, shown(made)


def shown(made: Any) -> str:
    return "\n".join(str(call.args[0]) for call in made._display.display.call_args_list)


def test_two_healthy_trays_pass_and_everything_is_written(run: _run.Run) -> None:
    result, text = judge(run, variables(run, 1, 2))
    assert (result["failed"], result["verdict"], result["score"]) == (False, "pass", 4)
    assert "Gate run-001: PASS" in text
    written = json.loads((run.path / "gate.json").read_text())
    assert written["score"]["points"] == result["score"]
    assert {path.name for path in run.path.iterdir()} >= {
        "gate.json",
        "gate.xml",
        "gate.txt",
        "facts",
        "SHA256SUMS",
    }
    assert run.document()["state"] == "complete"


def test_one_tray_is_too_few_and_ends_with_the_reason(run: _run.Run) -> None:
    result, _text = judge(run, variables(run, 1))
    assert result["failed"]
    assert result["msg"].startswith(
        "gate: fail: gpu.count (group): the launch group has 4 GPUs, 8 are needed"
    )


def test_a_full_disk_takes_the_judgement_from_nobody(run: _run.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _document: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(_run, "write_json", full)
    made = action(gate, {"run": str(run.path)}, name="gate")
    with pytest.raises(
        AnsibleActionFail, match=r"expected to write the judgement into .*run-001, found: No space"
    ):
        made.run(task_vars=variables(run, 1, 2))
    assert "Gate run-001: PASS" in shown(made)


def test_an_error_is_told_once(run: _run.Run) -> None:
    made = action(gate, {"run": str(run.path), "boundary": "kimi-k4"}, name="gate")
    with pytest.raises(AnsibleActionFail, match="found kimi-k4") as caught:
        made.run(task_vars=variables(run, 1, 2))
    # Ansible appends the text of a cause to that of the error.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_message_cannot_act_on_the_terminal(run: _run.Run) -> None:
    found = variables(run, 1, 2)
    found["hostvars"]["n2"][gate.DOCUMENT]["gpu_info"] = {"unreachable": True, "msg": "\x1b[2J gone"}
    result, text = judge(run, found)
    assert result["failed"]
    assert "\x1b" not in result["msg"] + text
