# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ranks and processes of an attempt: who failed when, who fell silent, who never spoke (private to the
collection).
"""

from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Candidate, Part
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import show
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._process import Process, role_of

_MAX_ROWS = 1024
_FRAME_OWNERS: Tuple[Tuple[str, str], ...] = (
    ("worker_main", "Worker"),
    ("run_engine_core", "EngineCore"),
    ("run_headless", "MainProcess"),
    ("run_server", "APIServer"),
    ("cmd", "APIServer"),
    ("main", "APIServer"),
)


def time_text(part: Part, when: Optional[float]) -> Optional[str]:
    """A time of the common clock for people, in the words of this log's year."""
    return show(when, part.log.analysis.clock.year)


def owner_of(candidate: Candidate) -> Tuple[str, Optional[int]]:
    """Process name and rank of a failure."""
    block, run = candidate.block, candidate.run
    process = run.process_of(block.line)
    name = process.name if process is not None else block.line.process
    rank = process.rank if process is not None else None
    if block.kind == "launcher" and not name:
        return "docker" if "daemon" in block.whole or "nvidia-container" in block.whole else "", None
    if rank is None and block.line.rank is not None:
        rank = block.line.rank
    if not name and rank is not None:
        name = next((one.name for one in run.processes.values() if one.rank == rank), "")
    name = name or _owner_by_frames(candidate)
    if rank is None:
        rank = _implied_rank(candidate, name, process)
    return name, rank


def _owner_by_frames(candidate: Candidate) -> str:
    frames = [frame.partition(":")[2] for raised in candidate.block.raised for frame in raised.frames]
    for function, name in _FRAME_OWNERS:
        if function in frames:
            return name
    return ""


def _implied_rank(candidate: Candidate, name: str, process: Optional[Process]) -> Optional[int]:
    run = candidate.run
    if role_of(name) in ("engine", "worker") and run.expected_ranks == 1:
        return 0
    if process is not None and process.local_rank is not None and run.world_size == run.local_world_size:
        return process.local_rank
    if (
        process is not None
        and process.local_rank is not None
        and run.local_world_size is None
        and not run.headless
    ):
        return process.local_rank
    return None


def next_worker(candidate: Candidate, others: List[Candidate]) -> Tuple[str, Optional[int]]:
    """For a line that names no process: the worker of the same log that failed next, within two seconds."""
    for other in others:
        if other.log is not candidate.log or other.block.first < candidate.block.first:
            continue
        if other.time is not None and candidate.time is not None and other.time - candidate.time > 2:
            break
        name, rank = owner_of(other)
        if name:
            return name, rank
    return "", None


def per_rank(parts: List[Part]) -> List[Dict[str, object]]:
    """One row a process, ranks first: its first failure with time, or since when it is silent."""
    rows: List[Dict[str, object]] = []
    for part in parts:
        firsts: Dict[int, Candidate] = {}
        for candidate in part.candidates:
            process = part.run.process_of(candidate.block.line)
            if process is not None and candidate.block.kind != "warning":
                firsts.setdefault(id(process), candidate)
        for process in part.run.processes.values():
            if process.name or process.pid is not None:
                rows.append(_row(part, process, firsts.get(id(process))))
    rows.sort(key=_order)
    for rank in missing_ranks(parts):
        rows.append(
            {
                "rank": rank,
                "node": None,
                "process": "",
                "pid": None,
                "first_failure": None,
                "silent_since": None,
                "seen": False,
            }
        )
    return rows[:_MAX_ROWS]


def _order(row: Dict[str, object]) -> Tuple[bool, int, int, str]:
    rank = row["rank"]
    node = row["node"]
    return (
        rank is None,
        rank if isinstance(rank, int) else 0,
        node if isinstance(node, int) else 0,
        str(row["process"]),
    )


def _row(part: Part, process: Process, failure: Optional[Candidate]) -> Dict[str, object]:
    row: Dict[str, object] = {
        "rank": _rank_of(part, process),
        "node": part.log.node,
        "process": process.name,
        "pid": process.pid,
        "first_failure": None,
        "silent_since": None,
        "last_line": process.last_line,
        "seen": True,
    }
    if failure is not None:
        row["first_failure"] = {
            "path": part.log.path,
            "line": failure.block.first,
            "failure_class": failure.finding.failure_class,
            "time": time_text(part, failure.time),
        }
    else:
        row["silent_since"] = time_text(part, part.log.common(process.last_time))
    return row


def _rank_of(part: Part, process: Process) -> Optional[int]:
    if process.rank is not None:
        return process.rank
    if role_of(process.name) == "engine" and part.run.expected_ranks == 1:
        return 0
    return None


def seen_ranks(parts: List[Part]) -> Set[int]:
    """Ranks that said anything."""
    found = {_rank_of(part, process) for part in parts for process in part.run.processes.values()}
    return {rank for rank in found if rank is not None}


def missing_ranks(parts: List[Part]) -> List[int]:
    """Ranks that the run has by its own words and that never spoke in these logs."""
    expected = max((part.run.expected_ranks or 0 for part in parts), default=0)
    seen = seen_ranks(parts)
    if not seen or expected > 4096:
        return []
    return [rank for rank in range(expected) if rank not in seen]


def exits(parts: List[Part], failed: bool) -> Dict[str, str]:
    """For each rank what its log says about its end: failed, down (its host's engine went down), silent or
    unseen.
    """
    found: Dict[str, str] = {}
    if not failed:
        return found
    for part in parts:
        down = part.run.fatal is not None or bool(part.candidates)
        for process in part.run.processes.values():
            rank = _rank_of(part, process)
            if rank is not None:
                found[str(rank)] = "down" if down else "silent"
    for rank in missing_ranks(parts):
        found[str(rank)] = "unseen"
    return dict(sorted(found.items(), key=lambda item: int(item[0])))


def timeline(parts: List[Part]) -> List[Dict[str, object]]:
    """Stages entered and left, process by process, in order of time."""
    rows: List[Tuple[Tuple[float, int, int], Dict[str, object]]] = []
    for part in parts:
        for process in part.run.processes.values():
            for step in process.steps:
                entered = part.log.common(step.entered)
                rows.append(
                    (
                        (entered if entered is not None else -1.0, part.log.index, step.line),
                        {
                            "node": part.log.node,
                            "rank": _rank_of(part, process),
                            "process": process.name,
                            "stage": step.stage,
                            "substage": step.substage,
                            "entered": time_text(part, entered),
                            "left": time_text(part, part.log.common(step.left)),
                            "progress": step.progress,
                            "path": part.log.path,
                            "line": step.line,
                        },
                    )
                )
    rows.sort(key=lambda row: row[0])
    return [row for _key, row in rows[:_MAX_ROWS]]


def request_outcome(parts: List[Part], rejected: bool) -> str:
    """What became of requests: none, answered, rejected, failed."""
    counted = [item for part in parts for item in part.run.traffic.routes.items()]
    asked = [counts for route, counts in counted if route.startswith("/v1/") and route != "/v1/models"]
    statuses = {status for counts in asked for status in counts}
    if any(status.startswith("5") for status in statuses):
        return "failed"
    if rejected:
        return "rejected"
    return "answered" if any(status.startswith("2") for status in statuses) else "none"
