# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule by which a start counts as hung (pure; private to the collection, controller only).

Progress is a line that means something, bytes that the rank's processes read, or a change of GPU memory, on any rank
of the group. CPU time alone is none: a rank that waits for its peers inside NCCL uses all of a processor and does
nothing. Nor is a heartbeat, or the same line again and again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB = 1024 * 1024
# Seconds without progress that each stage may take. devices, weights and engine: the engine's own bound on getting
# ready is 3600 s in the official launches (VLLM_ENGINE_READY_TIMEOUT_S), and NCCL and Gloo groups give up after 600 and
# 1800 s with a message that says more than we could; nothing is called hung before they had their say. container and
# api have no such bound and nothing in them is silent for minutes: imports read files, a server binds or fails.
LIMITS = {
    "container": 600.0,
    "devices": 3600.0,
    "weights": 3600.0,
    "engine": 3600.0,
    "api": 600.0,
    "runtime": 600.0,
}
_OTHERWISE = 3600.0
# A load reads at least a MiB a minute: sockets, timers and monitors read a few bytes now and then.
LEAST_BYTES, WINDOW_SECONDS = MIB, 60.0
# So often may a line come again, but for its numbers, before it tells nothing new.
SAME_LINE_AT_MOST = 8
_LINES_REMEMBERED = 4096

_COUNT = re.compile(r"\b(\d+)/(\d+)\b")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True)
class Seen:
    """The last progress of one rank."""

    name: str
    stage: str
    at: float
    what: str


@dataclass(frozen=True)
class Pace:
    """Whether a group progresses; ``since`` is its last progress, ``limit`` what its stages allow."""

    stalled: bool
    since: float
    limit: float
    reason: str


def pace(ranks: Sequence[Seen], now: float, limits: Mapping[str, float]) -> Pace:
    """The group's pace: the latest progress of any rank counts, and the most patient stage of any rank."""
    last = max(ranks, key=lambda rank: rank.at)
    limit = max(limits.get(rank.stage, _OTHERWISE) for rank in ranks)
    silent = now - last.at
    reason = f"no progress on any rank for {silent:.0f} s; the last was {last.what} on {last.name}"
    return Pace(silent > limit, last.at, limit, reason)


def limits_with(given: Mapping[str, Any]) -> dict[str, float]:
    """The limits with those that the user gave; raises ValueError for a stage that there is none of."""
    unknown = sorted(set(given) - set(LIMITS))
    if unknown:
        raise ValueError(
            f"stage_limits: expected stages among {', '.join(LIMITS)}, found {', '.join(unknown)}; correct the name"
        )
    return {**LIMITS, **{stage: float(seconds) for stage, seconds in given.items()}}


class Activity:
    """What one rank has done, from its samples and lines; ``at`` is its last progress."""

    def __init__(self, now: float) -> None:
        self.at = now
        self.what = "its start"
        self._counters: dict[str, tuple[float, int]] = {}
        self._memory: dict[tuple[str, str], int] = {}
        self._lines: dict[str, int] = {}
        self._counts: dict[str, str] = {}

    def sample(self, now: float, sample: Mapping[str, Any]) -> str:
        """Take in a sample; what of it is progress, or nothing."""
        found = ""
        for name, words in (("bytes_read", "bytes read"), ("bytes_from_disk", "bytes read from disk")):
            if self._grown(name, sample.get(name), now):
                found = words
        if self._memory_changed(sample):
            found = "GPU memory"
        return self._progress(now, found)

    def line(self, now: float, text: str) -> str:
        """Take in the newest line that is neither a warning nor a known heartbeat; whether it is progress."""
        return self._progress(now, "a line" if self._says_something(text) else "")

    def progress_bar(self, now: float, text: str) -> str:
        """Take in a line that is not finished: a progress bar that is redrawn counts when its count has moved."""
        return self._progress(now, "a line" if _COUNT.search(text) and self._moved(text) else "")

    def _progress(self, now: float, what: str) -> str:
        if what:
            self.at, self.what = now, what
        return what

    def _grown(self, name: str, value: Any, now: float) -> bool:
        if not isinstance(value, int):
            return False
        since, before = self._counters.get(name, (now, value))
        # After a longer time between two samples more is wanted.
        grown = value - before >= LEAST_BYTES * max(1.0, (now - since) / WINDOW_SECONDS)
        # A sum falls when one of the processes has ended; that is no reading.
        if grown or value < before or name not in self._counters or now - since > WINDOW_SECONDS:
            self._counters[name] = (now, value)
        return grown

    def _memory_changed(self, sample: Mapping[str, Any]) -> bool:
        own = "rank_gpu_memory" if sample.get("rank_gpu_memory") else "gpu_memory"
        changed = False
        for uuid, value in (sample.get(own) or {}).items():
            if not isinstance(value, int):
                continue
            before = self._memory.get((own, uuid))
            if before is None or abs(value - before) >= MIB:
                changed = changed or before is not None
                self._memory[own, uuid] = value
        return changed

    def _says_something(self, text: str) -> bool:
        if _COUNT.search(text) and self._moved(text):
            return True
        if len(self._lines) > _LINES_REMEMBERED:
            self._lines.clear()  # memory stays flat over a log of any length
        form = _form(text)
        self._lines[form] = self._lines.get(form, 0) + 1
        return self._lines[form] <= SAME_LINE_AT_MOST

    def _moved(self, text: str) -> bool:
        """Whether the counts in a line, such as 12/62, are others than when it was there last."""
        if len(self._counts) > _LINES_REMEMBERED:
            self._counts.clear()
        form, counts = _form(text), " ".join(match.group() for match in _COUNT.finditer(text))
        moved = self._counts.get(form) != counts
        self._counts[form] = counts
        return moved


def _form(text: str) -> str:
    """A line without its numbers and without the blocks that a bar is drawn with."""
    return re.sub(r"[\s#█▏▎▍▌▋▊▉]+", " ", _NUMBER.sub("0", text))[:300]
