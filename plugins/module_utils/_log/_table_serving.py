# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of the stages api and runtime, and of harmless lines; private to the collection.

How to add one: docs/adding-a-signature.md
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    CONSEQUENCE,
    FAILING,
    LIKELY,
    NOISE,
    RAISED,
    REQUEST,
    ROOT,
    SYMPTOM,
    TORCH_SOURCE,
    VLLM_SOURCE,
    WARNED,
    Signature,
    vllm,
)

# fmt: off
API: Tuple[Signature, ...] = (
    Signature(
        "port-in-use",
        ("error while attempting to bind on address", "failed to bind listener for OpenAI server"), ROOT,
        "api", "bind", since="0.9", advice="See which process holds the port on this host.",
        source=vllm(7514),
    ),
    Signature(
        "port-in-use", ("Address already in use", "address already in use"), ROOT, "api", "bind",
        where=("traceback", "error"), name="socket", since="0.9",
        frames=("create_server_socket", "setup_server", "bind_socket", "startup", "serve_http"),
        advice="See which process holds the port on this host.", source=vllm(7514),
    ),
    Signature(
        "port-in-use", ("is used by process",), SYMPTOM, "api", "bind", where=WARNED, name="holder",
        since="0.9", advice="The line names the process that holds the port.",
        source=VLLM_SOURCE + "entrypoints/launchers/launcher.py",
    ),
    Signature(
        "internal-port-in-use", ("[Errno 98] Address already in use",), LIKELY, "engine", "handshake",
        where=RAISED, name="other", since="0.9",
        advice="See which process holds the port; a stale engine of an earlier run is usual.",
        source=vllm(11617),
    ),
    Signature(
        "frontend-died", ("Process RustFrontend (PID:", "Process ApiServer_"), SYMPTOM, "api", "frontend",
        also=("died with exit code",), since="0.22",
        advice="Look for the front end's own last lines above.", source=vllm(44280),
    ),
    Signature(
        "frontend-died", ("panicked at ",), SYMPTOM, "api", "frontend", where=("raw", "error"), name="panic",
        since="0.22",
        advice="Read the panic's next line: it is the Rust front end's own reason.", source=vllm(44280),
    ),
    Signature(
        "readiness-timeout", ("Readiness probe failed", "Liveness probe failed", "Startup probe failed"),
        SYMPTOM, "api", "readiness", where=("raw", "launcher", "error", "warning"),
        advice="Compare the probe's time limit with how long a start takes here; the engine was "
        "still starting.",
        source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
    ),
    Signature(
        "api-init", ("chat template", "chat_template", "apply_chat_template"), LIKELY, "api", "init",
        where=RAISED, frames=("init_app_state", "load_chat_template", "build_app"), since="0.9",
        advice="Check the chat template argument and the tokenizer files in the container.",
        source=VLLM_SOURCE + "entrypoints/openai/api_server.py",
    ),
)

RUNTIME: Tuple[Signature, ...] = (
    Signature(
        "request-rejected-4xx",
        (
            "maximum context length is", "VLLMValidationError", "Error in preprocessing prompt inputs",
            "is longer than the maximum model length", "exceeds the maximum model length",
        ),
        ROOT, "runtime", "request", scope=REQUEST, since="0.9",
        advice="The client's request was refused and the server goes on: compare the request "
        "with the server's limits.",
        source=vllm(20409),
    ),
    Signature(
        "overload", ("QueueOverflowError", "MaxQueuedTokensError"), ROOT, "runtime", "request",
        scope=REQUEST, since="0.32",
        advice="The server refused work because its queue was full; the engine goes on.",
        source=VLLM_SOURCE + "v1/engine/async_llm.py",
    ),
    Signature(
        "cuda-illegal-memory-access",
        (
            "an illegal memory access was encountered", "CUDA_ERROR_ILLEGAL_ADDRESS",
            "cudaErrorIllegalAddress",
        ),
        LIKELY, "", where=("traceback", "error", "raw"), since="0.9",
        advice="The frame is where it surfaced, not where it happened: look at the kernel log "
        "for an Xid at that time.",
        source=vllm(50147),
    ),
    Signature(
        "cuda-launch-failure",
        ("unspecified launch failure", "cudaErrorLaunchFailure", "device-side assert triggered"), LIKELY,
        "", where=("traceback", "error", "raw"), since="0.9",
        advice="The frame is where it surfaced: look at the kernel log for an Xid at that time.",
        source=TORCH_SOURCE,
    ),
    Signature(
        "engine-stalled-rpc-timeout", ("RPC call to ",), CONSEQUENCE, "runtime", "stalled",
        also=("timed out",), since="0.9",
        advice="One worker fell silent: compare the last line of every rank and look at the "
        "hosts of the silent ones.",
        source=vllm(37250),
    ),
    Signature(
        "engine-dead",
        (
            "EngineCore encountered an issue. See stack trace", "EngineDeadError",
            "AsyncLLM output_handler failed", "(engine dead)",
        ),
        CONSEQUENCE, "runtime", "serving", since="0.9",
        advice="Look at the first failure of the workers and of the other hosts.", source=vllm(42362),
    ),
    Signature(
        "client-disconnect", ("ClientDisconnect", "Connection reset by peer", "Broken pipe"), NOISE,
        "runtime", "request", where=("error", "traceback"), scope=REQUEST, advice="The client went away.",
        source=VLLM_SOURCE + "entrypoints/serve/",
    ),
)

