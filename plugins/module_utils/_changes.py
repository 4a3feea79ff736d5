# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of earlier changes on a host: a timeline with sources and gaps (pure; private to the collection).

An event is {time, what, kind, source}; its time is in seconds since 1970, None when the source has none. A
source says since when it knows anything: before that it is silent, which is not the same as unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, OK, SKIPPED
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import utc

SCHEMA = "gpufleet.baseline/changes/1"
MOST_EVENTS = 1000


@dataclass(frozen=True)
class Source:
    """One source of the timeline: how asking it ended, its events, and the time before which it is silent."""

    name: str
    outcome: str = OK
    message: str = ""
    events: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    begins: Optional[float] = None


def event(time: Optional[float], what: str, kind: str) -> Dict[str, Any]:
    """One change; its source is filled in when the timeline is made."""
    return {"time": time, "what": what, "kind": kind}


def timeline(sources: Sequence[Source]) -> Dict[str, Any]:
    """The document of all sources: events in their order, what each source covers, and the gaps in words."""
    events = [{**change, "source": source.name} for source in sources for change in source.events]
    ordered = sorted(events, key=lambda change: (change["time"] is not None, change["time"] or 0.0))
    left_out = max(0, len(ordered) - MOST_EVENTS)
    kept = [{"at": utc(change["time"]), **change} for change in ordered[left_out:]]
    return {
        "schema": SCHEMA,
        "events": kept,
        "left_out": left_out,
        "sources": [
            {
                "source": source.name,
                "outcome": source.outcome,
                "message": source.message,
                "events": len(source.events),
                "begins": utc(source.begins),
            }
            for source in sources
        ],
        "gaps": [gap for source in sources for gap in _gaps(source)],
    }


def _gaps(source: Source) -> List[str]:
    if source.outcome in (ABSENT, SKIPPED) and not source.events:
        return ["%s: not there (%s)" % (source.name, source.message)]
    gaps = []
    if source.outcome != OK:
        gaps.append("%s: %s: %s" % (source.name, source.outcome, source.message))
    if source.begins is not None:
        gaps.append("%s: silent before %s" % (source.name, utc(source.begins)))
    return gaps


def add(document: Mapping[str, Any], more: Sequence[Source]) -> Dict[str, Any]:
    """A timeline with further sources, for instance the container engine's or what a person knows."""
    added = timeline(more)
    events = sorted(
        [*document["events"], *added["events"]],
        key=lambda change: (change["time"] is not None, change["time"] or 0.0),
    )
    left_out = max(0, len(events) - MOST_EVENTS)
    return {
        "schema": SCHEMA,
        "events": events[left_out:],
        "left_out": document["left_out"] + added["left_out"] + left_out,
        "sources": [*document["sources"], *added["sources"]],
        "gaps": [*document["gaps"], *added["gaps"]],
    }
