# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A block: lines that belong together, and how it grows line by line (private to the collection).

A block keeps the chain of exceptions in the order printed, the frames of each, and the number of its
first line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import List, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import Line

TRACEBACK, ERROR, WARNING, LAUNCHER = "traceback", "error", "warning", "launcher"
MAX_LINES = 80
MAX_FRAMES = 120
_MAX_EXCEPTIONS = 12

TRACE = re.compile(r"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):")
FRAME = re.compile(r'[ |]*File "(?P<file>[^"]*)", line \d+(?:, in (?P<name>\S+))?')
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:\(\w+\))?(?:: ?|$)")
_CHAIN = re.compile(r"(?:The above exception was the direct cause|During handling of the above exception)")


@dataclass
class Raised:
    """One exception of a chain."""

    line: int
    text: str
    frames: List[str] = field(default_factory=list)
    more: List[str] = field(default_factory=list)

    @property
    def whole(self) -> str:
        """Its text with all its lines."""
        return "\n".join([self.text] + self.more)


@dataclass
class Block:
    """Something a process said that may be a failure."""

    kind: str
    line: Line
    first: int
    last: int
    order: int
    header: str = ""
    body: List[str] = field(default_factory=list)
    body_lines: List[int] = field(default_factory=list)
    raised: List[Raised] = field(default_factory=list)
    detached: bool = False  # a thread's or a destructor's exception: the process went on
    cut: bool = False  # starts or ends in the middle of a traceback
    after_ready: bool = False
    stage: Tuple[str, str] = ("", "")
    time: Optional[float] = None
    floor: Optional[float] = None  # the latest time that the log had shown before it
    frames: List[str] = field(default_factory=list)

    @property
    def whole(self) -> str:
        """All of its text."""
        parts = [self.header] + self.body
        for raised in self.raised:
            parts.append(raised.whole)
        return "\n".join(parts)

    def line_with(self, texts: Sequence[str]) -> int:
        """The line outside tracebacks that holds one of the texts; else the first exception's, else the
        block's first.
        """
        if not any(text in self.header for text in texts):
            for number, line in zip(self.body_lines, self.body):
                if any(text in line for text in texts):
                    return number
        return self.raised[0].line if self.raised else self.first


def _frame_name(frame: re.Match[str]) -> str:
    """file:function of a line of a traceback."""
    return frame["file"].rpartition("/")[2] + ":" + (frame["name"] or "")


class Growing:
    """A block that is still growing."""

    def __init__(self, block: Block, state: str) -> None:
        self.block = block
        self.state = state
        self.size = 0

    def add(self, number: int, text: str) -> None:
        block = self.block
        block.last = max(block.last, number)
        self.size += 1
        if TRACE.match(text):
            self.state, block.frames, block.kind = (
                "frames",
                [],
                TRACEBACK if block.kind != WARNING else WARNING,
            )
        elif self.state == "frames":
            self._frame(number, text)
        elif self.state == "header" and FRAME.match(text):
            block.cut = True
            self.state = "frames"
            self._frame(number, text)
        elif _CHAIN.match(text):
            self.state = "chain"
        elif self.state == "message" and block.raised:
            if len(block.raised[-1].more) < MAX_LINES:
                block.raised[-1].more.append(text)
            nested = FRAME.match(text)  # Ray prints a worker's traceback inside its own message
            if nested is not None and len(block.raised[-1].frames) < 2 * MAX_FRAMES:
                block.raised[-1].frames.append(_frame_name(nested))
        elif self.state == "header" and len(block.body) < MAX_LINES:
            block.body.append(text)
            block.body_lines.append(number)

    def _frame(self, number: int, text: str) -> None:
        block = self.block
        frame = FRAME.match(text)
        if frame is not None:
            if len(block.frames) >= MAX_FRAMES:
                del block.frames[MAX_FRAMES // 2]
            block.frames.append(_frame_name(frame))
        elif _RAISED.match(text):
            if len(block.raised) < _MAX_EXCEPTIONS:
                block.raised.append(Raised(number, text, block.frames))
            block.frames = []
            self.state = "message"
