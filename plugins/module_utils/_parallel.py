# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a launch spreads over GPUs and hosts, as data, for one rank (private to the collection; pure).

Names, defaults and what belongs together are those of vLLM 0.32.0, vllm/engine/arg_utils.py and
vllm/config/parallel.py (https://github.com/vllm-project/vllm).
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import EngineCommand

# name, kind, default of vLLM (None: none, or decided at run time)
_OPTIONS: Sequence[Tuple[str, str, Any]] = (
    ("tensor-parallel-size", "number", 1),
    ("pipeline-parallel-size", "number", 1),
    ("data-parallel-size", "number", 1),
    ("data-parallel-size-local", "number", None),
    ("data-parallel-rank", "number", None),
    ("data-parallel-start-rank", "number", None),
    ("data-parallel-address", "text", None),
    ("data-parallel-rpc-port", "number", 29550),
    ("data-parallel-backend", "text", None),
    ("data-parallel-hybrid-lb", "switch", False),
    ("data-parallel-external-lb", "switch", False),
    ("enable-expert-parallel", "switch", False),
    ("enable-eplb", "switch", False),
    ("all2all-backend", "text", None),
    ("decode-context-parallel-size", "number", 1),
    ("prefill-context-parallel-size", "number", 1),
    ("distributed-executor-backend", "text", None),
    ("nnodes", "number", 1),
    ("node-rank", "number", 0),
    ("master-addr", "text", "127.0.0.1"),
    ("master-port", "number", 29501),
    ("headless", "switch", False),
    ("api-server-count", "number", None),
    ("device-ids", "text", None),
)

# Variables that decide the same things, or which devices and interfaces a rank takes.
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_IMEX_CHANNELS",
    "VLLM_HOST_IP",
    "VLLM_DP_RANK",
    "VLLM_DP_RANK_LOCAL",
    "VLLM_DP_SIZE",
    "VLLM_DP_MASTER_IP",
    "VLLM_DP_MASTER_PORT",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "RAY_ADDRESS",
)
_VARIABLE_PREFIXES = (
    "NCCL_",
    "GLOO_",
    "UCX_",
    "NVSHMEM_",
    "SLURM_",
    "PMIX_",
    "OMPI_COMM_WORLD_",
    "FI_",
    "MC_",
    "NIXL_",
)

_TITLE_RANK = re.compile(r"_(TP|PP|DP|EP|PCP|DCP)(\d+)")


def parallel_facts(
    command: EngineCommand, environment: Mapping[str, str], file_options: Optional[Mapping[str, Any]] = None
) -> Dict[str, Any]:
    """One launch's spread: every option with value and source, and what follows from them.

    ``file_options`` are those of the file of --config; None when there is none or it was not read.
    """
    options = {}
    for name, kind, default in _OPTIONS:
        value, source = _option(command, name, kind, default)
        if source == "default" and name in (file_options or {}):
            from_file = EngineCommand(command.kind, options=dict(file_options or {}))
            value, source = _option(from_file, name, kind, default)[0], "file of --config"
        options[name.replace("-", "_")] = {"value": value, "source": source}
    config = command.options.get("config") if file_options is None else None
    return {
        "options": options,
        "world_size": _world_size(options),
        "variables": scheduling_variables(environment),
        "note": "also set by the file of --config %s, which is not read into this list" % config
        if config
        else "",
    }


def _option(command: EngineCommand, name: str, kind: str, default: Any) -> Tuple[Any, str]:
    if kind == "switch":
        if name in command.options:
            return str(command.options[name] or "true").lower() == "true", "argv --" + name
        if "no-" + name in command.options:
            return False, "argv --no-" + name
        return default, "default"
    given = command.options.get(name)
    if given is None:
        return default, "default"
    if kind == "number":
        # A placeholder that nobody resolved, such as $NODE_RANK, is kept as it is.
        return (int(given) if re.match(r"^-?\d+$", given) else given), "argv --" + name
    return given, "argv --" + name


def _world_size(options: Mapping[str, Any]) -> Dict[str, Any]:
    """GPUs of the whole launch, and of this host, as far as numbers are given (TP x PP x PCP, times DP)."""
    numbers = [options[name]["value"] for name in _SIZES]
    if not all(isinstance(number, int) for number in numbers):
        return {"launch": None, "host": None, "why": "a size is not a number"}
    tensor, pipeline, context, data, nodes = numbers
    replica = tensor * pipeline * context
    local = options["data_parallel_size_local"]["value"]
    if isinstance(local, int):
        return {"launch": replica * data, "host": replica * local, "why": ""}
    if nodes > 0 and replica * data % nodes:
        return {
            "launch": replica * data,
            "host": None,
            "why": "%d GPUs over %d hosts" % (replica * data, nodes),
        }
    return {"launch": replica * data, "host": replica * data // max(nodes, 1), "why": ""}


_SIZES = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "data_parallel_size",
    "nnodes",
)


def scheduling_variables(environment: Mapping[str, str]) -> Dict[str, str]:
    """Variables of visibility, rank, transport and scheduler."""
    names = [name for name in environment if name in _VARIABLES or name.startswith(_VARIABLE_PREFIXES)]
    return {name: environment[name] for name in sorted(names)}


def ranks_of_title(title: str) -> Dict[str, int]:
    """The ranks in a process title: Worker_DP1_TP3_EP7 gives dp 1, tp 3, ep 7."""
    return {name.lower(): int(number) for name, number in _TITLE_RANK.findall("_" + title)}


def environment_of(items: Optional[Sequence[str]]) -> Dict[str, str]:
    """``K=V`` items as a mapping. The last of equal names wins; a name alone removes the variable."""
    result: Dict[str, str] = {}
    for item in items or []:
        name, equals, value = item.partition("=")
        if equals:
            result[name] = value
        else:
            result.pop(name, None)
    return result
