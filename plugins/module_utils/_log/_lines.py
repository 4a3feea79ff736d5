# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytes of a log in blocks of any size, numbered physical lines out (private to the collection).

Lines are counted by line feed. A line may be megabytes long (a scheduler dump): its head and tail are
kept, its middle is dropped, so that memory stays flat.
"""

from __future__ import annotations

import codecs
from typing import Iterator, List, Optional, Tuple

MAX_LINE = 1024 * 1024
_TAIL = 128 * 1024
_CUT = b" ...[cut]... "

_MARKS = (
    (codecs.BOM_UTF8, ""),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Decoder:
    """Turns a paste saved as UTF-16 into UTF-8 bytes and drops a byte order mark; other bytes pass
    unchanged.
    """

    def __init__(self) -> None:
        self._start = b""
        self._known = False
        self._decoder: Optional[codecs.IncrementalDecoder] = None

    def feed(self, block: bytes, final: bool = False) -> bytes:
        """The block as UTF-8 bytes; up to three bytes are held back until the mark is decided."""
        if not self._known:
            self._start += block
            if len(self._start) < 3 and not final:
                return b""
            self._known, block, self._start = True, self._start, b""
            for mark, name in _MARKS:
                if block.startswith(mark):
                    block = block[len(mark) :]
                    self._decoder = codecs.getincrementaldecoder(name)("replace") if name else None
        if self._decoder is None:
            return block
        return self._decoder.decode(block, final).encode("utf-8", "replace")


class LineSplitter:
    """Whole lines of the blocks fed so far; an unfinished last line waits for its end."""

    def __init__(self) -> None:
        self._parts: List[bytes] = []
        self._size = 0
        self.count = 0

    @property
    def pending(self) -> bytes:
        """The unfinished last line."""
        return b"".join(self._parts)

    def feed(self, block: bytes) -> Iterator[Tuple[int, bytes]]:
        """(number, line without line feed) for every line that this block ends."""
        pieces = block.split(b"\n")
        if len(pieces) == 1:
            self._hold(block)
            return
        self._hold(pieces[0])
        for piece in [self._take()] + pieces[1:-1]:
            self.count += 1
            yield self.count, shorten(piece)
        self._hold(pieces[-1])

    def skip(self, block: bytes) -> None:
        """Counts the lines of a block that ends with a line feed and is not read."""
        self.count += block.count(b"\n")

    def _hold(self, piece: bytes) -> None:
        if not piece:
            return
        self._parts.append(piece)
        self._size += len(piece)
        if self._size > 2 * MAX_LINE:
            kept = shorten(b"".join(self._parts))
            self._parts, self._size = [kept], len(kept)

    def _take(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line


def shorten(line: bytes) -> bytes:
    """The line, or its head and tail when it is longer than MAX_LINE."""
    if len(line) <= MAX_LINE:
        return line
    return line[: MAX_LINE - _TAIL] + _CUT + line[-_TAIL:]
