# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of memory, compilation and processes that end; private to the collection.

How to add one: docs/adding-a-signature.md
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    CONSEQUENCE,
    LIKELY,
    RAISED,
    ROOT,
    SYMPTOM,
    TORCH_SOURCE,
    VLLM_SOURCE,
    Signature,
    github,
    vllm,
)

# fmt: off
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"

QUOTES: Tuple[Signature, ...] = (
    Signature(
        "cuda-library-missing", ("'_OpNamespace' '_C' object has no attribute",), CONSEQUENCE, "devices",
        "libraries", name="operator", since="0.9",
        advice="The compiled extension did not load: look for the import warning further up.",
        source=VLLM_SOURCE + "platforms/cuda.py",
    ),
    Signature(
        "watchdog", ("Process group watchdog thread terminated with exception",), CONSEQUENCE, "",
        "collective", advice="Look at the exception of the other ranks.", source=TORCH_SOURCE,
    ),
    Signature(
        "host-oom-killed", ("': -9}", "': -9,", "killed by signal 9"), SYMPTOM, "", "start",
        also=("Failed core proc(s)",), name="core-9", since="0.9",
        advice="Look at the kernel log for oom-kill and at the container's OOMKilled: the engine core was "
        "killed from outside.",
        source=VLLM_SOURCE + "v1/engine/utils.py",
    ),
    Signature(
        "engine-start-failed",
        (
            "Engine core initialization failed. See root cause above", "Engine core initialization failed",
            "Engine process failed to start",
            "Frontend process failed during engine core",
        ),
        CONSEQUENCE, "", "start", since="0.9",
        advice="Look at the first failure of the workers and of the other hosts.",
        source=VLLM_SOURCE + "v1/engine/utils.py",
    ),
    Signature(
        "host-oom-killed", ("killed due to memory pressure (OOM)", "ray.exceptions.OutOfMemoryError"), LIKELY,
        "", "worker", name="ray", since="0.9",
        advice="Ray ended the worker because the host ran out of memory: compare the host's memory with what "
        "loading needs.",
        source="https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html",
    ),
    Signature(
        "worker-failed", ("WorkerProc initialization failed due to an exception in a background process",),
        CONSEQUENCE, "", "start", since="0.9",
        advice="Look for the worker's own traceback, and outside the log: kernel log and "
        "container state.",
        source=github("snowflakedb/ArcticInference", 63),
    ),
    Signature(
        "worker-failed", ("Worker failed with error", "Executor failed.", "RPC call to "), CONSEQUENCE, "",
        "worker", also=("check the stack trace above",), name="quoted", since="0.9",
        advice="Look for the worker's own traceback: this line quotes the last exception of a chain.",
        source=VLLM_SOURCE + "v1/executor/multiproc_executor.py",
    ),
    Signature(
        "worker-failed", ("Executor failed.", "Worker failed with error"), CONSEQUENCE, "", "worker",
        name="executor", since="0.9", advice="Look for the worker's own traceback.",
        source=VLLM_SOURCE + "v1/executor/multiproc_executor.py",
    ),
)

MEMORY: Tuple[Signature, ...] = (
    Signature(
        "kv-cache-no-memory", ("No available memory for the cache blocks",), ROOT, "engine", "kv-cache",
        since="0.9",
        advice="See what holds the memory: weights per rank, other processes, the utilisation fraction.",
        source=vllm(14992),
    ),
    Signature(
        "kv-cache-max-len",
        (
            "To serve at least one request with the model's max seq len",
            "To serve at least one request with the models's max seq len",
            "larger than the maximum number of tokens that can be stored in KV cache",
            "Cannot auto-fit max_model_len",
        ),
        ROOT, "engine", "kv-cache", since="0.9",
        advice="Compare memory per rank, KV cache type and length with the official launch; see "
        "what else holds memory.",
        source=VLLM_SOURCE + "v1/core/kv_cache_utils.py",
    ),
    Signature(
        "cuda-oom-warmup", ("CUDA out of memory occurred when warming up",), LIKELY, "engine", "warmup",
        since="0.9",
        advice="See who holds memory on this GPU now and compare with the official launch's "
        "sequence limit.",
        source=VLLM_SOURCE + "v1/worker/gpu_model_runner.py",
    ),
    Signature(
        "cuda-oom",
        (
            "CUDA out of memory", "torch.OutOfMemoryError", "cudaErrorMemoryAllocation",
            "CUDA error: out of memory", "HIP out of memory",
        ),
        LIKELY, "", since="0.9", where=("traceback", "error", "raw"),
        advice="See what failed before it, who holds memory on this GPU, and whether a second "
        "run fails at the same place.",
        source=vllm(39788),
    ),
)

