# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which parts of a log that is too long are kept: its head, its tail and the window round the first failure
(private to the collection).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Iterator, Optional

MARK = "[gpufleet.baseline: %d bytes, %d lines left out here]\n"
# Pieces of the index of lines.
_STEP = 64 * 1024
# A line that is longer is cut within.
_LONGEST_LINE = 1024 * 1024


@dataclass
class Cut:
    """A part that was left out: where in the kept text, how many bytes, how many lines."""

    at_byte: int
    bytes: int
    lines: int


class LineIndex:
    """Knows roughly where a line of a stream is: one entry for so many bytes."""

    def __init__(self) -> None:
        self._first_lines: list[int] = []
        self._offsets: list[int] = [0]
        self.lines = 0

    @property
    def size(self) -> int:
        """Bytes seen."""
        return self._offsets[-1]

    def add(self, block: bytes) -> None:
        """Take note of the next block."""
        for start in range(0, len(block), _STEP):
            end = min(start + _STEP, len(block))
            self._first_lines.append(self.lines)
            self.lines += block.count(b"\n", start, end)
            self._offsets.append(self._offsets[-1] + end - start)

    def place(self, line: int) -> tuple[int, int]:
        """Start and end of the piece in which a line, counted from 1, begins."""
        index = max(0, bisect_right(self._first_lines, line - 1) - 1)
        return self._offsets[index], self._offsets[min(index + 1, len(self._offsets) - 1)]


def ranges_to_keep(
    total: int, head: int, tail: int, window: int, place: Optional[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The ranges of a text of ``total`` bytes that are kept, in order and apart from each other."""
    wanted = [(0, head), (max(0, total - tail), total)]
    if place:
        spare = max(0, window - (place[1] - place[0])) // 2
        wanted.append((max(0, place[0] - spare), min(total, place[1] + spare)))
    kept: list[tuple[int, int]] = []
    for start, end in sorted(wanted):
        if kept and start <= kept[-1][1]:
            kept[-1] = (kept[-1][0], max(kept[-1][1], end))
        else:
            kept.append((start, end))
    return kept


class Cutter:
    """Lets the kept ranges of a stream through, in whole lines, and says in place what is missing."""

    def __init__(self, keep: list[tuple[int, int]], total: int) -> None:
        # Where keeping and leaving out take turns; a range up to the end has no end, should the log be longer
        # now.
        self._borders = [border for span in keep for border in span if 0 < border < total]
        self._inside = not keep or keep[0][0] == 0
        self._offset = 0
        self._bytes = self._lines = 0
        self._written = 0
        self.cuts: list[Cut] = []

    def feed(self, block: bytes) -> Iterator[bytes]:
        """The kept parts of the next block."""
        position = 0
        while position < len(block):
            end = self._next_turn(block, position)
            yield from self._pass(block[position : end or len(block)])
            if end is None:
                break
            self._borders.pop(0)
            self._inside = not self._inside
            position = end
        self._offset += len(block)

    def finish(self) -> Iterator[bytes]:
        """The mark of what was left out at the end, if anything was."""
        yield from self._mark()

    def _next_turn(self, block: bytes, position: int) -> Optional[int]:
        """The end of the line at the next border when that is in this block."""
        if not self._borders or self._borders[0] - self._offset >= len(block):
            return None
        newline = block.find(b"\n", max(position, self._borders[0] - self._offset - 1))
        if newline >= 0:
            return newline + 1
        far = self._offset + len(block) - self._borders[0] > _LONGEST_LINE
        return len(block) if far else None

    def _pass(self, piece: bytes) -> Iterator[bytes]:
        if not self._inside:
            self._bytes += len(piece)
            self._lines += piece.count(b"\n")
            return
        yield from self._mark()
        self._written += len(piece)
        yield piece

    def _mark(self) -> Iterator[bytes]:
        if self._bytes:
            self.cuts.append(Cut(self._written, self._bytes, self._lines))
            text = (MARK % (self._bytes, self._lines)).encode()
            self._bytes = self._lines = 0
            self._written += len(text)
            yield text
