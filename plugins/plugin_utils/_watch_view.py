# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One view of all ranks of a start, drawn over itself (private to the collection, controller only)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import WATCH, Tail
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_lines import amounts, rank_line

QUIET_SECONDS = 30.0
# Set by the callback gpufleet.baseline.live for its workers: it draws the ranks itself.
LIVE_VARIABLE = "GPUFLEET_BASELINE_LIVE"
# Up so many lines and to their beginning; clear to the end of the line (ECMA-48: CPL, EL).
_UP, _CLEAR = "\x1b[{0}F", "\x1b[K"


@dataclass
class _Shown:
    tail: Tail
    host: str
    rank: int
    stage: str = "container"
    substage: str = "start"
    progress: str = ""
    sample: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0
    last: str = ""


class View:
    """Reads the events of a run and makes frames of them."""

    def __init__(self, run: Path) -> None:
        self._directory = run / WATCH
        self._ranks: dict[str, _Shown] = {}
        self._drawn = 0

    def frame(self, now: float) -> str:
        """The text that draws the view over the one before."""
        self._read()
        lines = [self._line(shown, now) for _name, shown in sorted(self._ranks.items())]
        up = _UP.format(self._drawn) if self._drawn else ""
        self._drawn = len(lines)
        return up + "".join(f"{line}{_CLEAR}\n" for line in lines)

    def _read(self) -> None:
        for path in sorted(self._directory.glob("*.jsonl")):
            if path.stem not in self._ranks:
                host, _dash, rank = path.stem.rpartition("-")
                self._ranks[path.stem] = _Shown(Tail(path), host, int(rank) if rank.isdigit() else 0)
        for shown in self._ranks.values():
            for event in shown.tail.read():
                _take(shown, event)

    @staticmethod
    def _line(shown: _Shown, now: float) -> str:
        quiet = now - shown.at if shown.at and not shown.last else 0.0
        parts = [shown.last or amounts(shown.progress, shown.sample)]
        parts += [f"quiet for {quiet:.0f} s"] if quiet >= QUIET_SECONDS else []
        return rank_line(shown.host, shown.rank, shown.stage, shown.substage, ", ".join(filter(None, parts)))


def _take(shown: _Shown, event: dict[str, Any]) -> None:
    kind = event["kind"]
    if kind == "stage":
        shown.stage, shown.substage = str(event.get("stage")), str(event.get("substage"))
        shown.progress, shown.at = "", event["time"]
    elif kind == "progress":
        shown.at = event["time"]
        if event.get("what") == "counted":
            shown.progress = str(event.get("text"))
    elif kind == "sample":
        shown.sample = event
    elif kind == "ready":
        shown.last = "ready"
    elif kind == "failure":
        shown.last = f"failure: {plain(str(event.get('message')))}"
    elif kind == "connection lost":
        shown.last = "connection lost"
    elif kind == "end":
        shown.last = f"{event.get('outcome')}: {plain(str(event.get('reason')))}"
    if kind in ("progress", "state", "sample") and shown.last == "connection lost":
        shown.last = ""
