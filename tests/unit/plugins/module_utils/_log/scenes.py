# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""Small logs put together from lines as vLLM, NCCL, c10d and the kernel write them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import Judge, LogSource

DAY = "08-09"


def record(process: str, clock: str, source: str, text: str, level: str = "INFO") -> str:
    return (
        f"({process}) {level} {DAY} {clock} [{source}] {text}"
        if process
        else f"{level} {DAY} {clock} [{source}] {text}"
    )


def head(
    clock: str = "10:00:00",
    version: str = "0.27.1",
    options: str = "{'model': 'm', 'tensor_parallel_size': 2}",
) -> list[str]:
    return [
        record("APIServer pid=1", clock, "utils.py:299", f"vLLM server version {version}, serving model m"),
        record("APIServer pid=1", clock, "utils.py:233", "non-default args: " + options),
        record(
            "APIServer pid=1", clock, "model.py:645", "Resolved architecture: KimiK3ForConditionalGeneration"
        ),
        record(
            "EngineCore pid=80",
            clock,
            "core.py:121",
            "Initializing a V1 LLM engine (v0.27.1) with config: model='m', tensor_parallel_size=2",
        ),
    ]


def workers(clock: str = "10:00:10", world: int = 2, first: int = 0, count: int = 2) -> list[str]:
    return [
        record(
            f"Worker pid={300 + rank}", clock, "parallel_state.py:1640",
            f"world_size={world} rank={rank} local_rank={rank - first} distributed_init_method=tcp://10.0.0.1:29501 backend=nccl",
        )
        for rank in range(first, first + count)
    ]  # fmt: skip


def follower(clock: str = "10:00:02") -> list[str]:
    text = "Launching vLLM (v0.27.1) headless multiproc executor, with head node address 10.0.0.1:29501 for torch.distributed process group."
    return [record("", clock, "serve.py:216", text)]


def loading(clock: str = "10:00:20") -> list[str]:
    return [record("Worker_TP0 pid=300", clock, "gpu_model_runner.py:5308", "Starting to load model m...")]


def loaded(clock: str = "10:01:00") -> list[str]:
    return [
        record(
            "Worker_TP0 pid=300",
            clock,
            "gpu_model_runner.py:5405",
            "Model loading took 38.10 GiB memory and 19.5 seconds",
        ),
        record("Worker_TP0 pid=300", clock, "gpu_worker.py:563", "Available KV cache memory: 31.20 GiB"),
    ]


def ready(clock: str = "10:02:00") -> list[str]:
    return [
        record(
            "EngineCore pid=80",
            clock,
            "core.py:355",
            "init engine (profile, create kv cache, warmup model) took 48.32 s",
        ),
        record("APIServer pid=1", clock, "api_server.py:682", "Starting vLLM server on http://0.0.0.0:8000"),
        "(APIServer pid=1) INFO:     Application startup complete.",
        '(APIServer pid=1) INFO:     10.20.0.5:52144 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    ]


def failure(process: str, clock: str, header: str, function: str, raised: str) -> list[str]:
    """An error record with a traceback of one frame."""
    texts = [
        header,
        "Traceback (most recent call last):",
        f'  File "/x/vllm/x.py", line 7, in {function}',
        raised,
    ]
    return [record(process, clock, "x.py:9", text, "ERROR") for text in texts]


def worker_gone(clock: str = "10:00:40") -> list[str]:
    return failure(
        "EngineCore pid=80", clock, "EngineCore failed to start.", "wait_for_ready",
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.",
    ) + api_gone()  # fmt: skip


def api_gone() -> list[str]:
    return [
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "/x/vllm/v1/engine/utils.py", line 1253, in wait_for_engine_startup',
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ]


def judge(
    *logs: Any, state: dict[str, Any] | None = None, observed_at: float | None = None
) -> dict[str, Any]:
    """A log is a list of lines, or (lines, keywords of LogSource)."""
    sources, texts = [], []
    for node, log in enumerate(logs):
        lines, keywords = log if isinstance(log, tuple) else (log, {})
        sources.append(LogSource(**{"path": f"node{node}.log", "node": node, **keywords}))
        texts.append("".join(line + "\n" for line in lines).encode())
    judge_ = Judge(sources, state, observed_at)
    for index, text in enumerate(texts):
        judge_.feed(index, text)
        judge_.end(index)
    return judge_.verdict()
