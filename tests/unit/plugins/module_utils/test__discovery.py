# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containers and processes are an engine's follows from the first answers."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery, discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import ProcessLine

ID = "0123456789abcdef" * 4
SERVE = ["/opt/venv/bin/python3", "/opt/venv/bin/vllm", "serve", "M"]


def line(
    pid: int, parent: int, argv: list[str], cgroup: str = "0::/", namespace: str = "pid:[1]"
) -> dict[str, Any]:
    return vars(ProcessLine(pid, parent, argv[0] if argv else "x", "S", 1, cgroup, namespace, argv))


def discover(
    lines: list[dict[str, Any]], inspects: list[dict[str, Any]] | None = None, **options: Any
) -> Discovery:
    listed = {"list": inspects or [], "inspects": {item["Id"]: item for item in inspects or []}, "failed": {}}
    answers = {
        "docker.containers": Probe("docker.containers", "ok", listed),
        "engine.processes": Probe("engine.processes", "ok", lines),
    }
    return discovery(answers, options)


PLAIN = [
    line(1, 0, ["/sbin/init"]),
    line(50, 1, ["tmux: server"]),
    line(60, 50, ["bash", "-c", "vllm serve M"]),
    line(70, 60, SERVE),
    line(71, 70, ["VLLM::EngineCore"]),
    line(72, 71, ["VLLM::Worker_TP0"]),
    line(73, 71, ["python3", "-c", "from multiprocessing.resource_tracker"]),
    line(99, 1, ["nginx"]),
]


def test_a_plain_engine_with_everything_below_it() -> None:
    found = discover(PLAIN)
    assert [(process.line.pid, process.leader) for process in found.processes] == [
        (60, False),
        (70, True),
        (71, False),
        (72, False),
        (73, False),
    ]
    assert found.processes[1].ancestors == ["bash", "tmux: server", "/sbin/init"]
    assert found.notes == []


def test_t19_a_worker_that_outlived_its_engine_stands_for_itself() -> None:
    found = discover(
        [line(1, 0, ["init"]), line(72, 1, ["VLLM::Worker_TP0"]), line(73, 72, ["VLLM::Worker_TP1"])]
    )
    assert [(process.line.pid, process.leader) for process in found.processes] == [(72, True), (73, False)]


def test_processes_belong_to_the_container_of_their_cgroup() -> None:
    inspect = {"Id": ID, "Name": "/x", "State": {"Pid": 200}, "Config": {}, "HostConfig": {}}
    lines = [line(1, 0, ["init"]), line(200, 1, SERVE, f"0::/docker/{ID}", "pid:[2]")]
    found = discover(lines, [inspect])
    assert [choice.why for choice in found.containers] == ["a process of vLLM runs in it"]
    assert [(process.container, process.leader) for process in found.processes] == [(ID, False)]


def test_processes_belong_to_the_container_of_their_namespace_where_no_cgroup_says_it() -> None:
    inspect = {"Id": ID, "Name": "/x", "State": {"Pid": 200}, "Config": {}, "HostConfig": {}}
    lines = [
        line(1, 0, ["init"]),
        line(200, 1, ["sh"], namespace="pid:[2]"),
        line(201, 200, SERVE, namespace="pid:[2]"),
    ]
    assert {process.line.pid: process.container for process in discover(lines, [inspect]).processes} == {
        200: ID,
        201: ID,
    }


def test_a_container_with_the_hosts_process_namespace_does_not_own_the_host() -> None:
    inspect = {"Id": ID, "Name": "/x", "State": {"Pid": 200}, "Config": {"Image": "vllm"}, "HostConfig": {}}
    lines = [line(1, 0, ["init"]), line(200, 1, ["sh"], f"0::/docker/{ID}"), line(99, 1, ["nginx"])]
    assert [process.line.pid for process in discover(lines, [inspect]).processes] == [200]


def test_an_engine_in_a_runtime_that_was_not_asked_is_found_through_its_process() -> None:
    lines = [line(1, 0, ["init"]), line(300, 1, SERVE, f"0::/kubepods/besteffort/podx/{ID}", "pid:[9]")]
    (process,) = discover(lines).processes
    assert (process.container, process.leader) == ("", True)


def test_the_user_names_processes() -> None:
    found = discover(PLAIN, processes=[99, 12345])
    assert [(process.line.pid, process.leader) for process in found.processes] == [(99, True)]
    assert found.notes == ["process 12345 is not on this host"]


def test_named_containers_leave_plain_engines_alone() -> None:
    found = discover(PLAIN, containers=["x"])
    assert found.processes == []
    assert found.notes == ["container x is not on this host"]


def test_nothing_found_is_said() -> None:
    assert discover([line(1, 0, ["init"])]).notes == [
        "none of 0 containers and no process looks like vLLM or asks for GPUs"
    ]


def test_t29_containers_that_could_not_be_asked_are_not_called_none() -> None:
    answers = {"docker.containers": Probe("docker.containers", "denied", message="permission denied")}
    assert discovery(answers, {}).notes == [
        "no process looks like vLLM; containers are not known: denied, permission denied"
    ]
    assert discovery({}, {}).notes == [
        "no process looks like vLLM; containers are not known: the Engine was not asked"
    ]


def test_more_processes_than_are_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_discovery, "PROCESSES_AT_MOST", 2)
    found = discover(PLAIN)
    assert len(found.processes) == 2
    assert found.processes[0].leader
    assert found.notes == ["5 processes belong to engines, 2 of them are read"]


def test_t1_a_list_with_gaps_is_not_called_whole() -> None:
    listed = {"list": [], "inspects": {}, "failed": {ID: ["absent", "status 404"]}}
    answers = {
        "docker.containers": Probe("docker.containers", "timeout", listed, message="no answer within 30 s"),
        "engine.processes": Probe("engine.processes", "timeout", PLAIN[:1], message="no answer within 20 s"),
    }
    assert discovery(answers, {}).notes[:3] == [
        "the list of containers is not whole: timeout, no answer within 30 s",
        "the list of processes is not whole: timeout, no answer within 20 s",
        "container 0123456789ab was not read: absent, status 404",
    ]


def test_an_engine_that_may_not_be_asked_hides_containers_and_does_not_deny_them() -> None:
    answers = {
        "docker.containers": Probe("docker.containers", "denied", message="permission denied"),
        "engine.processes": Probe("engine.processes", "ok", PLAIN),
    }
    assert discovery(answers, {}).notes == ["containers are not known: denied, permission denied"]
    assert discovery(answers, {"containers": ["kimi"]}).notes == [
        "container kimi is not known: denied, permission denied"
    ]


def test_without_an_engine_there_are_no_containers_to_miss() -> None:
    answers = {
        "docker.containers": Probe("docker.containers", "absent", message="no socket"),
        "engine.processes": Probe("engine.processes", "ok", PLAIN),
    }
    assert discovery(answers, {}).notes == []
    assert discovery(answers, {"containers": ["kimi"]}).notes == ["container kimi is not on this host"]
