# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which runs of several logs belong together, on one clock; private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._analysis import Analysis
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import WARNING, Block
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import YEAR
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import KERNEL
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._run import Run
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import NOISE, REQUEST
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import (
    UNKNOWN,
    Finding,
    classify,
)

_TOGETHER = 900.0  # seconds between the starts of the ranks of one attempt
RUNTIME_ENDS = ("EngineCore encountered", "AsyncLLM output_handler failed", "Dumping ")
START_ENDS = ("WorkerProc failed to start", "EngineCore failed to start")


@dataclass
class Log:
    """One log with what was read from it."""

    index: int
    path: str
    node: int
    offset: float
    analysis: Analysis
    kind: str = "auto"
    newest_first: bool = False
    ended: bool = True
    in_utc: bool = False  # times of all logs are compared in UTC, because every log has its zone

    def common(self, when: Optional[float]) -> Optional[float]:
        """A time of this log on the clock that all logs share."""
        if when is None:
            return None
        zone = self.analysis.clock.zone or 0.0
        return when - self.offset - (zone if self.in_utc else 0.0)

    def time_of(self, block: Block) -> Optional[float]:
        """When a block began; the runtime's clock counts once the log has shown how far its own is from
        it.
        """
        zone = self.analysis.clock.zone
        if block.line.own is None and block.line.outer is not None and zone is not None:
            outer = block.line.outer + zone
            return outer if block.floor is None else max(outer, block.floor)
        return block.time

    @property
    def is_kernel(self) -> bool:
        """Whether this is a kernel log and nothing else."""
        if self.kind == "kernel":
            return True
        runs = self.analysis.runs
        blocks = [block for run in runs for block in run.blocks]
        engine = any(run.banner or run.marker or run.processes for run in runs)
        return not engine and bool(blocks) and all(block.line.kind == KERNEL for block in blocks)

    def kernel_blocks(self) -> List[Block]:
        """What the kernel said, over all runs."""
        return [block for run in self.analysis.runs for block in run.blocks if block.line.kind == KERNEL]


@dataclass
class Candidate:
    """A block with what it says."""

    log: Log
    run: Run
    block: Block
    finding: Finding
    time: Optional[float] = None

    @property
    def second(self) -> Optional[int]:
        """The whole second, which is all that the engine's own lines tell."""
        return None if self.time is None else int(self.time)


@dataclass
class Part:
    """One log's run in an attempt."""

    log: Log
    run: Run
    candidates: List[Candidate] = field(default_factory=list)

    @property
    def start(self) -> Optional[float]:
        """When the run began, on the common clock."""
        return self.log.common(self.run.started)

    @property
    def end(self) -> float:
        """When it said its last word, on the common clock."""
        return self.log.common(self.run.last_time) or 0.0

    @property
    def serving(self) -> bool:
        """Whether the engine got as far as serving."""
        run = self.run
        return run.ready is not None or run.traffic.served_line > 0 or self.ended_serving

    @property
    def ended_serving(self) -> bool:
        """Whether it said that it died while serving."""
        return self.run.fatal is not None and self.run.fatal.text.startswith(RUNTIME_ENDS)


def share_clock(logs: List[Log]) -> None:
    """Lets all logs be compared in UTC when each that needs a zone has learnt it."""
    engines = [
        log for log in logs if not log.is_kernel and any(run.started is not None for run in log.analysis.runs)
    ]
    known = bool(engines) and all(log.analysis.clock.zone is not None for log in engines)
    for log in logs:
        log.in_utc = known


def part_of(log: Log, run: Run) -> Part:
    """A run with its blocks looked up in the table."""
    part = Part(log, run)
    for block in list(run.blocks) + (log.analysis.open_blocks() if run is log.analysis.run else []):
        if block.line.kind == KERNEL:
            continue
        if part.ended_serving and run.fatal is not None and block.first >= run.fatal.line - 400:
            block.after_ready = True  # standard output and error may have been stored one after the other
        finding = classify(block)
        if finding.role == NOISE and finding.row.scope != REQUEST:
            continue
        if finding.row is UNKNOWN and block.kind == WARNING:
            continue
        part.candidates.append(Candidate(log, run, block, finding, log.common(log.time_of(block))))
    started = part.start
    for candidate in part.candidates:
        if candidate.time is None:
            candidate.time = started
    part.candidates.sort(key=lambda candidate: (candidate.block.first, candidate.block.order))
    return part


def _meaningful(run: Run) -> bool:
    return bool(run.banner or run.marker or run.blocks or run.progress)


def attempts(logs: List[Log]) -> List[List[Part]]:
    """Runs put together to attempts, oldest first: those of different logs that began at about the same
    time.
    """
    per_log = {
        log.index: [part_of(log, run) for run in log.analysis.runs if _meaningful(run)]
        for log in logs
        if not log.is_kernel
    }
    if any(part.start is None for parts in per_log.values() for part in parts):
        return _by_position(per_log)
    parts = sorted(
        (part for found in per_log.values() for part in found),
        key=lambda part: (part.start or 0.0, part.log.index),
    )
    _same_year(parts)
    grouped: List[List[Part]] = []
    for part in parts:
        group = grouped[-1] if grouped else []
        start = part.start or 0.0
        fits = bool(group) and (
            start - (group[0].start or 0.0) <= _TOGETHER or any(start <= other.end for other in group)
        )
        if fits and all(other.log.index != part.log.index for other in group):
            group.append(part)
        else:
            grouped.append([part])
    return grouped


def _by_position(per_log: Dict[int, List[Part]]) -> List[List[Part]]:
    """Without times the last runs belong together, then the ones before them."""
    deepest = max((len(parts) for parts in per_log.values()), default=0)
    groups = [
        [parts[-back] for _index, parts in sorted(per_log.items()) if len(parts) >= back]
        for back in range(deepest, 0, -1)
    ]
    return [group for group in groups if group]


def _same_year(parts: List[Part]) -> None:
    """A December beside a January: the January is the later one."""
    starts = [part.start for part in parts if part.start is not None]
    if not starts or max(starts) - min(starts) < YEAR / 2:
        return
    for part in parts:
        if part.start is not None and part.start < YEAR / 2:
            part.log.offset -= YEAR
            for candidate in part.candidates:
                candidate.time = None if candidate.time is None else candidate.time + YEAR
    parts.sort(key=lambda part: (part.start or 0.0, part.log.index))


def judged(grouped: List[List[Part]]) -> List[Part]:
    """The attempt to judge: the last one in which as many logs take part as in any other."""
    if not grouped:
        return []
    most = max(len(group) for group in grouped)
    return next(group for group in reversed(grouped) if len(group) == most)
