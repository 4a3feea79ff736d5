# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as a document: plain dicts, lists and texts (private to the collection). Described in
docs/reading-a-vllm-log.md
"""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import (
    Candidate,
    Log,
    Part,
    attempts,
    judged,
    share_clock,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import WARNING
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import YEAR, from_epoch, show
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._compare import relation
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._decide import decide
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._decision import Decision
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import container_end

SCHEMA = "gpufleet.baseline/first_failure/1"
_MAX_CONSEQUENCES = 200
_MAX_RUNS = 50

Document = Dict[str, object]


def verdict_of(
    logs: List[Log], state: Optional[Mapping[str, object]] = None, observed_at: Optional[float] = None
) -> Document:
    """The verdict over all logs. observed_at is the Unix time at which the logs were taken, where it is
    known.
    """
    share_clock(logs)
    end = container_end(state)
    grouped = attempts(logs)
    parts = judged(grouped)
    decision = decide(parts, logs, end, _observed(logs, observed_at))
    runs = _runs(grouped, logs, parts, decision)
    change = _change(grouped, runs, parts)
    if decision.memory is not None:
        seen = "confirmed" if change.get("relation") == "confirmed" else "first seen"
        decision.reason += "; a memory shortage, " + seen
    document: Document = {
        "schema": SCHEMA,
        "outcome": decision.outcome,
        "stage": decision.stage,
        "substage": decision.substage,
        "failure_class": decision.failure_class,
        "node": decision.log.node if decision.log is not None else None,
        "path": decision.log.path if decision.log is not None else None,
        "line": decision.line,
        "exception_line": decision.exception_line,
        "process": decision.process,
        "rank": decision.rank,
        "time": _time(decision),
        "message": str(change.get("text") or "") + decision.message,
        "consequences": _consequences(decision),
        "confidence": decision.confidence,
        "reason": _sentence(decision.reason),
        "advice": decision.advice,
        "evidence": _evidence(decision),
        "aside": [_pointer(one) for one in decision.choice.aside[:50]],
        "memory": _memory(decision, change),
        "timeline": _ranks.timeline(parts),
        "per_rank": _ranks.per_rank(parts),
        "active": _active(parts),
        "runs": runs,
        "change": change,
        "signature": decision.signature(),
        "container": _container(end),
        "logs": [_log_row(log) for log in logs],
    }
    return document


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("." if text and not text.endswith(".") else "")


def _observed(logs: List[Log], observed_at: Optional[float]) -> Optional[float]:
    """The moment of observation on the common clock: only where a log's own clock is known against UTC."""
    if observed_at is None:
        return None
    value, year = from_epoch(observed_at)
    for log in logs:
        clock = log.analysis.clock
        if clock.year is not None and clock.zone is not None:
            value += (year - clock.year) * YEAR
            return log.common(value + clock.zone)
    return None


def _time(decision: Decision) -> Optional[str]:
    return show(decision.time, decision.log.analysis.clock.year) if decision.log is not None else None


def _pointer(candidate: Candidate) -> Document:
    return {
        "path": candidate.log.path,
        "line": candidate.block.first,
        "failure_class": candidate.finding.failure_class,
    }


def _consequences(decision: Decision) -> List[Document]:
    found = []
    for one in decision.choice.followed[:_MAX_CONSEQUENCES]:
        row = _pointer(one)
        row["process"], row["rank"] = _ranks.owner_of(one)
        row["repeated"] = one.finding.failure_class == decision.failure_class
        found.append(row)
    return found


def _evidence(decision: Decision) -> List[Document]:
    """Hints that stand beside the failure: warnings of the same attempt, the kernel's line."""
    rows = []
    for one in decision.choice.evidence[:20]:
        if one.finding.row.literals:
            row = _pointer(one)
            row["what"] = " ".join((one.block.header or one.block.whole).split())[:200]
            rows.append(row)
    if decision.kernel is not None:
        word = decision.kernel
        rows.append(
            {
                "path": word.log.path,
                "line": word.block.first,
                "failure_class": word.failure_class,
                "what": " ".join(word.block.header.split())[:200],
            }
        )
    return rows


