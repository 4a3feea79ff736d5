# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch of a group, planned on the controller and written into its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.baseline.plugins.action import launch_plan
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Launch
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.tests.unit.plugins.action._host import action

HOSTS = ["tray1", "tray2"]
IDENTIFIER = "sha256:" + "a" * 64
MOUNTS = [{"source": "/m", "target": "/root/.cache/huggingface", "read_only": True}]
HOSTVARS = {
    "tray1": {"ansible_host": "10.0.0.1", "gpufleet_interface": "eth0"},
    "tray2": {"gpufleet_address": "10.0.0.2", "gpufleet_interface": "eth0"},
}


@pytest.fixture
def run(tmp_path: Path) -> _run.Run:
    return _run.open_run(tmp_path / "repro", "1 1", {"kind": "minimal"})


def plan(
    run: _run.Run | None, check: bool = False, hostvars: Any = None, **more: Any
) -> tuple[dict[str, Any], str]:
    arguments = {
        "run": str(run.path) if run else "",
        "hosts": HOSTS,
        "hardware": "gb300",
        "mounts": MOUNTS,
        **more,
    }
    made = action(launch_plan, arguments, check=check, name="launch_plan")
    made.validate_argument_spec = lambda spec: (
        None,
        {name: made._task.args.get(name, option.get("default")) for name, option in spec.items()},
    )
    told = made.run(None, {"hostvars": HOSTVARS if hostvars is None else hostvars})
    return told, "\n".join(call.args[0] for call in made._display.display.call_args_list)


def keep_facts(run: _run.Run, host: str, identifier: str) -> None:
    image = {"id": identifier, "tags": ["vllm/vllm-openai:kimi-k3"]}
    _run.write_json(run.path / "facts" / f"{host}.json", {"engine": {"images": {"value": [image]}}})


def test_written_into_the_run_with_the_image_of_its_facts(run: _run.Run) -> None:
    for host in HOSTS:
        keep_facts(run, host, IDENTIFIER)
    told, shown = plan(run)
    document = _run.read_json(run.path / "launch.json")
    launch = Launch.from_dict(document)
    assert launch.image is not None
    assert (launch.image.id, document["sha256"]) == (IDENTIFIER, told["sha256"])
    assert (told["api"], told["ready_seconds"], told["changed"]) == ({"tray1": 8000}, 3600, False)
    assert document["command"].count("docker run") == 2
    assert "tray1 10.0.0.1, from ansible_host: gpufleet_address is not set" in shown
    assert "tray2 10.0.0.2" not in shown
    assert told["launch"] == {key: document[key] for key in told["launch"]}


def test_the_same_launch_again_is_no_other(run: _run.Run) -> None:
    images = dict.fromkeys(HOSTS, IDENTIFIER)
    first, _shown = plan(run, images=images)
    again, _shown = plan(run, images=images)
    assert again["sha256"] == first["sha256"]
    with pytest.raises(AnsibleActionFail, match="begin a new run"):
        plan(run, images=images, env={"NCCL_IB_DISABLE": "1"})


def test_check_mode_shows_and_writes_nothing(run: _run.Run) -> None:
    told, shown = plan(run, check=True, images=dict.fromkeys(HOSTS, IDENTIFIER))
    assert "docker run" in shown
    assert told["path"] == ""
    assert not (run.path / "launch.json").exists()


def test_without_a_run_the_image_is_shown_by_its_name() -> None:
    told, shown = plan(None)
    assert told["launch"]["image"] == {"reference": "vllm/vllm-openai:kimi-k3", "id": ""}
    assert "(id not measured)" in shown


def test_hosts_with_other_images_are_named(run: _run.Run) -> None:
    keep_facts(run, "tray1", IDENTIFIER)
    with pytest.raises(AnsibleActionFail, match="none on tray2"):
        plan(run)
    keep_facts(run, "tray2", "sha256:" + "b" * 64)
    with pytest.raises(AnsibleActionFail, match="launch_plan: expected one id of the image"):
        plan(run)


def test_a_misspelt_host_is_told(run: _run.Run) -> None:
    with pytest.raises(AnsibleActionFail, match="found tray1"):
        plan(run, hostvars={})


def test_extra_variables_are_recorded_as_overrides(run: _run.Run) -> None:
    told, _shown = plan(run, images=dict.fromkeys(HOSTS, IDENTIFIER), env={"NCCL_IB_DISABLE": "1"})
    assert told["launch"]["overrides"] == {"env": {"NCCL_IB_DISABLE": "1"}}
    assert told["launch"]["ranks"][1]["env"]["NCCL_IB_DISABLE"] == "1"


def test_trace_needs_a_judged_run_with_logs(run: _run.Run) -> None:
    images = dict.fromkeys(HOSTS, IDENTIFIER)
    with pytest.raises(AnsibleActionFail, match="diagnostics=logs first"):
        plan(run, images=images, diagnostics="trace")
    plan(run, images=images, diagnostics="logs")
    following = _run.open_run(run.reproduction, "2 2", {"kind": "minimal"})
    with pytest.raises(AnsibleActionFail, match="diagnostics=logs first"):
        plan(following, images=images, diagnostics="trace")
    _run.write_json(run.path / "verdict.json", {"outcome": "failed"})
    told, _shown = plan(following, images=images, diagnostics="trace")
    assert told["launch"]["ranks"][0]["env"]["VLLM_TRACE_FUNCTION"] == "1"


def test_a_process(run: _run.Run) -> None:
    told, shown = plan(
        run, engine="process", process_executable="/opt/venv/bin/vllm", process_directory="/srv"
    )
    assert told["launch"]["image"] is None
    assert "cd /srv && env" in shown


def test_the_frozen_launch_needs_sealed_records(run: _run.Run) -> None:
    with pytest.raises(AnsibleActionFail, match="tray1: expected a sealed record"):
        plan(run, name="frozen")


def test_the_frozen_launch_of_a_named_run(run: _run.Run) -> None:
    words = ["/opt/venv/bin/vllm", "serve", "m", "--nnodes", "2", "--node-rank"]
    for number, host in enumerate(HOSTS):
        process = {
            "pid": 7,
            "argv": [*words, str(number)],
            "environment": ["A=1"],
            "working_directory": "/srv",
        }
        engine = {"plain_processes": [{"pid": 7, "engine_command": {}}], "processes": [process]}
        engine["plain_processes"][0]["engine_command"] = {"kind": "serve"}
        _run.write_json(run.path / "facts" / f"{host}.json", {"engine": engine})
    following = _run.open_run(run.reproduction, "2 2", {"kind": "minimal"})
    told, _shown = plan(following, name="frozen", frozen_run=str(run.path))
    assert [rank["host"] for rank in told["launch"]["ranks"]] == HOSTS
    assert told["launch"]["source"] == {"location": str(run.path)}
