# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log's lines in, its runs out; private to the collection."""

from __future__ import annotations

import re
from typing import List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _markers as marks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import LAUNCHER, Block
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._blocks import BlockBuilder
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import LogClock, parse_text
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import RAW, Line, parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._run import Run
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import telling
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._wrappers import Unwrapped, Unwrapper

_MAX_RUNS = 200
_SAME_START = 5.0  # seconds within which several processes of one start may print a banner
_ORDER_LINES = 4000  # lines that are looked at to tell a newest-first paste

_USAGE = re.compile(r"usage: \S")
_LAUNCH = re.compile(r"(?:docker: )?(?:Unable to find image|Error response from daemon)")
_FIRST_FRAME = re.compile(r'\s*File "[^"]+", line \d+')


class Order:
    """Signs of a paste with the newest line first: a falling clock, tracebacks upside down."""

    def __init__(self) -> None:
        self.rising = self.falling = self.upright = self.inverted = self.lines = 0
        self._last: Optional[float] = None
        self._trace = self._frame = False

    def feed(self, line: Line) -> None:
        """Looks at one line."""
        self.lines += 1
        if self.lines > _ORDER_LINES:
            return
        moment = line.outer if line.outer is not None else line.own
        if moment is not None:
            if self._last is not None and int(moment) != int(self._last):
                if moment > self._last:
                    self.rising += 1
                else:
                    self.falling += 1
            self._last = moment
        trace = line.message.startswith("Traceback (most recent call last)")
        frame = _FIRST_FRAME.match(line.message) is not None
        self.upright += self._trace and frame
        self.inverted += self._frame and trace
        self._trace, self._frame = trace, frame

    @property
    def newest_first(self) -> bool:
        """Whether the log must be read from its end."""
        if self.upright > self.inverted:
            return False
        if self.inverted > self.upright:
            return self.falling >= self.rising
        return self.falling >= 2 and self.falling > 3 * self.rising


class Analysis:
    """What one log says, line by line."""

    def __init__(self, kind: str, started_at: Optional[str]) -> None:
        self.clock = LogClock()
        self.order = Order()
        self.runs: List[Run] = [Run(1, 1)]
        self.dropped_runs = 0
        self.container_start, year, _utc = parse_text(started_at or "")
        if year is not None:
            self.clock.learn(None, None, year)
        self._own_seen = False
        self._unwrapper = Unwrapper(kind)
        self._builder = BlockBuilder(self._done, telling, self._begun)

    @property
    def run(self) -> Run:
        """The run that is being read."""
        return self.runs[-1]

    @property
    def busy(self) -> bool:
        """Whether the next line may belong to something already begun."""
        return self._builder.busy

    def feed(self, number: int, raw: bytes) -> None:
        """One physical line."""
        if not number % 64:
            self._builder.expire(number)
        for unwrapped in self._unwrapper.feed(number, raw):
            self._take(unwrapped)

    def jump(self, number: int) -> None:
        """Lines up to this one are left out."""
        self._builder.close()
        self.run.last_line = number

    def end(self) -> None:
        """The log ends here."""
        for unwrapped in self._unwrapper.flush():
            self._take(unwrapped)
        self._builder.close()

    def open_blocks(self) -> List[Block]:
        """Blocks that more lines may still complete."""
        return self._builder.open_blocks()

    def _take(self, unwrapped: Unwrapped) -> None:
        for line in parse(unwrapped, self.clock):
            self.order.feed(line)
            found = marks.find_marker(line.message)
            when = self._when(line)
            if self._begins_run(line, found[0] if found else None, when):
                self._cut(line)
            in_block = self._builder.feed(line)
            self.run.observe(line, when, in_block, found)

    def _when(self, line: Line) -> Optional[float]:
        if line.own is not None:
            self._own_seen = True
            return line.own
        if line.outer is None:
            return None
        if self.clock.zone is None:  # two clocks that do not agree can't be mixed
            return None if self._own_seen else line.outer
        return line.outer + self.clock.zone

    def _begins_run(self, line: Line, marker: Optional[marks.Marker], when: Optional[float]) -> bool:
        run = self.run
        if not run.lines:
            return False
        if marker is not None and marker.effect == marks.BANNER:
            if run.banner is None:
                return (
                    run.stop is not None
                    or run.fatal is not None
                    or any(b.kind == LAUNCHER for b in run.blocks)
                )
            if line.process.startswith("ApiServer_") and not self._ended(run):
                return False
            if when is None or run.banner.time is None:
                return True
            return self._ended(run) or abs(when - run.banner.time) > _SAME_START
        if line.kind == RAW and (_USAGE.match(line.message) or _LAUNCH.match(line.message)):
            return run.banner is not None or self._ended(run) or self._builder.busy
        return False

    @staticmethod
    def _ended(run: Run) -> bool:
        return run.fatal is not None or run.stop is not None or bool(run.blocks)

    def _cut(self, line: Line) -> None:
        self._builder.close()
        if len(self.runs) >= _MAX_RUNS:
            del self.runs[1]
            self.dropped_runs += 1
        self.runs.append(Run(self.runs[-1].number + 1, line.number))

    def _begun(self, block: Block) -> None:
        run = self.run
        block.after_ready = run.ready is not None or run.traffic.served_line > 0
        when = self._when(block.line)
        block.floor = run.last_time
        block.time = when if when is not None else block.floor
        if run.marker is not None:
            block.stage = (run.marker.stage, run.marker.substage)

    def _done(self, block: Block) -> None:
        self.run.add_block(block)
