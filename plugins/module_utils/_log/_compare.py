# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs of one engine compared: same, confirmed, moved, masked, new, gone, changed (private to the
collection).

Two failures are the same when their signatures are. A failure that is no longer seen is never called
fixed here.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._markers import STAGES

_UNITS = {"B": 1, "bytes": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_ASKED = re.compile(r"Tried to allocate (-?[\d.]+) (\w+)")
_FREE = re.compile(r"of which (-?[\d.]+) (\w+) is free")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) (\w+)")
_SUBSTAGES = (
    "init-device", "memory-check", "handshake", "process-group", "nccl-init", "model-init", "download",
    "load", "profile", "compile", "kv-cache",
    "graph-capture", "warmup", "started", "bind", "init", "serving",
)  # fmt: skip

# Options that make a launch ask for less, and the direction that asks for less.
_LIMITS = {
    "max_model_len": -1,
    "max_num_seqs": -1,
    "max_num_batched_tokens": -1,
    "enforce_eager": 1,
    "max_cudagraph_capture_size": -1,
}


def memory_of(text: str) -> Optional[Dict[str, Optional[int]]]:
    """Requested, free and total bytes of an out-of-memory text; None when it names none."""
    asked, free, capacity = (_bytes(pattern.search(text)) for pattern in (_ASKED, _FREE, _CAPACITY))
    if asked is None and free is None:
        return None
    return {"requested_bytes": asked, "free_bytes": free, "capacity_bytes": capacity}


def _bytes(match: Optional[re.Match[str]]) -> Optional[int]:
    if match is None or match.group(2) not in _UNITS:
        return None
    try:
        return int(float(match.group(1)) * _UNITS[match.group(2)])
    except ValueError:
        return None


def comparable(one: Mapping[str, Optional[int]], other: Mapping[str, Optional[int]]) -> bool:
    """Whether two memory shortages ask for about the same, and find about the same."""
    slack = (one.get("capacity_bytes") or 0) // 200
    return _close(one.get("requested_bytes"), other.get("requested_bytes"), 0) and _close(
        one.get("free_bytes"), other.get("free_bytes"), slack
    )


def _close(one: Optional[int], other: Optional[int], slack: int) -> bool:
    if one is None or other is None:
        return False
    return abs(one - other) <= max(max(abs(one), abs(other)) // 4, slack)


def relation(previous: Mapping[str, object], current: Mapping[str, object]) -> str:
    """What became of the earlier run's failure in the later run."""
    failed_before, failed_now = _failed(previous), _failed(current)
    if not failed_before:
        return "new" if failed_now else "same"
    if not failed_now:
        return "masked" if tightened(_options(previous), _options(current)) else "gone"
    if previous.get("signature") == current.get("signature"):
        return "confirmed" if _confirms(previous, current) else "same"
    if position(current) > position(previous):
        return "moved"
    return "changed"


def _failed(run: Mapping[str, object]) -> bool:
    return run.get("outcome") in ("failed", "hung")


def _confirms(previous: Mapping[str, object], current: Mapping[str, object]) -> bool:
    before, now = previous.get("memory"), current.get("memory")
    return isinstance(before, Mapping) and isinstance(now, Mapping) and comparable(before, now)


def _options(run: Mapping[str, object]) -> Mapping[str, object]:
    options = run.get("options")
    return options if isinstance(options, Mapping) else {}


def tightened(before: Mapping[str, object], now: Mapping[str, object]) -> Tuple[str, ...]:
    """Limits that the later launch set tighter than the earlier one."""
    found = []
    for name, direction in _LIMITS.items():
        old, new = before.get(name), now.get(name)
        if new is None or old == new:
            continue
        if isinstance(new, bool):
            if new and not old:
                found.append(name)
        elif isinstance(new, (int, float)) and (
            not isinstance(old, (int, float)) or (new - old) * direction > 0
        ):
            found.append(name)
    return tuple(found)


def position(run: Mapping[str, object]) -> Tuple[int, int]:
    """How far a run got, for ordering."""
    stage, substage = str(run.get("stage")), str(run.get("substage"))
    return (
        STAGES.index(stage) if stage in STAGES else -1,
        _SUBSTAGES.index(substage) if substage in _SUBSTAGES else -1,
    )
