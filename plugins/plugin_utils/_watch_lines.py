# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a watch shows: short lines without control characters (pure; private to the collection, controller only)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import clip, plain

_GIB = 1024**3
_STAMP = re.compile(r"^(?:\d{4}-\d\d-\d\dT[\d:.]+Z|-) (?:stdout|stderr|invalid) ")


def message(line: str) -> str:
    """The newest part of a log line, without the runtime's time and stream: of a redrawn bar the last state."""
    parts = [part for part in _STAMP.sub("", line).split("\r") if part.strip()]
    return " ".join(plain(parts[-1]).split()) if parts else ""


def rank_line(host: str, rank: int, stage: str, substage: str, text: str) -> str:
    """One line of the live timeline."""
    place = f"{stage}/{substage}" if substage else stage
    return clip(f"{plain(host):<14} rank {rank:<3} {place:<22} {text}".rstrip())


def amounts(progress: str, sample: Mapping[str, Any]) -> str:
    """How far a rank is: counted progress, GPU memory, bytes read."""
    parts = [progress] if progress else []
    memory = sample.get("rank_gpu_memory") or sample.get("gpu_memory") or {}
    known = [value for value in memory.values() if isinstance(value, int)]
    if known:
        parts.append(f"GPU memory {sum(known) / _GIB:.1f} GiB on {len(known)}")
    read = max((sample.get(name) or 0) for name in ("bytes_read", "bytes_from_disk"))
    if read:
        parts.append(f"read {read / _GIB:.1f} GiB")
    return ", ".join(parts)


def clean_command(run: str, inventories: Sequence[str]) -> str:
    """The command that stops what a run has started."""
    words = ["ansible-playbook", "gpufleet.baseline.clean"]
    for inventory in inventories:
        words += ["-i", inventory]
    return " ".join(shlex.quote(word) for word in [*words, "-e", f"run={run}"])
