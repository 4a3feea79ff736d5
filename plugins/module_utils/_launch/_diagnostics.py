# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diagnostic variables of a run, and the proof that they are gone from the next (private; pure).

What each does: https://docs.vllm.ai/en/latest/usage/troubleshooting/ and
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html. A run with them proves nothing about the
launch without them: they change timing, and the tracing of functions makes it slower by far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DIAGNOSTICS,
    Launch,
    Value,
)

NONE, LOGS, NCCL, BLOCKING, TRACE = DIAGNOSTICS
TRACE_WARNING = (
    "VLLM_TRACE_FUNCTION writes every call of a function to a file on each host: the start takes many times as long, "
    "and the files grow without a limit; stop it as soon as the place is known"
)

_LOGS = {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_LOG_STATS_INTERVAL": "1"}
VARIABLES: Mapping[str, Mapping[str, str]] = {
    NONE: {},
    LOGS: _LOGS,
    NCCL: {**_LOGS, "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,NVLS"},
    BLOCKING: {**_LOGS, "CUDA_LAUNCH_BLOCKING": "1"},
    TRACE: {**_LOGS, "NCCL_DEBUG": "TRACE", "VLLM_TRACE_FUNCTION": "1"},
}
NAMES: Tuple[str, ...] = tuple(dict.fromkeys(name for variables in VARIABLES.values() for name in variables))


def with_diagnostics(launch: Launch, level: str, finished: Iterable[str] = ()) -> Launch:
    """The launch with the variables of a level on every rank.

    ``finished`` are the levels of the finished runs before it: tracing is for when logs were not enough.
    """
    if level not in VARIABLES:
        raise BaselineError(f"expected as diagnostics one of {', '.join(DIAGNOSTICS)}; found {level}")
    if level == TRACE and LOGS not in set(finished):
        raise BaselineError(
            f"diagnostics: expected a finished run with {LOGS} in this reproduction before {TRACE}, found none; "
            f"run with diagnostics={LOGS} first"
        )
    if level == NONE:
        return launch
    notes = (*launch.notes, TRACE_WARNING) if level == TRACE else launch.notes
    ranks = tuple(replace(rank, env={**rank.env, **VARIABLES[level]}) for rank in launch.ranks)
    return replace(launch, ranks=ranks, diagnostics=level, notes=notes)


def left(environment: Mapping[str, Value], wanted: Mapping[str, Value]) -> List[str]:
    """Diagnostic variables in a rank's environment that its launch does not ask for.

    Whoever asks for one in the launch itself (launch_env) has it in both.
    """
    return [name for name in NAMES if name in environment and environment[name] != wanted.get(name)]


def asked_for(launch: Launch) -> Dict[int, List[str]]:
    """Ranks whose own environment, as the launch says it, has diagnostic variables; empty when none has."""
    found = {rank.node_rank: [name for name in NAMES if name in rank.env] for rank in launch.ranks}
    return {number: names for number, names in found.items() if names}
