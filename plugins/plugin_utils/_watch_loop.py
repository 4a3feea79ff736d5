# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of a watch: poll this host's ranks, read what the siblings wrote, decide when the wait is over (private to
the collection, controller only).

Everything outside (the host, the clock, the screen) comes in as functions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import utc
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import clip, plain
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import safe_name, write_json
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import (
    WATCH,
    Tail,
    events_path,
    shared_deadline,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rank import RankWatch
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rule import Pace, Seen, pace

READY, FAILED, HUNG, DISTURBED = "ready", "failed", "hung", "disturbed"
DEADLINE, SIBLING, UNREACHABLE = "deadline", "sibling", "unreachable"
# With these the threads of every rank are looked at before anything is stopped.
WITH_EVIDENCE = (HUNG, DEADLINE)
# A log longer than so many polls take at once is read on by whoever judges the run.
DRAIN_AT_MOST = 64
# Older events than that were written by an earlier watch of this run.
STALE_SECONDS = 120.0
# A sibling writes a sample every 30 s; one that says nothing for so long has lost its watch.
SIBLING_SILENT = 150.0
RETRY_SECONDS = 2.0


class ConnectionLost(Exception):
    """The host could not be asked."""


@dataclass(frozen=True)
class Member:
    """A rank of the group; ``api`` when it serves."""

    host: str
    rank: int
    api: bool


@dataclass
class Options:
    """What a watch is told."""

    host: str
    run: Path
    handles: Sequence[Mapping[str, Any]]
    group: Sequence[Member]
    limits: Mapping[str, float]
    deadline: float = 5400.0
    wait_seconds: float = 3.0
    unreachable_seconds: float = 120.0
    linger_seconds: float = 90.0
    stop_command: str = ""


@dataclass
class World:
    """What is outside: ``poll(cursor, seconds)`` asks the host and raises ConnectionLost, ``evidence()`` as well."""

    poll: Callable[[Mapping[str, Any], float], Mapping[str, Any]]
    evidence: Callable[[], Mapping[str, Any]]
    show: Callable[[str], None]
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


@dataclass
class Sibling:
    """What a rank on another host wrote about itself."""

    member: Member
    tail: Tail
    seen: Seen
    since: float = 0.0
    ended: dict[str, Any] = field(default_factory=dict)
    ready: bool = False

    def read(self) -> None:
        """Take in its new events."""
        for event in self.tail.read():
            if float(event["time"]) < self.since:
                continue
            if event["kind"] in ("stage", "progress"):
                stage = str(event.get("stage") or self.seen.stage)
                what = "a stage" if event["kind"] == "stage" else str(event.get("what"))
                self.seen = Seen(self.seen.name, stage, float(event["time"]), what)
            elif event["kind"] == "ready":
                self.ready = True
                self.seen = Seen(self.seen.name, "runtime", float(event["time"]), "its readiness")
            elif event["kind"] == "end":
                self.ended = event


@dataclass(frozen=True)
class Ending:
    """Why the wait is over."""

    outcome: str
    reason: str


class Watcher:
    """Watches the ranks of one host."""

    def __init__(self, options: Options, world: World) -> None:
        self._options, self._world = options, world
        self._began = world.clock()
        self.ranks = {
            int(handle.get("rank") or 0): RankWatch(
                options.run, options.host, int(handle.get("rank") or 0), world.show, self._began
            )
            for handle in options.handles
        }
        own = {(options.host, number) for number in self.ranks}
        self._api = {(member.host, member.rank) for member in options.group if member.api} or own
        self._siblings = [
            Sibling(
                member,
                Tail(events_path(options.run, member.host, member.rank)),
                Seen(f"{member.host} rank {member.rank}", "container", self._began, "its start"),
                self._began - STALE_SECONDS,
            )
            for member in options.group
            if (member.host, member.rank) not in own
        ]
        self._deadline = 0.0
        self._lost_since: float | None = None
        self._lost_words = ""
        self._holders: list[dict[str, Any]] = []

    def watch(self) -> dict[str, Any]:
        """Until the wait is over; the result for the play."""
        self._deadline, first = shared_deadline(
            self._options.run, self._options.deadline, self._world.clock()
        )
        if first and self._options.stop_command:
            self._world.show(f"to stop: {self._options.stop_command}")
        cursor: Mapping[str, Any] = {}
        ending: Ending | None = None
        while ending is None:
            cursor = self._poll(cursor, self._options.wait_seconds)
            for sibling in self._siblings:
                sibling.read()
            ending = self._ending(self._world.clock())
        return self._finish(ending, cursor)

    def _poll(self, cursor: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """One call, and further ones while the host has more to tell."""
        try:
            for _count in range(DRAIN_AT_MOST):
                answer = self._world.poll(cursor, seconds)
                cursor = answer["cursor"]
                self._take(answer)
                if not any(row["more"] for row in answer["ranks"]):
                    break
                seconds = 0.0
        except ConnectionLost as error:
            self._lose(str(error))
        return cursor

    def _take(self, answer: Mapping[str, Any]) -> None:
        now = self._world.clock()
        self._found_again(now)
        for row in answer["ranks"]:
            watched = self.ranks[int(row["rank"])]
            watched.take(row, now, (self._options.host, watched.rank) in self._api)
        for holder in answer["holders_new"]:
            self._holders.append(dict(holder))
            for watched in self.ranks.values():
                watched.event(now, "disturbance", holder=dict(holder))
        for problem in answer.get("problems") or []:
            for watched in self.ranks.values():
                watched.warn(now, str(problem))

    def _lose(self, words: str) -> None:
        now = self._world.clock()
        if self._lost_since is None:
            self._lost_since = now
            self._world.show(clip(f"{plain(self._options.host):<14} connection lost: {plain(words)}"))
        self._lost_words = words
        for watched in self.ranks.values():
            watched.event(now, "connection lost", text=words[:300], since=self._lost_since)
        self._world.sleep(RETRY_SECONDS)

    def _found_again(self, now: float) -> None:
        if self._lost_since is not None:
            lost = now - self._lost_since
            self._lost_since = None
            self._world.show(clip(f"{plain(self._options.host):<14} connected again after {lost:.0f} s"))

    def _ending(self, now: float) -> Ending | None:
        """Why the wait is over, if it is; what is certain comes before what is concluded."""
        for watched in self.ranks.values():
            if watched.over:
                return Ending(
                    FAILED, f"{watched.describe_exit()}, {now - self._began:.0f} s after the watch began"
                )
        if self._holders:
            holder = self._holders[0]
            whose = f"{holder['command']} (process {holder['pid']}, user {holder['user']})"
            return Ending(DISTURBED, f"a new process holds a GPU: {whose}")
        ended = self._sibling_ending(now)
        if ended is not None:
            return ended
        if self._all_ready():
            return Ending(READY, "every rank that serves is up")
        if self._lost_since is not None and now - self._lost_since >= self._options.unreachable_seconds:
            return Ending(
                UNREACHABLE, f"no connection for {now - self._lost_since:.0f} s: {self._lost_words}"
            )
        lingering = [rank for rank in self.ranks.values() if self._lingers(rank, now)]
        if lingering:
            return Ending(
                FAILED, f"its log names a failure, and it lives on: {lingering[0].log.verdict['message']}"
            )
        current = pace(self._all_seen(), now, self._options.limits)
        if now >= self._deadline:
            return Ending(DEADLINE, f"not ready within the time of the group; {current.reason}")
        return self._hung(current)

    def _hung(self, current: Pace) -> Ending | None:
        # Without a look at this host nothing is known of its ranks.
        if not current.stalled or self._lost_since is not None:
            return None
        silent = [rank.name for rank in self.ranks.values() if not rank.log.spoke]
        unspoken = f"; never spoke: {', '.join(silent)}" if silent else ""
        return Ending(HUNG, f"{current.reason}; {current.limit:.0f} s are allowed{unspoken}")

    def _lingers(self, rank: RankWatch, now: float) -> bool:
        since = rank.failed_at
        return since is not None and now - max(since, rank.activity.at) >= self._options.linger_seconds

    def _all_seen(self) -> list[Seen]:
        return [rank.seen() for rank in self.ranks.values()] + [sibling.seen for sibling in self._siblings]

    def _all_ready(self) -> bool:
        own = {(self._options.host, rank.rank) for rank in self.ranks.values() if rank.is_ready}
        others = {(one.member.host, one.member.rank) for one in self._siblings if one.ready}
        return self._api <= own | others

    def _sibling_ending(self, now: float) -> Ending | None:
        for sibling in self._siblings:
            outcome = sibling.ended.get("outcome")
            if outcome and outcome != READY:
                return Ending(
                    SIBLING,
                    f"{sibling.seen.name} ended the wait: {outcome}, {sibling.ended.get('reason', '')}",
                )
            age = sibling.tail.age(now)
            if age is not None and age > SIBLING_SILENT and not sibling.ended:
                return Ending(SIBLING, f"nobody watches {sibling.seen.name} any more: silent for {age:.0f} s")
        return None

    def _caused_by_hang(self, ending: Ending) -> bool:
        siblings = {sibling.ended.get("outcome") for sibling in self._siblings}
        return ending.outcome in WITH_EVIDENCE or (
            ending.outcome == SIBLING and bool(siblings & set(WITH_EVIDENCE))
        )

    def _finish(self, ending: Ending, cursor: Mapping[str, Any]) -> dict[str, Any]:
        if ending.outcome in (FAILED, SIBLING):
            # The last words may come a moment after the end, or after a sibling's.
            self._poll(cursor, 0.0 if ending.outcome == FAILED else self._options.wait_seconds)
        now = self._world.clock()
        for rank in self.ranks.values():
            rank.finish(now, ending.outcome, ending.reason)
            rank.show(now, f"{ending.outcome}: {plain(ending.reason)}")
        evidence = self._evidence() if self._caused_by_hang(ending) else {}
        for rank in self.ranks.values():
            rank.pack()
        rows = [self._row(rank, ending, now) for rank in self.ranks.values()]
        first = next((row for row in rows if row["exit"]), rows[0])
        return {
            **first,
            "ranks": rows,
            "evidence": evidence,
            "holders": self._holders,
            "watched_seconds": round(now - self._began, 1),
            "deadline": self._deadline,
        }

    def _evidence(self) -> dict[str, Any]:
        try:
            evidence = dict(self._world.evidence())
        except (ConnectionLost, BaselineError) as error:
            evidence = {"missing": str(error)}
        path = self._options.run / WATCH / f"{safe_name(self._options.host)}-evidence.json"
        write_json(path, evidence)
        return evidence

    def _row(self, rank: RankWatch, ending: Ending, now: float) -> dict[str, Any]:
        return {
            "host": self._options.host,
            "rank": rank.rank,
            "outcome": ending.outcome,
            "reason": ending.reason,
            "stage": rank.log.stage,
            "substage": rank.log.substage,
            "last_line": rank.log.last_line,
            "exit": rank.exit(),
            "ended_at": rank.exit().get("finished_at") or utc(now),
            "log": f"logs/{rank.path.name}.gz",
            "log_outcome": rank.log.outcome,
            "ready": rank.is_ready,
        }
