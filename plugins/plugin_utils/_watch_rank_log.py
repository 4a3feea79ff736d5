# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the log of one rank says while it grows (private to the collection, controller only).

The judgement is that of the first failure, module_utils/_log; here its answers of now and before are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import Judge, LogSource
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_lines import message

UNDER_WAY = ("running", "hung")
_WARNINGS_AT_MOST = 50


@dataclass
class Change:
    """What a piece of log has changed."""

    stages: list[dict[str, Any]] = field(default_factory=list)
    progress: str = ""
    line: str = ""
    warnings: list[str] = field(default_factory=list)
    failed: bool = False
    ready: bool = False


class RankLog:
    """One rank's log, fed piece by piece."""

    def __init__(self, path: str) -> None:
        self._judge = Judge([LogSource(path)])
        self._fed = 0
        self._steps = 0
        self._line: int | None = None
        self._warnings: set[tuple[Any, Any]] = set()
        self.verdict: dict[str, Any] = {}
        self.stage, self.substage, self.progress = "container", "start", ""
        self.last_line = ""
        self.spoke = False

    @property
    def outcome(self) -> str:
        """ready, failed, hung, stopped, running or unknown: what the log alone says."""
        return str(self.verdict.get("outcome") or "unknown")

    def feed(self, text: str, now: float) -> Change:
        """Take in new lines."""
        first, lines = self._fed + 1, text.split("\n")
        self._fed += len(lines) - 1
        self.spoke = self.spoke or bool(text.strip())
        self._judge.feed(0, text.encode("utf-8", "surrogateescape"))
        before = self.outcome
        self._judge.observed_at = now
        self.verdict = dict(self._judge.verdict())
        change = Change(failed=before != "failed" == self.outcome, ready=before != "ready" == self.outcome)
        self._take_steps(change)
        self._take_line(change, first, lines)
        for row in self.verdict.get("evidence") or []:
            key = (row["failure_class"], row["line"])
            if key not in self._warnings and len(self._warnings) < _WARNINGS_AT_MOST:
                self._warnings.add(key)
                change.warnings.append(message(str(row["what"])))
        return change

    def end(self, now: float) -> None:
        """The log is complete."""
        self._judge.end(0)
        self._judge.observed_at = now
        self.verdict = dict(self._judge.verdict())
        self._take_steps(Change())

    def _take_steps(self, change: Change) -> None:
        """The newest step is where the rank is: processes of one rank enter a stage one after the other."""
        steps: list[Mapping[str, Any]] = sorted(
            self.verdict.get("timeline") or [], key=lambda row: row["line"]
        )
        if not steps:
            return
        last = steps[-1]
        if (last["stage"], last["substage"]) != (self.stage, self.substage):
            self.progress = ""
        counted = [str(row["progress"]) for row in steps if row["progress"] and _same_place(row, last)]
        progress = counted[-1] if counted else ""
        if progress and progress != self.progress:
            change.progress = progress
        self.progress = progress
        for row in steps[self._steps :]:
            place = (str(row["stage"]), str(row["substage"]))
            if place != (self.stage, self.substage):
                self.stage, self.substage = place
                change.stages.append({"stage": place[0], "substage": place[1], "line": row["line"]})
        self._steps = len(steps)

    def _take_line(self, change: Change, first: int, lines: list[str]) -> None:
        number = self.verdict.get("line")
        if self.outcome in UNDER_WAY and isinstance(number, int):
            fresh = number != self._line
            self._line = number
            if fresh and first <= number < first + len(lines):
                change.line = self.last_line = message(lines[number - first])
        if not self.last_line or self.outcome not in UNDER_WAY:
            self.last_line = next((text for text in map(message, reversed(lines)) if text), self.last_line)


def _same_place(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(row["stage"] == other["stage"] and row["substage"] == other["substage"])
