# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""The same for serving, unknown texts and several runs in one capture."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._compare import comparable, relation

from .scenes import (
    api_gone,
    failure,
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
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {0} MiB. GPU 0 has a total capacity of 139.80 GiB of which {1} MiB is free."
ENGINE_DEAD = failure(
    "APIServer pid=1", "10:05:01", "AsyncLLM output_handler failed.", "output_handler",
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
)  # fmt: skip


def brief(verdict: dict[str, Any]) -> tuple[Any, ...]:
    return verdict["outcome"], verdict["stage"], verdict["failure_class"], verdict["line"]


def oom_start(clock: str, asked: str, free: str, day_options: str = "{'max_model_len': 8192}") -> list[str]:
    hour, minute, _second = clock.split(":")
    at = [f"{hour}:{minute}:{second:02}" for second in range(0, 60, 10)]
    return (
        head(at[0], options=day_options)
        + workers(at[1])
        + loading(at[2])
        + failure(
            "Worker_TP1 pid=301", at[3], "WorkerProc failed to start.", "load_model", OOM.format(asked, free)
        )
        + worker_gone(at[4])
    )


# Serving


def test_a_killed_worker_and_a_killed_engine_while_serving() -> None:
    served = BASE + loaded() + ready()
    text = "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor."
    worker = [record("EngineCore pid=80", "10:05:00", "multiproc_executor.py:295", text, "ERROR")]
    assert brief(judge(served + worker + ENGINE_DEAD))[:3] == ("failed", "runtime", "worker-died")
    text = "Engine core proc EngineCore died unexpectedly, shutting down client."
    engine = [record("APIServer pid=1", "10:05:00", "core_client.py:600", text, "ERROR")]
    assert brief(judge(served + engine + ENGINE_DEAD))[:3] == ("failed", "runtime", "engine-dead")


def test_an_unknown_error_of_one_request_leaves_the_engine_ready() -> None:
    error = failure(
        "APIServer pid=1",
        "10:05:00",
        "Error in chat completion stream generator.",
        "x",
        "KeyError: 'choices'",
    )
    verdict = judge(BASE + loaded() + ready() + error)
    assert verdict["outcome"] == "ready"
    assert [row["line"] for row in verdict["aside"]] == [len(BASE + loaded() + ready()) + 1]


def test_thousands_of_refused_requests_do_not_hide_the_failure_after_them() -> None:
    raised = "ValueError: This model's maximum context length is 16384 tokens. However, you requested 122946 tokens"
    refused = failure(
        "APIServer pid=1", "10:03:00", "Error in preprocessing prompt inputs", "_validate_input", raised
    )
    log = BASE + loaded() + ready() + refused * 3000
    assert judge(log)["failure_class"] == "request-rejected-4xx"
    fault = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    died = failure("Worker_TP1 pid=301", "10:05:00", "WorkerProc hit an exception.", "execute_model", fault)
    verdict = judge(log + died + ENGINE_DEAD)
    assert brief(verdict) == ("failed", "runtime", "cuda-illegal-memory-access", len(log) + 1)


def test_what_was_asked_of_the_engine_when_it_failed() -> None:
    dump = (
        "Dumping scheduler output for model execution: SchedulerOutput(scheduled_new_reqs=[NewRequestData("
        "req_id=chatcmpl-1,prompt_token_ids_len=77,sampling_params=SamplingParams(n=1, max_tokens=512))]"
    )
    stats = record(
        "APIServer pid=1",
        "10:04:00",
        "loggers.py:2",
        "Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 3 reqs, Waiting: 2 reqs",
    )
    log = (
        BASE
        + loaded()
        + ready()
        + [
            record("APIServer pid=1", "10:04:30", "l.py:4", f"Received request chatcmpl-{n}: prompt: None")
            for n in (0, 1)
        ]
        + [stats, record("EngineCore pid=80", "10:05:00", "dump_input.py:79", dump, "ERROR")]
    )
    log += failure(
        "EngineCore pid=80",
        "10:05:00",
        "EngineCore encountered a fatal error.",
        "run_busy_loop",
        OOM.format(2, 1),
    )
    log += [
        '(APIServer pid=1) INFO:     10.0.0.5:2 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error'
    ]
    verdict = judge(log)
    assert verdict["failure_class"] == "cuda-oom-runtime"
    assert verdict["active"] == {
        "options": {"model": "m", "tensor_parallel_size": 2},
        "requests": [{"id": "chatcmpl-1", "prompt_tokens": 77, "max_tokens": 512}],
        "recent": ["chatcmpl-0", "chatcmpl-1"],
        "running": 3,
        "waiting": 2,
        "routes": {"/v1/chat/completions": {"200": 1, "500": 1}},
    }
    assert verdict["signature"]["request"] == "failed"


def test_secrets_among_the_start_options_are_not_returned() -> None:
    verdict = judge(
        head(
            options="{'model': 'm', 'api_key': ['sk-very-secret'], 'hf_token': 'hf_x', 'max_num_batched_tokens': 8}"
        )
    )
    assert verdict["active"]["options"] == {
        "model": "m",
        "api_key": "<redacted>",
        "hf_token": "<redacted>",
        "max_num_batched_tokens": 8,
    }


def test_a_compiler_that_is_missing_shows_at_the_first_request() -> None:
    raised = "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found"
    died = failure(
        "EngineCore pid=80", "10:05:00", "EngineCore encountered a fatal error.", "run_busy_loop", raised
    )
    verdict = judge(BASE + loaded() + ready() + died + ENGINE_DEAD)
    assert brief(verdict)[:3] == ("failed", "runtime", "compile-failure")


def test_a_start_that_a_person_interrupts_did_not_fail() -> None:
    lines = [
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/x/a.py", line 1, in main',
    ]
    verdict = judge([*BASE, *lines, "(APIServer pid=1) KeyboardInterrupt"])
    assert brief(verdict) == ("stopped", "none", "none", None)


def test_a_rank_without_a_process_id_is_found_by_its_rank() -> None:
    text = (
        "[rank1]:[E809 10:10:30.5 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE) ran for 600009 milliseconds before timing out."
    )
    verdict = judge([*BASE, text, *worker_gone("10:10:32")])
    assert (verdict["failure_class"], verdict["process"], verdict["rank"]) == (
        "nccl-collective-timeout",
        "Worker",
        1,
    )


def test_an_error_record_decides_where_the_container_is_known_to_have_ended_with_an_error() -> None:
    log = [*BASE, record("APIServer pid=1", "10:00:40", "x.py:1", "Something nobody has seen", "ERROR")]
    assert judge(log)["failure_class"] == "hang"
    verdict = judge(log, state={"Running": False, "ExitCode": 1, "Status": "exited"})
    assert brief(verdict) == ("failed", "weights", "unclassified", len(log))


# Warnings and unknown texts


def test_a_warning_that_the_table_calls_a_cause_decides_where_only_its_consequence_is_raised() -> None:
    warning = record(
        "",
        "09:59:59",
        "cuda.py:25",
        "Failed to import from vllm._C: ImportError('libcudart.so.12: cannot open shared object file')",
        "WARNING",
    )
    raised = "AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'"
    log = (
        [warning]
        + head()
        + failure("EngineCore pid=80", "10:00:30", "EngineCore failed to start.", "load_model", raised)
    )
    assert brief(judge(log + api_gone())) == ("failed", "devices", "cuda-library-missing", 1)
    assert judge([warning] + BASE + loaded() + ready())["outcome"] == "ready"


def test_a_memory_shortage_after_a_device_warning_is_not_the_cause() -> None:
    warning = "/x/torch/cuda/__init__.py:182: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12090)."
    verdict = judge([warning] + oom_start("10:10:00", "896.00", "173.12"))
    assert verdict["failure_class"] == "driver-too-old"


def test_an_unknown_exception_is_named_with_its_stage_and_low_confidence() -> None:
    error = failure(
        "Worker_TP1 pid=301",
        "10:00:30",
        "WorkerProc failed to start.",
        "load_model",
        "RuntimeError: never seen",
    )
    verdict = judge(BASE + error + worker_gone())
    assert brief(verdict) == ("failed", "weights", "unclassified", len(BASE) + 1)
    assert (verdict["confidence"], verdict["rank"]) == ("low", 1)


# Several runs in one capture


def test_the_last_of_several_runs_is_judged_and_a_change_is_said_first() -> None:
    occupied = "ValueError: Free memory on device cuda:0 (1/2 GiB) on startup is less than desired GPU memory utilization (0.9)"
    one = (
        head()
        + workers()
        + failure("EngineCore pid=80", "10:00:30", "EngineCore failed to start.", "request_memory", occupied)
        + api_gone()
    )
    verdict = judge(one + oom_start("10:10:00", "896.00", "173.12"))
    assert verdict["failure_class"] == "cuda-oom-weights"
    assert verdict["change"]["relation"] == "moved"
    assert verdict["message"].startswith(
        "Changed since the run before (moved): failed devices/gpu-memory-occupied, now failed weights/"
    )
    assert [row["judged"] for row in verdict["runs"]] == [False, True]


@pytest.mark.parametrize(("free", "state"), [("180.00", "confirmed"), ("90000.00", "first seen")])
def test_a_memory_shortage_is_confirmed_by_a_second_one_like_it(free: str, state: str) -> None:
    verdict = judge(oom_start("10:00:00", "896.00", "173.12") + oom_start("10:10:00", "896.00", free))
    assert verdict["memory"]["state"] == state
    assert verdict["memory"]["requested_bytes"] == 896 * 1024**2
    assert [row["memory"]["requested_bytes"] for row in verdict["runs"]] == [896 * 1024**2] * 2


@pytest.mark.parametrize(
    ("options", "found"), [("{'max_model_len': 2048}", "masked"), ("{'max_model_len': 8192}", "gone")]
)
def test_a_failure_that_is_no_longer_seen_is_never_called_fixed(options: str, found: str) -> None:
    fine = (
        head("10:10:00", options=options)
        + workers("10:10:10")
        + loading("10:10:20")
        + loaded("10:11:00")
        + ready("10:12:00")
    )
    verdict = judge(oom_start("10:00:00", "896.00", "173.12") + fine)
    assert (verdict["outcome"], verdict["change"]["relation"]) == ("ready", found)


def test_a_container_that_restarts_over_wrong_arguments() -> None:
    once = ["usage: vllm serve [model_tag] [options]", "vllm serve: error: unrecognized arguments: --nope"]
    verdict = judge(once * 4)
    assert brief(verdict) == ("failed", "container", "bad-arguments", 8)
    assert len(verdict["runs"]) == 4
    assert verdict["change"]["relation"] == "same"


def test_the_signature_holds_no_text_number_or_time() -> None:
    one, other = (
        judge(oom_start("10:00:00", "896.00", "173.12")),
        judge(oom_start("11:20:00", "512.00", "99.00")),
    )
    assert one["signature"] == other["signature"]
    assert relation(one, other) == "same"
    assert not comparable(one["memory"], other["memory"])
