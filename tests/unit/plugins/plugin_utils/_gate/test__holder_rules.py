# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds the GPUs: free, own, foreign, stale, or nobody who can be seen (T19)."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import Options
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    changed,
    document,
    fact,
    judged,
    verdict,
    with_engine,
)


def holder(pid: int, command: str, **more: Any) -> dict[str, Any]:
    return {
        "pid": pid,
        "parent": 77,
        "command": command,
        "user": "alice",
        "state": "S",
        "started": "2026-11-30T08:00:00Z",
        "cgroup": ["0::/user.slice/session-4.scope"],
        "container_ids": [],
        "daemon": None,
        "in_proc": True,
        "gpus": [{"uuid": "GPU-x", "memory_used": 64 * 2**30}],
        **more,
    }


def held(*holders: dict[str, Any]) -> dict[str, Any]:
    return changed(document(1), gpu__holders=fact(list(holders)))


def test_t19_a_foreign_process_is_named_with_owner_age_memory_and_place() -> None:
    result = judged([held(holder(3396, "python3")), document(2)])
    finding = about(result, "gpu.holders", "n1")
    assert finding.answer.verdict == "fail"
    assert finding.answer.found == (
        "process 3396 python3 of alice since 2026-11-30T08:00:00Z with 65536 MiB in /user.slice/session-4.scope"
    )
    assert "nothing is stopped" in finding.answer.remedy
    assert verdict(result, "gpu.holders", "n2") == "pass"


def test_daemons_and_allowed_processes_are_no_strangers() -> None:
    documents = [
        held(holder(9, "nvidia-persiste", daemon="nvidia-persistenced"), holder(10, "dcgm-x")),
        document(2),
    ]
    assert verdict(judged(documents), "gpu.holders", "n1") == "fail"
    options = Options(allowed_processes=("dcgm*",))
    assert verdict(judged(documents, options=options), "gpu.holders", "n1") == "pass"


def test_the_groups_own_engine_may_hold_its_gpus() -> None:
    own = with_engine(held(holder(4711, "python3")))
    assert verdict(judged([own, with_engine(document(2))]), "gpu.holders", "n1") == "pass"
    inside = with_engine(held(holder(5000, "python3", container_ids=["c" * 64])))
    assert verdict(judged([inside, with_engine(document(2))]), "gpu.holders", "n1") == "pass"


def test_t19_a_worker_of_an_engine_that_is_gone_is_stale() -> None:
    finding = about(judged([held(holder(5, "VLLM::Worker_TP", parent=1)), document(2)]), "gpu.holders", "n1")
    assert finding.answer.verdict == "fail"
    assert "worker of a vLLM that is gone" in finding.answer.reason


def test_t19_a_left_over_worker_is_no_engine() -> None:
    made = held(holder(5, "VLLM::Worker_TP", parent=1))
    made["engine"]["plain_processes"] = [{"pid": 5}]
    made["engine"]["processes"] = [{"pid": 5, "title": "Worker_TP1", "leader": True}]
    result = judged([made, document(2)])
    assert verdict(result, "gpu.holders", "n1") == "fail"
    assert verdict(result, "engine.vllm") == "not applicable"


def test_t19_a_process_that_only_the_driver_names() -> None:
    ghost = holder(666, "", in_proc=False, state=None, user=None, started=None, cgroup=[])
    finding = about(judged([held(ghost), document(2)]), "gpu.holders", "n1")
    assert "the host has no such process" in finding.answer.reason


def test_memory_that_nobody_holds() -> None:
    made = changed(document(1), gpu__gpus__3__now__memory_used=fact(254512 * 2**20))
    finding = about(judged([made, document(2)]), "gpu.holders", "n1")
    assert finding.answer.verdict == "fail"
    assert "254512 MiB in use on 0003:06:00.0" in finding.answer.found


def test_the_drivers_own_memory_is_none() -> None:
    # The older call counts what the driver reserves as used.
    made = changed(
        document(1),
        gpu__gpus__3__now__memory_used=fact(644939776),
        gpu__gpus__3__now__memory_reserved=fact(None, "absent", "older call"),
    )
    assert verdict(judged([made, document(2)]), "gpu.holders", "n1") == "pass"


