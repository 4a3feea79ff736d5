# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One watched rank of this host: what came of it becomes events, a log and shown lines (private to the collection,
controller only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import (
    Events,
    RankLogFile,
    events_path,
    log_path,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_lines import (
    amounts,
    message,
    rank_line,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rank_log import Change, RankLog
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rule import Activity, Seen

# A line is shown at least so often, and counted progress not more often than that.
SHOW_EVERY, SHOW_PROGRESS_EVERY = 30.0, 5.0
SAMPLE_EVERY = 30.0
PROGRESS_EVERY = 10.0
_WARNINGS_AT_MOST = 200


class RankWatch:
    """Everything known of one rank."""

    def __init__(self, run: Path, host: str, rank: int, show: Callable[[str], None], now: float) -> None:
        self.host, self.rank = host, rank
        self.path = log_path(run, host, rank)
        self.activity = Activity(now)
        self.log = RankLog(str(self.path.relative_to(run)))
        self.state: dict[str, Any] = {"running": None}
        self.sample: dict[str, Any] = {}
        self.healthy = self.is_ready = False
        self.failed_at: float | None = None
        self._events = Events(events_path(run, host, rank))
        self._file = RankLogFile(self.path)
        self._show = show
        self._began = now
        self._shown_at = self._sampled_at = self._progress_at = 0.0
        self._shown = ""
        self._told: set[str] = set()

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.host} rank {self.rank}"

    @property
    def over(self) -> bool:
        """Whether the rank has ended."""
        return self.state.get("running") is False

    def seen(self) -> Seen:
        """Its last progress."""
        return Seen(self.name, self.log.stage, self.activity.at, self.activity.what)

    def event(self, now: float, kind: str, **content: Any) -> None:
        """Write an event."""
        self._events.append({"time": round(now, 3), "kind": kind, "rank": self.rank, **content})

    def show(self, now: float, text: str) -> None:
        """Show a line of this rank."""
        self._shown_at = now
        self._show(rank_line(self.host, self.rank, self.log.stage, self.log.substage, text))

    def take(self, row: Mapping[str, Any], now: float, api: bool) -> None:
        """What a poll told of the rank."""
        self._take_state(row["state"], now)
        self._take_log(row, now)
        self._take_sample(row, now)
        self._take_problems(row, now)
        self.healthy = row.get("health") == 200
        if api and not self.is_ready and not self.over and (self.healthy or self.log.outcome == "ready"):
            self.is_ready = True
            how = "/health answers" if self.healthy else "its log says so"
            self.event(now, "ready", how=how, seconds=round(now - self._began, 1))
            self.show(now, f"ready: {how}")
        self._show_progress(now)

    def _take_state(self, state: Mapping[str, Any], now: float) -> None:
        before = {key: self.state.get(key) for key in ("running", "status", "exit_code")}
        self.state = dict(state)
        if any(self.state.get(key) != value for key, value in before.items()):
            self.event(now, "state", **{key: value for key, value in self.state.items() if key != "pid"})

    def _take_log(self, row: Mapping[str, Any], now: float) -> None:
        text = str(row["lines"])
        if self.over and not row["more"] and text and not text.endswith("\n"):
            text += "\n"
        if text:
            self._file.append(text)
            self._take_change(self.log.feed(text, now), now)
        if row["unfinished"] and self.activity.progress_bar(now, message(str(row["unfinished"]))):
            self._progress_event(now, "a line", message(str(row["unfinished"])))

    def _take_change(self, change: Change, now: float) -> None:
        for stage in change.stages:
            self.event(now, "stage", **stage)
        if change.stages:
            self._shown_at = 0.0
        if change.progress:
            self.activity.line(now, f"{self.log.stage} {change.progress}")
            self._progress_event(now, "counted", change.progress)
        if change.line:
            self._progress_event(now, self.activity.line(now, change.line), change.line)
        elif change.stages:
            self.activity.line(now, f"{self.log.stage}/{self.log.substage} begins")
        for warning in change.warnings:
            self.event(now, "warning", text=warning)
        if change.failed:
            self.failed_at = now
            verdict = self.log.verdict
            found = {key: verdict[key] for key in ("stage", "substage", "failure_class", "line", "message")}
            self.event(now, "failure", **found)
            self.show(now, f"failure: {verdict['stage']}/{verdict['failure_class']}, line {verdict['line']}")
        elif self.log.outcome != "failed":
            self.failed_at = None

    def _take_sample(self, row: Mapping[str, Any], now: float) -> None:
        self.sample = dict(row["sample"])
        self._progress_event(now, self.activity.sample(now, self.sample), "")
        if now - self._sampled_at >= SAMPLE_EVERY or self.over:
            self._sampled_at = now
            self.event(now, "sample", **{key: value for key, value in self.sample.items() if key != "time"})

    def _progress_event(self, now: float, what: str, text: str) -> None:
        """Siblings see by it that the group is alive; so often is enough for that."""
        if what and (what == "counted" or now - self._progress_at >= PROGRESS_EVERY):
            self._progress_at = now
            self.event(now, "progress", what=what, text=text[:200], stage=self.log.stage)

    def _take_problems(self, row: Mapping[str, Any], now: float) -> None:
        problems = [str(row.get("gap") or ""), str(row.get("log_problem") or "")]
        if row.get("lease") is False and not self.over:
            problems.append("the rank's lease is gone: nothing stops it when this watch ends")
        for text in problems:
            self.warn(now, text)

    def warn(self, now: float, text: str) -> None:
        """Write a warning, each once."""
        if text and text not in self._told and len(self._told) < _WARNINGS_AT_MOST:
            self._told.add(text)
            self.event(now, "warning", text=text[:300])

    def _show_progress(self, now: float) -> None:
        text = amounts(self.log.progress, self.sample)
        due = now - self._shown_at
        changed = self.log.progress != self._shown
        if due >= SHOW_EVERY or (changed and due >= SHOW_PROGRESS_EVERY):
            self._shown = self.log.progress
            quiet = now - self.activity.at
            parts = [text, f"quiet for {quiet:.0f} s" if quiet >= SHOW_EVERY else ""]
            self.show(now, ", ".join(part for part in parts if part))

    def exit(self) -> dict[str, Any]:
        """How it ended; nothing while it runs."""
        return self.state if self.over else {}

    def describe_exit(self) -> str:
        """How it ended, in words."""
        code = self.state.get("exit_code")
        text = f"exit code {code}" if code is not None else "it ended"
        if self.state.get("oom_killed"):
            text += ", killed for memory"
        return f"{text} {self.state['error']}".rstrip() if self.state.get("error") else text

    def finish(self, now: float, outcome: str, reason: str) -> None:
        """The wait is over: siblings see it."""
        self.log.end(now)
        self.event(
            now,
            "end",
            outcome=outcome,
            reason=reason,
            stage=self.log.stage,
            substage=self.log.substage,
            last_line=self.log.last_line,
            exit=self.exit(),
        )

    def pack(self) -> None:
        """Compress the log."""
        self._file.pack()
