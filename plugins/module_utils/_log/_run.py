# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of an engine as its log tells it: processes, stages, progress, failures, serving (private to the
collection).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Set, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _markers as marks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import Block
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import (
    C10D,
    KERNEL,
    NCCL,
    RAW,
    RECORD,
    UVICORN,
    Line,
    dimensions,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._process import Process, Step, precision
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._traffic import Traffic, options_of

_MAX_BLOCKS = 2000
_MAX_ALIKE = 8
_ALIKE = 60  # characters that tell blocks apart
_MAX_PROCESSES = 2048
_MAX_STEPS = 64

_RANKS = re.compile(r"world_size=(\d+) rank=(\d+) local_rank=(\d+)")
_GROUP = re.compile(r"world_size=(\d+), local_world_size=(\d+)")
_IN_WORLD = re.compile(r"rank (\d+) in world size (\d+) is assigned")
_NODE = re.compile(r"(?:node_rank=|data_parallel_rank \d+ from node_rank )(\d+)")
_SIZES = re.compile(r"\b(tensor|pipeline|data)_parallel_size=(\d+)")


@dataclass
class Moment:
    """A line worth remembering."""

    line: int
    time: Optional[float]
    process: str = ""
    pid: Optional[int] = None
    stage: str = ""
    substage: str = ""
    rank: Optional[int] = None
    text: str = ""


@dataclass
class Run:
    """One attempt to start and serve."""

    number: int
    first_line: int
    last_line: int = 0
    started: Optional[float] = None
    last_time: Optional[float] = None
    banner: Optional[Moment] = None
    version: str = ""
    headless: bool = False
    node_rank: Optional[int] = None
    options: Dict[str, object] = field(default_factory=dict)
    sizes: Dict[str, int] = field(default_factory=dict)
    world_size: Optional[int] = None
    local_world_size: Optional[int] = None
    processes: Dict[Tuple[str, object], Process] = field(default_factory=dict)
    blocks: List[Block] = field(default_factory=list)
    dropped_blocks: int = 0
    alike: Dict[Tuple[str, Optional[int], str, str], int] = field(default_factory=dict)
    ready: Optional[Moment] = None
    stop: Optional[Moment] = None
    fatal: Optional[Moment] = None
    progress: Optional[Moment] = None
    marker: Optional[Moment] = None
    heartbeats: int = 0
    heartbeat_first: Optional[Moment] = None
    heartbeat_last: Optional[Moment] = None
    joined: Dict[str, Set[Optional[int]]] = field(
        default_factory=dict
    )  # process ids that began and ended a group
    traffic: Traffic = field(default_factory=Traffic)
    lines: int = 0

    def process_of(self, line: Line) -> Optional[Process]:
        """The process that wrote the line; None for text that no process can be told from."""
        if line.pid is None and not line.process:
            return None
        ray = line.host if line.kind != NCCL and line.host and line.process else ""
        key: Tuple[str, object] = (ray, line.pid if line.pid is not None else line.process)
        process = self.processes.get(key)
        if process is None:
            if len(self.processes) >= _MAX_PROCESSES:
                return None
            process = self.processes[key] = Process(line.process, line.pid, ray)
        elif precision(line.process) > precision(process.name):
            process.name = line.process  # Worker becomes Worker_TP3
        if line.local_rank is not None and process.local_rank is None:
            process.local_rank = line.local_rank
        if process.rank is None:
            process.rank = line.rank if line.rank is not None else self._rank_by_name(process.name)
        return process

    def _rank_by_name(self, name: str) -> Optional[int]:
        """Global rank from coordinates in the name, where sizes leave no doubt."""
        place = dimensions(name)
        if "TP" not in place and "PP" not in place:
            return None
        tensor = self.sizes.get("tensor")
        if place.get("PP") and not tensor:
            return None
        return place.get("PP", 0) * (tensor or 1) + place.get("TP", 0) if not place.get("DP") else None

    def observe(
        self,
        line: Line,
        when: Optional[float],
        in_block: bool,
        found: Optional[Tuple[marks.Marker, re.Match[str]]],
    ) -> None:
        """Takes in a line, whether it is part of a block, and its marker when it has one."""
        self.lines += 1
        self.last_line = line.number
        if when is not None:
            self.last_time = when if self.last_time is None else max(when, self.last_time)
            if self.started is None:
                self.started = when
        process = self.process_of(line)
        if process is not None:
            process.last_line = line.number
            process.last_time = when if when is not None else process.last_time
        if line.kind == KERNEL:
            return
        if line.level == "ERROR" and "Dumping scheduler output" in line.message[:60]:
            self.traffic.dump(line.message)
        if found is None:
            if (
                not in_block
                and line.kind in (RECORD, NCCL)
                and line.level not in ("WARNING", "ERROR", "CRITICAL")
            ):
                self._progressed(line, when, process)
                self._details(line, process)
            return
        self._mark(found[0], found[1], line, when, process)

    def _progressed(self, line: Line, when: Optional[float], process: Optional[Process]) -> None:
        self.progress = self._moment(line, when, process)
        self.heartbeats, self.heartbeat_first, self.heartbeat_last = 0, None, None

    def _mark(
        self,
        marker: marks.Marker,
        match: re.Match[str],
        line: Line,
        when: Optional[float],
        process: Optional[Process],
    ) -> None:
        moment = self._moment(line, when, process)
        if marker.effect == marks.HEARTBEAT:
            self.heartbeats += 1
            self.heartbeat_first = self.heartbeat_first or moment
            self.heartbeat_last = moment
        elif marker.effect == marks.SERVING:
            self.traffic.serving(line.number, line.message)
        elif marker.effect == marks.STOP:
            self.stop = self.stop or moment
        elif marker.effect == marks.FATAL:
            self.fatal = self.fatal or moment
        elif marker.effect == marks.READY:
            self.ready = self.ready or moment
            self._enter(marker, match, line, when, process)
        else:
            if marker.effect == marks.BANNER and self.banner is None:
                self.banner = moment
                self.version = match["version"] or match["version2"] or match["version3"] or self.version
                self.headless = "headless" in line.message
            self._details(line, process)
            self._enter(marker, match, line, when, process)

    def _enter(
        self,
        marker: marks.Marker,
        match: re.Match[str],
        line: Line,
        when: Optional[float],
        process: Optional[Process],
    ) -> None:
        moment = self._moment(line, when, process)
        moment.stage, moment.substage = marker.stage, marker.substage
        self.marker = moment
        self._progressed(line, when, process)
        if process is None:
            process = self._stand_in(line)
        if marker.effect == marks.PROGRESS and process.steps:
            if "Init COMPLETE" in line.message:
                self.joined.setdefault("init-complete", set()).add(process.pid)
            return
        if "Init START" in line.message:
            self.joined.setdefault("init-start", set()).add(process.pid)
        if process.place != (marker.stage, marker.substage) and len(process.steps) < _MAX_STEPS:
            if process.steps:
                process.steps[-1].left = when if when is not None else self.last_time
            process.steps.append(
                Step(marker.stage, marker.substage, line.number, when if when is not None else self.last_time)
            )
        done = marks.progress_of(match)
        if done:
            process.steps[-1].progress = done

    def _stand_in(self, line: Line) -> Process:
        """A process for lines without a prefix: raw progress bars, uvicorn, old versions, followers."""
        name = "" if line.kind in (RECORD, UVICORN, RAW, C10D) else line.kind
        return self.processes.setdefault(("", name), Process(name, None))

    def _details(self, line: Line, process: Optional[Process]) -> None:
        """Ranks, sizes and start options."""
        message = line.message
        if "rank" in message:
            self._place(message, process)
        if message.startswith("non-default args: "):
            self.options = options_of(message)
            for name in ("tensor", "pipeline", "data"):
                size = self.options.get(name + "_parallel_size")
                if isinstance(size, int):
                    self.sizes[name] = size
            node_rank = self.options.get("node_rank")
            if isinstance(node_rank, int):
                self.node_rank = node_rank
        elif message.startswith("Initializing a V"):
            for name, size_text in _SIZES.findall(message):
                self.sizes.setdefault(name, int(size_text))
        elif message.startswith(("Received request", "Added request")):
            self.traffic.received(message)

    def _place(self, message: str, process: Optional[Process]) -> None:
        """Rank, world size and node of a process, from its own words."""
        ranks = _RANKS.match(message)
        if ranks is not None:
            self.world_size = int(ranks.group(1))
            if process is not None:
                process.rank, process.local_rank = int(ranks.group(2)), int(ranks.group(3))
        assigned = _IN_WORLD.match(message)
        if assigned is not None:
            self.world_size = int(assigned.group(2))
            if process is not None:
                process.rank = int(assigned.group(1))
        node = _NODE.search(message)
        if node is not None and self.node_rank is None:
            self.node_rank = int(node.group(1))
        group = _GROUP.search(message)
        if group is not None:
            self.world_size, self.local_world_size = int(group.group(1)), int(group.group(2))

    def _moment(self, line: Line, when: Optional[float], process: Optional[Process]) -> Moment:
        """The line with its time; without one of its own, the latest that the log has shown."""
        when = self.last_time if when is None else when
        name = process.name if process is not None else line.process
        rank = process.rank if process is not None else line.rank
        stage, substage = process.place if process is not None else ("", "")
        return Moment(line.number, when, name, line.pid, stage, substage, rank, line.message[:300])

    def add_block(self, block: Block) -> None:
        """Keeps a complete block. Of blocks alike, such as refused requests over days, only the first few."""
        raised = block.raised[0].text[:_ALIKE] if block.raised else ""
        key = (block.line.process, block.line.pid, block.header[:_ALIKE], raised)
        alike = self.alike.get(key, 0)
        if alike >= _MAX_ALIKE or len(self.blocks) >= _MAX_BLOCKS:
            self.dropped_blocks += 1
            return
        self.alike[key] = alike + 1
        self.blocks.append(block)

    @property
    def expected_ranks(self) -> Optional[int]:
        """How many ranks the run has, from its own words."""
        if self.world_size:
            return self.world_size
        sizes = self.sizes.get("tensor", 0) * self.sizes.get("pipeline", 1)
        return sizes or None