COMPILE: Tuple[Signature, ...] = (
    Signature(
        "compile-cache-corrupt", ("previous compilation failed",), ROOT, "engine", "compile", since="0.15",
        advice="Look at the age of the compile cache and who wrote it; try once with another "
        "cache directory.",
        source=VLLM_SOURCE + "compilation/compiler_interface.py",
    ),
    Signature(
        "triton-ptxas-arch", ("is not defined for option 'gpu-name'", "ptxas fatal"), ROOT, "engine",
        "compile", since="0.9",
        advice="Triton's assembler does not know this GPU: compare the image's CUDA build with the GPU.",
        source=vllm(29469),
    ),
    Signature(
        "compile-failure",
        (
            "InductorError", "torch._dynamo.exc.", "BackendCompilerFailed", "failed to find C compiler",
            "Failed to find C compiler", "No working C++ compiler", "InvalidCxxCompiler",
            "triton.compiler.errors.CompilationError", "Ninja build failed", "Error building extension",
            "ninja: build stopped", "Could not find nvcc",
        ),
        ROOT, "engine", "compile", since="0.9",
        advice="Read the compiler's own message in the block; check compiler, headers and cache "
        "directory in the container.",
        source=github("gpustack/gpustack", 4372),
    ),
    Signature(
        "compile-failure", ("PTXASError",), LIKELY, "engine", "compile", where=RAISED, name="assembler",
        since="0.9",
        advice="Read the assembler's own message in the block; compare the image's CUDA build "
        "with the GPU.",
        source=vllm(29469),
    ),
    Signature(
        "custom-all-reduce", ("custom_all_reduce.cuh:",), LIKELY, "engine", "graph-capture", since="0.9",
        advice="See whether the GPUs reach each other's memory (topology, IPC between containers) and compare "
        "with the official launch.",
        source=vllm(49101),
    ),
    Signature(
        "cuda-graph-capture",
        (
            "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing",
            "cudaErrorStreamCaptureInvalidated",
        ),
        ROOT, "engine", "graph-capture", since="0.9",
        advice="See which kernel was captured: compare custom all-reduce and attention backend "
        "with the official launch.",
        source=TORCH_SOURCE,
    ),
    Signature(
        "cuda-graph-capture", ("operation failed due to a previous error during capture",), CONSEQUENCE,
        "engine", "graph-capture", name="after", since="0.9",
        advice="Read the first exception of the chain.", source=TORCH_SOURCE,
    ),
)

ABORT: Tuple[Signature, ...] = (
    Signature(
        "host-oom-killed", ("died unexpectedly (exit code: -9)", "died unexpectedly with exit code -9"),
        SYMPTOM, "", "worker", name="exit-9", since="0.13",
        advice="Look at the kernel log for oom-kill and at the container's OOMKilled: the worker "
        "was killed from outside.",
        source=VLLM_SOURCE + "v1/executor/multiproc_executor.py",
    ),
    Signature(
        "engine-dead", ("died unexpectedly",), SYMPTOM, "", "engine", also=("Engine core proc ",),
        name="killed", since="0.11",
        advice="The engine core ended without a word: look at the kernel log and at who sent a signal.",
        source=VLLM_SOURCE + "v1/engine/core_client.py",
    ),
    Signature(
        "worker-died", ("died unexpectedly",), SYMPTOM, "", "worker", since="0.9",
        advice="Look at the exit code: -6 is an abort, -11 a crash, -9 a kill from outside; then "
        "at the kernel log.",
        source=VLLM_SOURCE + "v1/executor/multiproc_executor.py",
    ),
    Signature(
        "process-crashed",
        (
            "Segmentation fault", "Segfault encountered", "Fatal Python error", "core dumped", "Aborted (",
            "terminate called after throwing",
        ),
        SYMPTOM, "", "process", where=("raw", "error", "launcher"), name="python",
        advice="Look at the native frames below the line and at the kernel log.",
        source="https://docs.python.org/3/library/faulthandler.html",
    ),
    Signature(
        "nccl-unknown", ("Cuda failure", "Call to "), LIKELY, "engine", "nccl-init", where=("nccl",),
        name="warn", advice="Read the first NCCL WARN of every rank; its file name tells the transport.",
        source=_NCCL,
    ),
)
