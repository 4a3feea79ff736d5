# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen after fixed requests (pure; private to the collection, controller only)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import clip, plain

ROWS = 8
MIB = 1024 * 1024
ANSWERED = "answered"


def good(requests: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there was a request, and every one was answered by an engine that was ours alone."""
    return bool(requests) and all(
        request.get("outcome") == ANSWERED and not request.get("disturbed") for request in requests
    )


def render(title: str, requests: Sequence[Mapping[str, Any]], where: Sequence[tuple[str, str]]) -> list[str]:
    """One block of lines for each document, the last ones when there are many; at most 25 lines in all."""
    lines = [plain(title), ""]
    if len(requests) > ROWS:
        lines.append(f"({len(requests) - ROWS} earlier ones are kept in the run)")
    for request in requests[-ROWS:]:
        lines.append(clip(plain(_row(request))))
        note = request.get("disturbed") or request.get("message") or _note(request)
        if note:
            lines.append(clip(plain(f"    {note}")))
    for label, text in where:
        lines.append(f"{label:<12}{text}")
    return lines


def _row(request: Mapping[str, Any]) -> str:
    attempts = request.get("attempts") or []
    seconds = [attempt["seconds"] for attempt in attempts]
    outcome = "disturbed" if request.get("disturbed") else request.get("outcome", "")
    took = f"{min(seconds):.2f} to {max(seconds):.2f} s" if seconds else "no answer"
    label = f"{request.get('host', '')} {request.get('label', '')}".strip()
    count = f"{request.get('answered', 0)} of {request.get('sent', 0)}"
    return f"{label:<28}  {outcome:<16} {count}  {took}{_memory(request)}"


def _memory(request: Mapping[str, Any]) -> str:
    """How much the GPU memory in use grew over the requests, all GPUs together."""
    trace = (request.get("gpu_memory") or {}).get("trace") or []
    if len(trace) < 2:
        return ""
    first, last = (sum(value or 0 for value in sample["bytes"].values()) for sample in (trace[0], trace[-1]))
    return f"  GPU memory {(last - first) / MIB:+.0f} MiB"


def _note(request: Mapping[str, Any]) -> str:
    return next(
        (attempt["message"] for attempt in request.get("attempts") or [] if attempt.get("message")), ""
    )