HARMLESS: Tuple[Signature, ...] = (
    Signature(
        "nvlink-detection", ("NVLink detection failed. This is normal",), NOISE, since="0.9",
        source=VLLM_SOURCE + "platforms/cuda.py",
    ),
    Signature(
        "usage-report", ("_report_usage_worker",), NOISE, where=("error",), since="0.9",
        source=VLLM_SOURCE + "usage/usage_lib.py",
    ),
    Signature(
        "hub-retry",
        (
            "Error retrieving file list", "Error retrieving safetensors",
            "Cannot connect to Hugging Face Hub. Skipping",
        ),
        NOISE, since="0.9", where=("error", "warning"),
        source=VLLM_SOURCE + "transformers_utils/repo_utils.py",
    ),
    Signature(
        "optional-kernels",
        (
            "Failed to import Triton kernels", "Failed to load NCCL library from",
            "Error ignored in is_in_the_same_node", "Failed to compile NCCL memory allocator",
            "Failed to import DeepGEMM", "Failed to import cutlass",
        ),
        NOISE, where=WARNED, since="0.9", source=VLLM_SOURCE + "model_executor/layers/",
    ),
    Signature(
        "flashinfer-mnnvl-workspace",
        ("Failed to initialize FlashInfer All", "FlashInfer MNNVL multicast is unavailable"), NOISE,
        where=WARNED, since="0.27",
        advice="The engine falls back; each try costs half a minute and some memory.", source=vllm(51986),
    ),
    Signature(
        "optional-communicators",
        (
            "SymmMemCommunicator: ", "Custom allreduce is disabled", "Custom quick allreduce",
            "AllReduce fusion pass is disabled", "skipping allreduce fusion pass",
        ),
        NOISE, where=WARNED, since="0.9", source=VLLM_SOURCE + "distributed/device_communicators/",
    ),
    Signature(
        "diagnostic-dump",
        (
            "Dumping input data for V1 LLM engine", "Dumping scheduler output for model execution",
            "Dumping scheduler stats",
        ),
        NOISE, since="0.9", source=VLLM_SOURCE + "v1/engine/core.py",
    ),
    Signature(
        "exit-noise",
        (
            "destroy_process_group() was not called", "resource_tracker: There appear to be",
            "WorkerProc was terminated", "asyncio.exceptions.CancelledError",
            "Parent process exited, terminating worker", "SIGTERM received", "KeyboardInterrupt",
        ),
        NOISE, where=FAILING + ("warning",), since="0.9", source=TORCH_SOURCE,
    ),
    Signature(
        "network-notice",
        (
            "The hostname of the client socket cannot be retrieved",
            "Guessing device ID based on global rank", "TCP client failed to connect/validate to host",
        ),
        NOISE, where=("c10d", "raw"), source=TORCH_SOURCE,
    ),
    Signature(
        "capability-warning",
        (
            "Minimum and Maximum cuda capability supported", "which is of cuda capability",
            "is not compatible with the current PyTorch",
        ),
        NOISE, where=("warning",), source=vllm(16515),
    ),
)
