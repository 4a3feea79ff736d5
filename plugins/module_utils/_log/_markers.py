# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines by which an engine tells how far it is (private to the collection).

One row a marker: the text at the start of the message, the stage and substage that it opens, and what
it means. Texts were taken from vLLM 0.10 to 0.32 (https://github.com/vllm-project/vllm), uvicorn, NCCL,
Gloo, FlashInfer and Ray.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

ENTER, PROGRESS, READY, HEARTBEAT, STOP, BANNER, SERVING, FATAL = (
    "enter", "progress", "ready", "heartbeat", "stop", "banner", "serving", "fatal",
)  # fmt: skip

STAGES = ("container", "devices", "weights", "engine", "api", "runtime")


@dataclass(frozen=True)
class Marker:
    """One row."""

    pattern: str
    effect: str
    stage: str = ""
    substage: str = ""


MARKERS: Tuple[Marker, ...] = (
    # a run begins
    Marker(r"[\s▀▄█▌▐]*█[\s▀▄█▌▐]*version (?P<version>\d\S*)", BANNER, "weights", "model-config"),
    Marker(r"vLLM (?:API )?server version (?P<version2>\S+?)(?:,|$)", BANNER, "weights", "model-config"),
    Marker(r"Launching vLLM \(v(?P<version3>[^)]+)\) headless", BANNER, "engine", "process-group"),
    Marker(r"Launching \d+ data parallel engine\(s\) in headless mode", BANNER, "engine", "handshake"),
    Marker(
        r"Automatically detected platform|Platform plugin \S+ is activated", PROGRESS, "container", "platform"
    ),
    # model configuration
    Marker(r"Resolved architecture: |Using max model len ", ENTER, "weights", "model-config"),
    # engine core and devices
    Marker(
        r"Started DP Coordinator process|Starting ray-based data parallel backend",
        ENTER,
        "engine",
        "handshake",
    ),
    Marker(r"Creating placement groups for data parallel", ENTER, "engine", "handshake"),
    Marker(r"Initializing a V\d LLM engine ", ENTER, "devices", "init-device"),
    Marker(r"Waiting for init message from front-end", ENTER, "engine", "handshake"),
    # process group
    Marker(r"DP group leader: ", ENTER, "engine", "process-group"),
    Marker(r"world_size=\d+ rank=\d+ ", ENTER, "engine", "process-group"),
    Marker(r"vLLM is using nccl==|Found nccl from library", ENTER, "engine", "nccl-init"),
    Marker(r"ncclCommInit\w* comm .*Init START", ENTER, "engine", "nccl-init"),
    Marker(r"ncclCommInit\w* comm .*Init COMPLETE", PROGRESS, "engine", "nccl-init"),
    Marker(r"\[Gloo\] Rank \d+ is connected to ", PROGRESS, "engine", "process-group"),
    Marker(r"Using \[.*all-reduce backends", PROGRESS, "engine", "process-group"),
    Marker(r"rank \d+ in world size \d+ is assigned as", ENTER, "devices", "init-device"),
    Marker(r"Using V2 Model Runner", ENTER, "devices", "init-device"),
    # weights
    Marker(
        r"Starting to load model |Loading model from scratch|Starting to load model", ENTER, "weights", "load"
    ),
    Marker(
        r"Time spent downloading weights|Prefetching checkpoint files: |Filesystem type for",
        ENTER,
        "weights",
        "load",
    ),
    Marker(
        r"(?:Loading (?:safetensors|pt|multi|Multi)|Multi-thread loading shards"
        r"|Loading \S+ checkpoint shards)[^\r\n]{0,80}?: +"
        r"(?P<percent>\d+)% ?[^\r\n]{0,40}?\| (?P<done>\d+)/(?P<total>\d+)",
        ENTER,
        "weights",
        "load",
    ),
    Marker(r"(?:Downloading |Fetching \d+ files)[^\r\n]{0,80}?: +\d+%", ENTER, "weights", "download"),
    Marker(r"Loading weights took ", PROGRESS, "weights", "load"),
    Marker(r"Model loading took ", ENTER, "engine", "profile"),
    # profiling, compilation, cache, graphs, warm-up
    Marker(
        r"Using cache directory: .* for vLLM's torch.compile|Dynamo bytecode transform",
        ENTER,
        "engine",
        "compile",
    ),
    Marker(
        r"Compiling a graph for |Cache the graph of |torch.compile took |torch.compile takes ",
        ENTER,
        "engine",
        "compile",
    ),
    Marker(r"Initial profiling/warmup run took ", ENTER, "engine", "profile"),
    Marker(r"Available KV cache memory: ", ENTER, "engine", "kv-cache"),
    Marker(
        r"(?:GPU|CPU|\w+) KV cache size: |Maximum concurrency for |Explicitly set \([\d.]+/[\d.]+\) GiB",
        ENTER,
        "engine",
        "kv-cache",
    ),
    Marker(
        r"Capturing CUDA graphs?[^\r\n]{0,80}?: +"
        r"(?P<percent2>\d+)%[^\r\n]*?\| (?P<done2>\d+)/(?P<total2>\d+)",
        ENTER,
        "engine",
        "graph-capture",
    ),
    Marker(
        r"Graph capturing finished in |Registering \d+ cuda graph addresses", ENTER, "engine", "graph-capture"
    ),
    Marker(
        r"(?:flashinfer\.jit: )?\[Autotuner\]: |Using FlashInfer autotune cache file",
        ENTER,
        "engine",
        "warmup",
    ),
    Marker(r"Kernel JIT monitor activated", ENTER, "engine", "warmup"),
    Marker(r"init engine \(profile, create kv cache, warmup model\) took", ENTER, "engine", "started"),
    # api
    Marker(r"Supported tasks: |Supported_tasks: ", ENTER, "api", "init"),
    Marker(r"Starting vLLM (?:API )?server(?: \d+)? on ", ENTER, "api", "bind"),
    Marker(
        r"Available routes are:|Started server process|Waiting for application startup", ENTER, "api", "init"
    ),
    Marker(r"Started DPSupervisor on |Waiting for vLLM DP Servers to become ready", ENTER, "api", "init"),
    Marker(r"Launching Rust frontend: ", ENTER, "api", "init"),
    Marker(
        r"Application startup complete\.|(?:OpenAI server|Server) is ready to accept requests",
        READY,
        "runtime",
        "serving",
    ),
    Marker(r"vLLM gRPC server started on ", READY, "runtime", "serving"),
    # serving, waiting, stopping
    Marker(r"Engine \d+: Avg prompt throughput: ", SERVING),
    Marker(r"\d+\.\d+\.\d+\.\d+:\d+ - \"[A-Z]+ |http request method=", SERVING),
    Marker(r"No available shared memory broadcast block found", HEARTBEAT),
    Marker(r"Waiting for \d+ local, \d+ remote core engine proc", HEARTBEAT),
    Marker(r"\[shutdown\] API server: shutdown triggered|\[shutdown\] \w+: trigger received signal=", STOP),
    Marker(
        r"Shutting down$|Received signal \w+|Received SIGTERM|Gracefully stopping|KeyboardInterrupt$", STOP
    ),
    Marker(r"KeyboardInterrupt: terminated", STOP),  # SIGTERM before the server listens
    # the end of a start or of an engine: dates the abort, never the cause
    Marker(r"WorkerProc failed to start|WorkerProc hit an exception|EngineCore failed to start", FATAL),
    Marker(r"EngineCore (?:\S+ )?encountered a fatal error|AsyncLLM output_handler failed", FATAL),
    Marker(r"Dumping (?:input data|scheduler output) for ", FATAL),
)

_COMBINED = re.compile(
    "|".join("(?P<m{0}>{1})".format(index, row.pattern) for index, row in enumerate(MARKERS))
)


def find_marker(message: str) -> Optional[Tuple[Marker, re.Match[str]]]:
    """The marker that the message starts with."""
    match = _COMBINED.match(message)
    if match is None or match.lastgroup is None:
        return None
    return MARKERS[int(match.lastgroup[1:])], match  # the row's own group closes last


def progress_of(match: re.Match[str]) -> Optional[str]:
    """done/total of a progress bar."""
    done, total = match["done"] or match["done2"], match["total"] or match["total2"]
    return "{0}/{1}".format(done, total) if done else None


# Function or file names in a traceback that place a failure; the innermost known one wins.
FRAMES: Dict[str, Tuple[str, str]] = {
    "validate_api_server_args": ("container", "arguments"),
    "validate_parsed_serve_args": ("container", "arguments"),
    "parse_args": ("container", "arguments"),
    "setup_server": ("api", "bind"),
    "create_server_socket": ("api", "bind"),
    "init_app_state": ("api", "init"),
    "create_model_config": ("weights", "model-config"),
    "get_config": ("weights", "model-config"),
    "cached_tokenizer_from_config": ("weights", "model-config"),
    "get_tokenizer": ("weights", "model-config"),
    "init_tokenizer_from_configs": ("weights", "model-config"),
    "init_device": ("devices", "init-device"),
    "set_device": ("devices", "init-device"),
    "_cuda_init": ("devices", "init-device"),
    "_lazy_init": ("devices", "init-device"),
    "request_memory": ("devices", "memory-check"),
    "init_worker_distributed_environment": ("engine", "process-group"),
    "init_distributed_environment": ("engine", "process-group"),
    "init_process_group": ("engine", "process-group"),
    "initialize_model_parallel": ("engine", "process-group"),
    "pynccl.py": ("engine", "nccl-init"),
    "pynccl_wrapper.py": ("engine", "nccl-init"),
    "startup_handshake": ("engine", "handshake"),
    "wait_for_engine_startup": ("engine", "handshake"),
    "load_model": ("weights", "load"),
    "load_weights": ("weights", "load"),
    "initialize_model": ("weights", "load"),
    "profile_run": ("engine", "profile"),
    "determine_available_memory": ("engine", "profile"),
    "determine_available_memories": ("engine", "profile"),
    "get_kv_cache_configs": ("engine", "kv-cache"),
    "_check_enough_kv_cache_memory": ("engine", "kv-cache"),
    "initialize_kv_cache": ("engine", "kv-cache"),
    "initialize_kv_cache_tensors": ("engine", "kv-cache"),
    "_allocate_kv_cache_tensors": ("engine", "kv-cache"),
    "capture_model": ("engine", "graph-capture"),
    "cuda_graph.py": ("engine", "graph-capture"),
    "compile_or_warm_up_model": ("engine", "warmup"),
    "kernel_warmup": ("engine", "warmup"),
    "_dummy_sampler_run": ("engine", "warmup"),
    "_dummy_pooler_run": ("engine", "warmup"),
    "run_busy_loop": ("runtime", "serving"),
}


def place_of(frames: List[str]) -> Tuple[str, str]:
    """Stage and substage of a traceback, ("", "") when no frame is known."""
    for frame in reversed(frames):
        file_name, _colon, function = frame.partition(":")
        place = FRAMES.get(function) or FRAMES.get(file_name)
        if place is not None:
            return place
    return "", ""
