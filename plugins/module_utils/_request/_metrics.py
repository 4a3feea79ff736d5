# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read vLLM's /metrics and tell what a few requests changed in them (pure, private to the collection).

The text form: https://prometheus.io/docs/instrumenting/exposition_formats/; the names:
https://docs.vllm.ai/en/latest/usage/metrics.html
"""

from __future__ import annotations

import math
import re
from typing import Dict, List, Mapping, Optional

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})?\s+(\S+)(?:\s+-?\d+)?\s*$")

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\\]|\\\\.)*)"')

FINISHED = "vllm:request_success_total"
RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
CACHE_USAGE = "vllm:kv_cache_usage_perc"
PREFIX_QUERIES = "vllm:prefix_cache_queries_total"
PREFIX_HITS = "vllm:prefix_cache_hits_total"
PREEMPTIONS = "vllm:num_preemptions_total"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
GENERATION_TOKENS = "vllm:generation_tokens_total"
CACHE_CONFIG = "vllm:cache_config_info"
CACHE_CONFIG_KEPT = (
    "block_size",
    "cache_dtype",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "kv_cache_size_tokens",
    "mamba_block_size",
    "num_gpu_blocks",
    "prefix_caching_hash_algo",
)
KEPT = (
    FINISHED,
    RUNNING,
    WAITING,
    CACHE_USAGE,
    PREFIX_QUERIES,
    PREFIX_HITS,
    PREEMPTIONS,
    PROMPT_TOKENS,
    GENERATION_TOKENS,
)


def read(text: str) -> Dict[str, float]:
    """The values that are kept, summed over engines and labels; a name that is not there stays out."""
    found: Dict[str, List[float]] = {}
    for line in text.splitlines():
        if not line.startswith("vllm:"):
            continue
        match = _SAMPLE.match(line)
        if match is None or match.group(1) not in KEPT:
            continue
        try:
            value = float(match.group(3))
        except ValueError:
            continue
        if not math.isnan(value):
            found.setdefault(match.group(1), []).append(value)
    return {name: sum(values) for name, values in found.items()}


def cache_config(text: str) -> Dict[str, str]:
    """How the engine says that its cache is set up, such as block_size and enable_prefix_caching; empty when it says
    nothing. The names are those of vLLM's CacheConfig."""
    line = next((line for line in text.splitlines() if line.startswith(CACHE_CONFIG + "{")), "")
    return {name: value for name, value in _LABEL.findall(line) if name in CACHE_CONFIG_KEPT}


def grown(before: Mapping[str, float], after: Mapping[str, float], name: str) -> Optional[float]:
    """How much a counter grew; None when it was not read both times, or was set back by a restart."""
    if name not in before or name not in after or after[name] < before[name]:
        return None
    return after[name] - before[name]


def disturbance(finished: Optional[float], sent: int, answered: int) -> str:
    """Why the count of finished requests says that we were not alone; empty when it fits or is unknown.

    A request that we gave up may still be finished, so the count lies between what was answered and what was
    sent.
    """
    if finished is None or answered <= finished <= sent:
        return ""
    if finished > sent:
        return (
            "the engine finished %d requests and we sent %d: somebody else uses it, or something repeats ours"
            % (
                finished,
                sent,
            )
        )
    return "we got %d answers and the engine finished %d requests: something else answered" % (
        answered,
        finished,
    )