def _memory(decision: Decision, change: Document) -> Optional[Document]:
    if decision.memory is None:
        return None
    return dict(decision.memory, state="confirmed" if change.get("relation") == "confirmed" else "first seen")


def _active(parts: List[Part]) -> Document:
    """Requests in flight and start options at the moment of the failure, from the head's log."""
    heads = [part for part in parts if part.run.options or part.run.traffic.requests or part.run.traffic.load]
    if not heads:
        return {"options": {}, "requests": [], "recent": [], "running": None, "waiting": None, "routes": {}}
    run = heads[0].run
    running, waiting = run.traffic.load if run.traffic.load is not None else (None, None)
    return {
        "options": run.options,
        "requests": list(run.traffic.requests.values()),
        "recent": list(run.traffic.recent),
        "running": running,
        "waiting": waiting,
        "routes": run.traffic.routes,
    }


def _runs(
    grouped: List[List[Part]], logs: List[Log], parts: List[Part], decision: Decision
) -> List[Document]:
    """Every run found, oldest first, with the outcome and signature of the attempt that it belongs to."""
    rows: List[Document] = []
    for number, group in enumerate(grouped[-_MAX_RUNS:], max(0, len(grouped) - _MAX_RUNS) + 1):
        found = decision if group is parts else decide(group, logs, None, None)
        for part in group:
            run = part.run
            year = part.log.analysis.clock.year
            rows.append(
                {
                    "attempt": number,
                    "judged": group is parts,
                    "path": part.log.path,
                    "node": part.log.node,
                    "run": run.number,
                    "first_line": run.first_line,
                    "last_line": run.last_line,
                    "started": show(part.log.common(run.started), year),
                    "ended": show(part.log.common(run.last_time), year),
                    "version": run.version,
                    "outcome": found.outcome,
                    "stage": found.stage,
                    "substage": found.substage,
                    "failure_class": found.failure_class,
                    "signature": found.signature(),
                    "memory": found.memory,
                    "options": run.options,
                }
            )
    return rows


def _change(grouped: List[List[Part]], runs: List[Document], parts: List[Part]) -> Document:
    """What became of the failure of the attempt before the judged one."""
    place = next((index for index, group in enumerate(grouped) if group is parts), 0)
    if place == 0:
        return {"relation": None, "text": ""}
    last = max(0, len(grouped) - _MAX_RUNS)
    if place <= last:
        return {"relation": None, "text": ""}
    before = _merged([row for row in runs if row["attempt"] == place])
    now = _merged([row for row in runs if row["attempt"] == place + 1])
    if not before or not now:
        return {"relation": None, "text": ""}
    found = relation(before, now)
    text = ""
    if found not in ("same", "confirmed"):
        text = "Changed since the run before ({0}): {1}, now {2}. ".format(found, _named(before), _named(now))
    return {"relation": found, "text": text, "before": before["signature"]}


def _merged(rows: List[Document]) -> Document:
    """The rows of one attempt as one, with the options of whichever log has them."""
    if not rows:
        return {}
    merged = dict(rows[0])
    merged["options"] = next((row["options"] for row in rows if row["options"]), {})
    return merged


def _named(row: Document) -> str:
    if row["outcome"] in ("failed", "hung"):
        return "{0} {1}/{2}".format(row["outcome"], row["stage"], row["failure_class"])
    return str(row["outcome"])


def _container(end: object) -> Optional[Document]:
    return dict(vars(end)) if end is not None else None


def _log_row(log: Log) -> Document:
    runs = log.analysis.runs
    first = next((run.started for run in runs if run.started is not None), None)
    clock = log.analysis.clock
    start = log.analysis.container_start
    missing = None
    if start is not None and first is not None:
        zone = clock.zone or 0.0
        missing = first - zone - start > 120.0 and runs[0].banner is None
    return {
        "path": log.path,
        "node": log.node,
        "lines": max((run.last_line for run in runs), default=0),
        "runs": len(runs) + log.analysis.dropped_runs,
        "newest_first": log.newest_first,
        "head_missing": missing,
        "zone_seconds": clock.zone,
        "warnings": sum(block.kind == WARNING for run in runs for block in run.blocks),
    }
