# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine that neither failed nor became ready: still under way, or hung; private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log, Part
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._run import Moment

# Seconds without progress after which a stage counts as hung; loading and compiling may be silent for long.
LIMITS = {
    "container": 120.0,
    "devices": 180.0,
    "weights": 900.0,
    "engine": 600.0,
    "api": 180.0,
    "runtime": 180.0,
}
_BEATS = 3  # heartbeats in a row, one a minute


@dataclass
class Idle:
    """The last progress, and what it means."""

    outcome: str
    stage: str
    substage: str
    log: Log
    line: int
    process: str
    rank: Optional[int]
    time: Optional[float]
    message: str
    confidence: str
    reason: str
    advice: str


def idle_of(parts: List[Part], serving: bool, observed: Optional[float]) -> Optional[Idle]:
    """Running or hung, for an attempt without a failure; None when it serves or when nothing was
    recognised.
    """
    spoken = [part for part in parts if part.run.progress is not None]
    if not spoken:
        return None
    if serving:
        return _stalled(spoken, observed)
    last = max(spoken, key=lambda part: (part.log.common(_time(part.run.progress)) or 0.0, -part.log.index))
    moment, marker = last.run.progress, last.run.marker
    if moment is None:
        return None
    stage, substage = (marker.stage, marker.substage) if marker is not None else ("container", "start")
    idle = Idle(
        "hung",
        stage,
        substage,
        last.log,
        moment.line,
        moment.process,
        moment.rank,
        last.log.common(moment.time),
        "",
        "low",
        "",
        "",
    )
    silence = _silence(parts, last, observed)
    _judge(idle, parts, silence, observed)
    return idle


def _time(moment: Optional[Moment]) -> Optional[float]:
    return moment.time if moment is not None else None


def _silence(parts: List[Part], last: Part, observed: Optional[float]) -> Optional[float]:
    """Seconds between the last progress and the last thing known: any later line, or the moment of
    observation.
    """
    progress = last.log.common(_time(last.run.progress))
    if progress is None:
        return None
    known = [part.end for part in parts]
    if observed is not None:
        known.append(observed)
    return max(known) - progress


def _judge(idle: Idle, parts: List[Part], silence: Optional[float], observed: Optional[float]) -> None:
    limit = LIMITS.get(idle.stage, 600.0)
    beats = max((part.run.heartbeats for part in parts), default=0)
    missing = _absent_peers(parts)
    late = [part for part in parts if _behind(part)]
    where = "stage {0}{1}".format(idle.stage, " (" + idle.substage + ")" if idle.substage else "")
    idle.message = "No progress after line {0}, in {1}.".format(idle.line, where)
    idle.advice = "Compare the last line of every rank; look at the ranks that did not get there."
    if missing:
        idle.confidence = "medium"
        idle.reason = "not ready, no error, and rank {0} never spoke".format(", ".join(map(str, missing[:8])))
        idle.advice = "See whether the other hosts were started with the same head address and can reach it."
    elif late:
        idle.confidence = "medium"
        idle.reason = "some ranks finished a step of {0} that others did not".format(where)
    if beats >= _BEATS or (silence is not None and silence > limit):
        idle.confidence = "medium"
        idle.reason = "{0} heartbeat(s) and {1:.0f} s without progress".format(beats, silence or 0.0)
    elif silence is not None and observed is not None and silence <= limit:
        idle.outcome = "running"
        idle.message = "Under way in {0}.".format(where)
        idle.reason = "the last progress is {0:.0f} s old; {1:.0f} s are allowed in this stage".format(
            silence, limit
        )
        idle.advice = "Wait; the stage's own limit is not over."
    elif not any(part.log.ended for part in parts):
        idle.outcome = "running"
        idle.message = "Under way in {0}.".format(where)
        idle.reason = "the log is still being read and shows no failure"
        idle.advice = "Wait; the stage's own limit is not over."
    elif not idle.reason:
        idle.reason = "the log ends in {0} without an error, readiness or a stop; ".format(where)
        idle.reason += "an engine still at work looks the same"


def _absent_peers(parts: List[Part]) -> List[int]:
    """Ranks of hosts that no log is here for, where the ranks of this host all spoke."""
    missing = _ranks.missing_ranks(parts)
    if not missing:
        return []
    seen = _ranks.seen_ranks(parts)
    local = sum(part.run.local_world_size or 0 for part in parts)
    return missing if local and len(seen) >= local else []


def _behind(part: Part) -> bool:
    joined = part.run.joined
    complete, world = joined.get("init-complete", set()), part.run.expected_ranks or 0
    begun = joined.get("init-start", set())
    return bool(complete) and (len(complete) < world or len(complete) < len(begun))


def _stalled(parts: List[Part], observed: Optional[float]) -> Optional[Idle]:
    """An engine that served and then went silent with a request in its hands."""
    for part in parts:
        run = part.run
        beat, first = run.heartbeat_last, run.heartbeat_first
        if run.heartbeats < _BEATS or beat is None or first is None or beat.line <= run.traffic.served_line:
            continue
        moment = run.progress or beat
        return Idle(
            "hung", "runtime", "stalled", part.log, moment.line, beat.process, beat.rank,
            part.log.common(first.time),
            "The engine waits for a worker since line {0}.".format(first.line), "medium",
            "{0} heartbeats in a row while it served nothing".format(run.heartbeats),
            "Compare the last line of every rank and look at the hosts of the silent ones.",
        )  # fmt: skip
    return None
