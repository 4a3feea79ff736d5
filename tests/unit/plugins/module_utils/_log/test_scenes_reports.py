# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""What is right in situations met in public reports, of which there is no worked case."""

from __future__ import annotations

import pytest

from .scenes import api_gone, failure, head, judge, loaded, loading, ready, record, worker_gone, workers

BASE = head() + workers() + loading()
SERVED = BASE + loaded() + ready()
API_TRACE = ["Traceback (most recent call last):", '  File "/x/vllm/entrypoints/api_server.py", line 7, in x']
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def _api(lines: list[str]) -> list[str]:
    return ["(APIServer pid=1) " + line for line in lines]


def _started(raised: str, function: str) -> list[str]:
    return head() + failure("EngineCore pid=80", "10:00:30", "EngineCore failed to start.", function, raised)


@pytest.mark.parametrize(
    ("raised", "function", "stage", "failure_class"),
    [
        ("torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "init_device", "devices", "device-busy"),
        (
            "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed",
            "get_kv_cache_configs", "engine", "kv-cache-max-len",
        ),
        (
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the placement group.",
            "initialize_ray_cluster", "devices", "gpu-count-mismatch",
        ),
        ("ImportError: /x/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab", "<module>", "devices", "cuda-library-missing"),
    ],
)  # fmt: skip
def test_texts_of_reports(raised: str, function: str, stage: str, failure_class: str) -> None:
    verdict = judge(_started(raised, function) + api_gone())
    found = (verdict["stage"], verdict["failure_class"], verdict["line"], verdict["confidence"])
    assert found == (stage, failure_class, len(head()) + 1, "high")


def test_workers_of_old_versions_carry_their_rank_in_the_prefix() -> None:
    log = [
        line.replace("(Worker_TP0 pid", "(VllmWorker rank=0 pid") for line in head() + loading() + loaded()
    ]
    died = failure(
        "VllmWorker rank=1 pid=301", "10:01:30", "WorkerProc hit an exception.", "profile_run", OOM
    )
    verdict = judge(log + died + worker_gone("10:01:32"))
    assert (verdict["failure_class"], verdict["line"]) == ("cuda-oom-profiling", len(log) + 1)
    assert (verdict["process"], verdict["rank"]) == ("VllmWorker", 1)


def test_an_error_that_uvicorn_caught_leaves_the_engine_ready() -> None:
    caught = _api(["ERROR:    Exception in ASGI application", *API_TRACE, "KeyError: 'choices'"])
    assert judge(SERVED + caught)["outcome"] == "ready"
    assert judge(SERVED + _api([*API_TRACE, "KeyError: 'choices'"]))["outcome"] == "failed"


def test_sigterm_before_the_server_listens() -> None:
    verdict = judge(BASE + _api([*API_TRACE, "KeyboardInterrupt: terminated"]))
    assert (verdict["outcome"], verdict["failure_class"]) == ("stopped", "readiness-timeout")
    assert verdict["confidence"] == "low"


def test_a_sigterm_after_a_failure_is_only_its_end() -> None:
    died = failure("Worker_TP1 pid=301", "10:00:30", "WorkerProc failed to start.", "load_model", OOM)
    verdict = judge(BASE + died + _api([*API_TRACE, "KeyboardInterrupt: terminated"]))
    assert (verdict["outcome"], verdict["failure_class"]) == ("failed", "cuda-oom-weights")


def test_custom_all_reduce_ends_a_worker_with_one_line_of_its_own() -> None:
    log = BASE + loaded()
    progress = "\rCapturing CUDA graphs (PIECEWISE): 100%|##########| 51/51 [00:47<00:00,  1.08it/s]"
    own = "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'"
    text = "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."
    died = record("EngineCore pid=80", "10:01:41", "multiproc_executor.py:284", text, "ERROR")
    verdict = judge([*log, progress, own, died] + api_gone())
    found = (verdict["stage"], verdict["substage"], verdict["failure_class"], verdict["line"])
    assert found == ("engine", "graph-capture", "custom-all-reduce", len(log) + 2)


def test_an_engine_core_killed_while_loading_is_placed_where_it_was() -> None:
    log = [line.replace("(Worker_TP0 pid=300)", "(EngineCore pid=80)") for line in BASE]
    gone = [line.replace("{}", "{'EngineCore': -9}") for line in api_gone()]
    verdict = judge(log + gone)
    assert (verdict["stage"], verdict["failure_class"]) == ("weights", "host-oom-killed")
    assert verdict["confidence"] == "low"
    assert judge(log + api_gone())["stage"] == "weights"


def test_ray_that_ends_a_worker_for_memory() -> None:
    raylet = "(raylet) [2026-08-09 10:00:40,000 E 99 99] (raylet) node_manager.cc:3007: 1 Workers (tasks / actors) killed due to memory pressure (OOM)"
    verdict = judge([*BASE, raylet] + worker_gone())
    assert (verdict["failure_class"], verdict["line"]) == ("host-oom-killed", len(BASE) + 1)
    assert verdict["confidence"] == "medium"


def test_a_rank_that_did_not_arrive_over_gloo_is_a_symptom() -> None:
    raised = "RuntimeError: [/x/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
    died = failure("Worker pid=301", "10:31:00", "WorkerProc failed to start.", "in_the_same_node_as", raised)
    verdict = judge(head() + workers() + died + worker_gone("10:31:03"))
    found = (verdict["stage"], verdict["failure_class"], verdict["confidence"])
    assert found == ("engine", "gloo-timeout", "low")


def test_an_unreachable_peer_while_serving_is_a_failure_of_runtime() -> None:
    warn = (
        "[2026-08-09 10:05:00] gpu1:300:412 [0] transport/net_ib.cc:23 NCCL WARN NET/IB: Got completion from peer "
        "10.0.0.2<4> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=1 vendor err 129 (Send)"
    )
    raised = "torch.distributed.DistBackendError: NCCL error in: x.cpp:3690, remote process exited or there was a network error"
    died = failure("Worker_TP0 pid=300", "10:05:00", "WorkerProc hit an exception.", "execute_model", raised)
    verdict = judge([*SERVED, warn] + died)
    found = (verdict["stage"], verdict["failure_class"], verdict["line"])
    assert found == ("runtime", "nccl-ib-transport", len(SERVED) + 1)


def test_a_device_failure_in_the_second_of_a_memory_shortage_goes_first() -> None:
    log = BASE + loaded()
    image = "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    short = failure("Worker_TP0 pid=300", "10:01:30", "WorkerProc hit an exception.", "profile_run", OOM)
    fault = failure("Worker_TP1 pid=301", "10:01:30", "WorkerProc hit an exception.", "profile_run", image)
    verdict = judge(log + short + fault + worker_gone("10:01:32"))
    assert (verdict["failure_class"], verdict["confidence"]) == ("unsupported-arch", "medium")
    later = failure("Worker_TP1 pid=301", "10:01:31", "WorkerProc hit an exception.", "profile_run", image)
    assert judge(log + short + later + worker_gone("10:01:32"))["failure_class"] == "cuda-oom-profiling"


def _thread(name: str) -> list[str]:
    raised = "requests.exceptions.ConnectionError: HTTPSConnectionPool: Max retries exceeded with url: / (x)"
    return [f"Exception in thread Thread-3 ({name}):", *API_TRACE, raised]


@pytest.mark.parametrize("name", ["_report_usage_worker", "worker"])
def test_an_exception_that_ended_only_a_thread_is_no_cause_beside_another(name: str) -> None:
    assert judge(SERVED + _thread(name))["outcome"] == "ready"
    raised = "safetensors_rust.SafetensorError: Error while deserializing header: header too large"
    died = failure("Worker_TP1 pid=301", "10:00:30", "WorkerProc failed to start.", "load_model", raised)
    verdict = judge(head() + _thread(name) + workers() + loading() + died + worker_gone())
    assert (verdict["failure_class"], verdict["confidence"]) == ("checkpoint-corrupt", "high")


@pytest.mark.parametrize(("log", "confidence"), [(SERVED, "medium"), (BASE, "low")])
def test_a_container_that_ended_with_code_0_is_neither_ready_nor_hung(
    log: list[str], confidence: str
) -> None:
    verdict = judge(log, state={"Status": "exited", "Running": False, "ExitCode": 0, "OOMKilled": False})
    assert (verdict["outcome"], verdict["confidence"]) == ("stopped", confidence)


def test_a_container_that_was_never_started_did_not_end() -> None:
    state = {"Status": "created", "Running": False, "ExitCode": 0, "StartedAt": "0001-01-01T00:00:00Z"}
    verdict = judge([], state=state)
    assert (verdict["outcome"], verdict["confidence"]) == ("unknown", "high")
    assert verdict["message"] == "The container was never started."
