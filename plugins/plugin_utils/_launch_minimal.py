# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the official launch to the smallest one that can work (private to the collection, controller only).

Pure. What the model and its topology cannot do without stays; everything else goes, each with its reason; and where
leaving out is not off, because vLLM's default is on, the negative is said. Defaults are those of vLLM 0.32.0
(vllm/engine/arg_utils.py, vllm/config, vllm/envs.py, https://github.com/vllm-project/vllm).

Not switched off: chunked prefill. vLLM warns that it cannot do without it for a generating model, and with a short
context it makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._difference import difference
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import OFF, ON, Command, parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DECODE,
    PREFILL,
    Launch,
    LeftOut,
    RankLaunch,
    Value,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._topology import settled
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import (
    HOST_ADDRESS,
    READY_SECONDS,
    READY_TIMEOUT,
)

# What the model is, and which code and format it is read with.
_MODEL = {
    *("model", "--trust-remote-code", "--revision", "--code-revision", "--tokenizer", "--tokenizer-revision"),
    *("--tokenizer-mode", "--config-format", "--hf-config-path", "--quantization", "--download-dir"),
}
# How it is spread, and who finds whom: one coupled group, no part of which means anything alone.
_GROUP = {
    *(
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--data-parallel-size",
        "--data-parallel-size-local",
    ),
    *(
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--headless",
        "--distributed-executor-backend",
    ),
    *(
        "--data-parallel-address",
        "--data-parallel-rpc-port",
        "--data-parallel-rank",
        "--data-parallel-backend",
    ),
    *("--data-parallel-start-rank", "--data-parallel-hybrid-lb", "--data-parallel-external-lb"),
    *("--port", "--host"),
}
_VARIABLES = {
    *(READY_TIMEOUT, HOST_ADDRESS, "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
    *("HF_HOME", "HF_TOKEN", "HF_HUB_OFFLINE"),
}
# The weights are MXFP4 and Hopper has no units for it: which kernels fit is said by the recipe there.
_HOPPER = ("h100", "h200")
_KERNELS = {"--moe-backend", "--attention-backend"}
# A bound on one step, not a feature; with stages over hosts the first step is long.
_STEP_TIMEOUT = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"

# Limits for a diagnosis. They are in no official launch.
LIMITS: Mapping[str, str] = {
    "--gpu-memory-utilization": "0.90",
    "--max-model-len": "8192",
    "--max-num-seqs": "1",
    "--enforce-eager": ON,
}
# Off by a word, for leaving them out would leave them on.
NEGATIVES: Mapping[str, str] = {
    "--enable-prefix-caching": OFF,
    "--enable-flashinfer-autotune": OFF,
    "--async-scheduling": OFF,
}
NEGATIVES_OF_A_GROUP: Mapping[str, str] = {
    "--disable-custom-all-reduce": ON,
    "--compilation-config": '{"pass_config":{"fuse_allreduce_rms":false}}',
}
VARIABLES_OFF: Mapping[str, str] = {"VLLM_ALLREDUCE_USE_FLASHINFER": "0"}
VARIABLES_OFF_OF_A_GROUP: Mapping[str, str] = {"NCCL_NVLS_ENABLE": "0"}
# NVLink over several hosts exists on these only.
_RACKS = ("gb200", "gb300")
VARIABLES_OFF_OF_A_RACK: Mapping[str, str] = {"NCCL_MNNVL_ENABLE": "0"}

_WHY = {
    "--load-format": "a faster way to read the same weights; vLLM's own reads them too",
    "--kv-cache-dtype": "the unquantized cache is a legal start; fp8 comes back with its attention config",
    "--attention-config": "goes with the fp8 cache",
    "--enable-auto-tool-choice": "tools are no part of a start, and it goes with the parser",
    "--tool-call-parser": "tools are no part of a start",
    "--reasoning-parser": "decides how an answer is split, not whether there is one",
    "--enable-expert-parallel": "another way to spread the experts; they fit without",
    "--moe-backend": "a choice of kernels; vLLM's own choice is enough for a start",
    "--attention-backend": "a choice of kernels; vLLM's own choice is enough for a start",
    "--max-num-batched-tokens": "a limit for throughput",
    "--kv-transfer-config": "an extra cache connector",
    "--enable-prefix-caching": "off by a word: the first feature to come back",
    "--async-scheduling": "off by a word: vLLM's default is on",
    "--gpu-memory-utilization": "lower, to leave room while the cause is looked for",
    "--max-model-len": "short: no long context while the cause is looked for",
    "VLLM_ALLREDUCE_USE_FLASHINFER": "off by a word: vLLM's default is on",
    "VLLM_USE_V2_MODEL_RUNNER": "vLLM takes it for this model by itself",
    "VLLM_USE_RUST_FRONTEND": "another front of the API; the usual one is enough",
    "PYTORCH_CUDA_ALLOC_CONF": "tuning of the allocator",
    "NCCL_CUMEM_ENABLE": "a transport override; NCCL decides for itself",
    "NCCL_MNNVL_ENABLE": "off by a word: NVLink over hosts comes back as a step of its own",
    "NCCL_NVLS_ENABLE": "off by a word: comes back as a step of its own",
}
_WHY_ELSE = "not needed for a first start"


def minimal(official: Launch) -> Launch:
    """The smallest launch on the hosts of an official one; says what it left out.

    The user's overrides are for the caller: they hold for the official launch as for this one.
    """
    roles = {rank.role for rank in official.ranks}
    if roles & {PREFILL, DECODE}:
        raise BaselineError(
            f"{official.strategy}: expected a strategy with one engine for the minimal launch, found one with pools "
            "for prefill and decode; start with multi_node_tp or single_node_tp"
        )
    ranks = tuple(_rank(rank, official) for rank in official.ranks)
    launch = settled(replace(official, name="minimal", ranks=ranks))
    return replace(launch, left_out=left_out(official, launch))


def left_out(official: Launch, launch: Launch) -> tuple[LeftOut, ...]:
    """What a launch has otherwise than the official one, one entry for all ranks, with the reason."""
    found: dict[tuple[str, str], LeftOut] = {}
    for change in difference(official, launch):
        name, before = change.variable.name, change.before
        if before is None or (name, before) in found:
            continue
        found[(name, before)] = LeftOut(name, before, _WHY.get(name, _WHY_ELSE))
    return tuple(found.values())


def _rank(rank: RankLaunch, official: Launch) -> RankLaunch:
    several = official.topology.hosts > 1
    command = parse(rank.argv)
    kept = Command(
        command.program, tuple(flag for flag in command.flags if _stays(flag.name, command, official))
    )
    wanted = {**NEGATIVES, **(NEGATIVES_OF_A_GROUP if several else {}), **LIMITS}
    for name, value in wanted.items():
        kept = kept.with_value(name, value)
    return replace(rank, argv=kept.words(), env=_env(rank, command, official))


def _stays(name: str, command: Command, official: Launch) -> bool:
    if not name:
        return True
    plain = "--" + name.partition(".")[0]
    if plain in _KERNELS:
        return official.hardware in _HOPPER
    if plain == "--enable-expert-parallel":
        # With data parallel ranks the experts are spread over all of them, or they do not fit.
        return command.number("--data-parallel-size", 1) > 1
    return plain in _MODEL or plain in _GROUP


def _env(rank: RankLaunch, command: Command, official: Launch) -> dict[str, Value]:
    several = official.topology.hosts > 1
    stages = command.number("--pipeline-parallel-size", 1) > 1
    env = {
        name: value
        for name, value in rank.env.items()
        if name in _VARIABLES or (name == _STEP_TIMEOUT and stages)
    }
    env.setdefault(READY_TIMEOUT, READY_SECONDS)
    if official.hardware.startswith("mi"):
        return env
    env.update(VARIABLES_OFF)
    if several:
        env.update(VARIABLES_OFF_OF_A_GROUP)
    if several and official.hardware in _RACKS:
        env.update(VARIABLES_OFF_OF_A_RACK)
    return env
