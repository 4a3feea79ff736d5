# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""What is right in situations of which there is no worked case."""

from __future__ import annotations

from typing import Any

import pytest

from .scenes import (
    api_gone,
    failure,
    follower,
    head,
    judge,
    loaded,
    loading,
    ready,
    record,
    worker_gone,
    workers,
)

BASE = head() + workers() + loading()
HEAD = head() + workers(count=1)
FOLLOWER = follower() + workers(first=1, count=1)
LOST = "[rank1]:[W809 10:05:03.208437113 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=90): Failed to recv, got 0 bytes."
EXITED = {"Status": "exited", "Running": False, "ExitCode": 137, "OOMKilled": False}
ENGINE_DEAD = failure(
    "APIServer pid=1", "10:05:01", "AsyncLLM output_handler failed.", "output_handler",
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
)  # fmt: skip


def beat(minute: int) -> str:
    text = "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes hang"
    return record("EngineCore pid=80", f"10:{minute:02}:00", "shm_broadcast.py:801", text)


def kernel(line: str) -> tuple[list[str], dict[str, Any]]:
    return [line], {"kind": "kernel", "path": "kernel.log", "node": 0}


def brief(verdict: dict[str, Any]) -> tuple[Any, ...]:
    return verdict["outcome"], verdict["stage"], verdict["failure_class"], verdict["line"]


# A worker that is killed from outside


def test_a_worker_that_vanishes_while_loading_points_outside_the_log() -> None:
    verdict = judge(BASE + worker_gone())
    assert brief(verdict) == ("failed", "weights", "host-oom-killed", len(BASE) + 1)
    assert verdict["confidence"] == "low"
    assert "not in this log; look at the kernel log" in verdict["message"]


def test_the_container_state_makes_it_sure() -> None:
    verdict = judge(BASE + worker_gone(), state={**EXITED, "OOMKilled": True})
    assert (verdict["failure_class"], verdict["confidence"]) == ("host-oom-killed", "high")


@pytest.mark.parametrize(("clock", "confidence"), [("10:00:38.1", "high"), ("08:00:38.1", "medium")])
def test_the_kernel_log_makes_it_sure_when_its_time_fits(clock: str, confidence: str) -> None:
    line = f"2026-08-09T{clock}+00:00 h kernel: Memory cgroup out of memory: Killed process 42 (VLLM::Worker_TP0) total-vm:1kB"
    verdict = judge(BASE + worker_gone(), kernel(line))
    assert (verdict["failure_class"], verdict["confidence"]) == ("host-oom-killed", confidence)
    assert verdict["path"] == "node0.log"
    assert verdict["evidence"][-1]["path"] == "kernel.log"


def test_a_kernel_message_at_another_time_explains_nothing() -> None:
    line = "2026-08-09T03:11:12.1+00:00 h kernel: Out of memory: Killed process 42 (VLLM::Worker_TP0) total-vm:1kB"
    assert judge(BASE + worker_gone(), kernel(line))["confidence"] == "low"


def test_a_kernel_message_does_not_replace_a_cause_that_the_log_names() -> None:
    raised = "ValueError: No available memory for the cache blocks."
    log = head() + failure(
        "EngineCore pid=80", "10:00:30", "EngineCore failed to start.", "get_kv_cache_configs", raised
    )
    xid = "2026-08-09T10:00:20.1+00:00 h kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=2, name=VLLM::EngineCor, MMU Fault"
    assert judge(log + api_gone(), kernel(xid))["failure_class"] == "kv-cache-no-memory"


def test_another_programs_fault_is_not_the_engines() -> None:
    raised = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    log = BASE + loaded() + ready()
    log += (
        failure("Worker_TP1 pid=301", "10:05:00", "WorkerProc hit an exception.", "execute_model", raised)
        + ENGINE_DEAD
    )
    xid = (
        "2026-08-09T10:05:00.1+00:00 h kernel: NVRM: Xid (PCI:0000:01:00): 31, pid=2, name=blender, MMU Fault"
    )
    assert judge(log, kernel(xid))["failure_class"] == "cuda-illegal-memory-access"


def test_a_gpu_that_fell_off_the_bus_before_the_start() -> None:
    raised = "RuntimeError: No CUDA GPUs are available"
    log = (
        head()
        + failure("EngineCore pid=80", "10:00:30", "EngineCore failed to start.", "_lazy_init", raised)
        + api_gone()
    )
    xid = "2026-08-09T09:30:00.1+00:00 h kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    assert brief(judge(log, kernel(xid)))[:3] == ("failed", "devices", "gpu-xid-79")


# Container state


def test_killed_for_memory_before_the_first_line() -> None:
    verdict = judge([], state={**EXITED, "OOMKilled": True})
    assert brief(verdict) == ("failed", "container", "host-oom-killed", None)


def test_a_container_that_never_started_tells_the_daemons_reason() -> None:
    error = 'could not select device driver "" with capabilities: [[gpu]]'
    verdict = judge([], state={"Status": "created", "Running": False, "ExitCode": 128, "Error": error})
    assert brief(verdict) == ("failed", "container", "toolkit-missing", None)


def test_a_log_that_simply_ends_and_code_137() -> None:
    verdict = judge(BASE, state=EXITED)
    assert brief(verdict) == ("failed", "weights", "killed", None)


def test_an_empty_log_is_unknown() -> None:
    assert brief(judge([])) == ("unknown", "none", "none", None)


# Several hosts