def test_t29_processes_that_were_not_read_leave_it_undecided() -> None:
    unread = changed(document(1), gpu__gpus__0__processes=fact(None, "denied", "no permission"))
    result = judged([unread, document(2)])
    assert verdict(result, "gpu.holders", "n1") == "undecided"
    assert result.needs_root() == {"n1": ["gpu.holders"]}
    none = changed(document(1), gpu__holders=fact(None, "timeout", "no end within 30 s"))
    assert verdict(judged([none, document(2)]), "gpu.holders", "n1") == "undecided"


def test_open_files_of_others_need_not_be_read_when_the_driver_names_all_processes() -> None:
    partly = changed(document(1), gpu__holders=fact([], "denied", "may be read by root only"))
    assert verdict(judged([partly, document(2)]), "gpu.holders", "n1") == "pass"


def test_variables_of_a_scheduler() -> None:
    engine = {"environment": ["SLURM_JOB_ID=7", "SLURM_PROCID=0", "HOME=/root"]}
    finding = about(
        judged([with_engine(document(1), **engine), with_engine(document(2))]), "engine.scheduler", "n1"
    )
    assert finding.answer.verdict == "warn"
    assert finding.answer.found == "vllm: SLURM_JOB_ID, SLURM_PROCID"


GONE = "e" * 64
IN_DOCKER = {"cgroup": [f"0::/system.slice/docker-{GONE}.scope"], "container_ids": [GONE]}


def listed(made: dict[str, Any], *containers: tuple[str, str]) -> dict[str, Any]:
    rows = [{"id": identifier, "name": "x", "state": state} for identifier, state in containers]
    made["engine"]["listed_containers"] = fact(rows)
    return made


@pytest.mark.parametrize("command", ["python3", "VLLM::EngineCore", "vllm"])
def test_t19_a_process_whose_container_was_removed_is_stale_and_names_it(command: str) -> None:
    made = listed(held(holder(5, command, **IN_DOCKER)), ("c" * 64, "running"))
    finding = about(judged([made, document(2)]), "gpu.holders", "n1")
    assert finding.answer.verdict == "fail"
    assert "a left-over process holds GPU memory" in finding.answer.reason
    assert "its container eeeeeeeeeeee was removed" in finding.answer.reason


def test_t19_an_engine_command_that_outlived_its_container_is_no_engine_of_the_group() -> None:
    made = listed(held(holder(5, "vllm", **IN_DOCKER)))
    made["engine"]["plain_processes"] = [{"pid": 5}]
    made["engine"]["processes"] = [{"pid": 5, "title": "vllm", "leader": True}]
    assert "was removed" in about(judged([made, document(2)]), "gpu.holders", "n1").answer.reason


def test_t19_a_container_that_ended_and_left_a_process() -> None:
    made = listed(held(holder(5, "python3", **IN_DOCKER)), (GONE, "exited"))
    assert (
        "eeeeeeeeeeee is not running" in about(judged([made, document(2)]), "gpu.holders", "n1").answer.reason
    )


@pytest.mark.parametrize(
    ("cgroup", "containers"),
    [
        (IN_DOCKER["cgroup"], [(GONE, "running")]),  # somebody else's container
        (IN_DOCKER["cgroup"], [(GONE, "paused")]),
        (IN_DOCKER["cgroup"], None),  # nobody could list them
        ([f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{GONE}.scope"], []),
        ([f"0::/user.slice/user-1000.slice/user@1000.service/docker-{GONE}.scope"], []),
    ],
)
def test_t19_a_container_of_others_is_foreign_and_not_stale(cgroup: Any, containers: Any) -> None:
    made = held(holder(5, "python3", cgroup=cgroup, container_ids=[GONE]))
    if containers is not None:
        listed(made, *containers)
    finding = about(judged([made, document(2)]), "gpu.holders", "n1")
    assert finding.answer.verdict == "fail"
    assert "belongs to no engine of this group" in finding.answer.reason