def test_the_first_of_two_failures_of_a_follower_that_was_restarted() -> None:
    remote = "torch.distributed.DistBackendError: NCCL error in: x.cpp:93, remote process exited or there was a network error"
    refused = "zmq.error.ZMQError: Address already in use (addr='tcp://10.0.0.2:13345')"
    late = "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (a, 1)."
    one = HEAD + failure("Worker pid=300", "10:05:02", "WorkerProc failed to start.", "init_device", remote)
    other = FOLLOWER + failure(
        "Worker pid=301", "10:05:00", "WorkerProc failed to start.", "init_device", refused
    )
    other += follower("10:05:30") + workers("10:05:40", first=1, count=1)
    other += failure("Worker pid=301", "10:15:40", "WorkerProc failed to start.", "init_device", late)
    verdict = judge(one, other)
    assert brief(verdict) == ("failed", "engine", "internal-port-in-use", 3)
    assert verdict["node"] == 1
    assert [row["failure_class"] for row in verdict["runs"] if not row["judged"]] == ["rendezvous-timeout"]


def test_a_follower_alone_names_the_other_node() -> None:
    raised = "torch.distributed.DistBackendError: NCCL error in: x.cpp:93, remote process exited or there was a network error"
    log = FOLLOWER + failure(
        "Worker pid=301", "10:05:00", "WorkerProc failed to start.", "init_device", raised
    )
    verdict = judge((log, {"node": 1}))
    assert (verdict["failure_class"], verdict["confidence"]) == ("nccl-remote-peer", "low")
    assert verdict["message"].startswith("The cause is not in this log; look at node 0.")


def test_a_head_that_is_gone_without_a_word() -> None:
    verdict = judge(HEAD + loaded() + ready(), FOLLOWER + [LOST] * 3)
    assert brief(verdict) == ("failed", "runtime", "peer-lost", 3)
    assert "look at node 0, whose log ends without a word" in verdict["message"]
    assert verdict["signature"]["exits"] == {"0": "silent", "1": "down"}


def test_a_head_that_was_stopped_leaves_no_failure_behind() -> None:
    stop = [
        record("APIServer pid=1", "10:05:00", "launcher.py:100", "[shutdown] API server: shutdown triggered")
    ]
    assert brief(judge(HEAD + loaded() + ready() + stop, FOLLOWER + [LOST] * 3)) == (
        "stopped",
        "none",
        "none",
        None,
    )


@pytest.mark.parametrize(("offset", "node"), [(0.0, 1), (60.0, 0)])
def test_clock_offsets_decide_which_host_failed_first(offset: float, node: int) -> None:
    raised = "torch.AcceleratorError: CUDA error: all CUDA-capable devices are busy or unavailable"
    one = HEAD + failure("Worker pid=300", "10:00:30", "WorkerProc failed to start.", "init_device", raised)
    other = FOLLOWER + failure(
        "Worker pid=301", "10:00:20", "WorkerProc failed to start.", "init_device", raised
    )
    # Node 1 wrote 10:00:20; with its clock 60 s behind, that was 10:01:20 on node 0.
    verdict = judge(one, (other, {"clock_offset_seconds": -offset}))
    assert verdict["node"] == node


def test_a_refused_connection_that_is_tried_again_is_no_failure() -> None:
    refused = "[W809 10:00:16.208437 socket.cpp:767] [c10d] The client socket has failed to connect to [h]:29501 (errno: 111 - Connection refused)."
    assert judge(HEAD + loaded() + ready(), [*FOLLOWER, refused])["outcome"] == "ready"
    assert judge(HEAD, [*FOLLOWER, refused])["failure_class"] == "hang"


# Slow, hung, stopped


def test_heartbeats_before_a_late_start_are_harmless() -> None:
    assert (
        judge(BASE + loaded() + [beat(minute) for minute in range(2, 9)] + ready("10:09:00"))["outcome"]
        == "ready"
    )


def test_progress_between_heartbeats_is_no_evidence_of_a_hang() -> None:
    log = list(BASE)
    for minute in range(2, 9):
        log += [
            beat(minute),
            record(
                "Worker_TP0 pid=300",
                f"10:{minute:02}:30",
                "w.py:1",
                f"Prefetching checkpoint files: {minute}% ({minute}/99)",
            ),
        ]
    assert judge(log)["confidence"] == "low"


def test_heartbeats_while_a_request_waits_are_a_hang_at_runtime() -> None:
    verdict = judge(BASE + loaded() + ready() + [beat(minute) for minute in range(5, 9)])
    assert brief(verdict)[:3] == ("hung", "runtime", "hang")


def test_told_to_stop_before_it_was_ready() -> None:
    stop = record(
        "EngineCore pid=80", "10:05:00", "core.py:1", "[shutdown] EngineCore: trigger received signal=SIGTERM"
    )
    verdict = judge([*BASE, stop])
    assert brief(verdict)[:3] == ("stopped", "api", "readiness-timeout")
    assert verdict["confidence"] == "low"


def _docker(lines: list[str]) -> list[str]:
    return [f"2026-08-09T08:00:{number:02}.5Z {line}" for number, line in enumerate(lines)]


@pytest.mark.parametrize(("later", "outcome"), [(60, "running"), (7200, "hung")])
def test_the_moment_of_observation_tells_a_young_start_from_a_hung_one(later: int, outcome: str) -> None:
    # The container's clock runs two hours ahead of UTC: 10:00 in the records is 08:00 in the runtime's times.
    started = 1786262400  # 2026-08-09 08:00:00 UTC
    assert judge(_docker(BASE), observed_at=started + later)["outcome"] == outcome
