# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks of a log in, an analysis out, fast where nothing is said (private to the collection).

Once the engine serves (or has talked for very long) most lines are access and statistics lines. Pieces
in which none of a few telling words occurs are then only counted; round every hit the piece before it
and the pieces after it are read in full.
"""

from __future__ import annotations

from typing import List, Optional, Set, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._analysis import Analysis
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._lines import Decoder, LineSplitter

PIECE = 32 * 1024
TALK = 16 * 1024 * 1024  # bytes of a start that are always read in full
_REMEMBERED = 4 * 1024 * 1024  # bytes of lines that are known to say nothing
_KEPT = 512 * 1024  # bytes kept until the order of lines is decided
_REVERSED = 64 * 1024 * 1024  # a paste is no longer than that

# Lower case, and few: each costs a pass over the log. Every failing row of the table holds one of them in
# its line or in its block, and so does the start of another run, at the latest a few lines after its banner.
SERVING_WORDS: Tuple[bytes, ...] = (
    b"error", b"fail", b"warn", b"traceback", b"shut", b"timed out", b"timeout", b"segfault", b"core dumped",
    b"broadcast block", b"non-default args",
)  # fmt: skip
STARTING_WORDS: Tuple[bytes, ...] = SERVING_WORDS + (
    b"world_size=", b"load", b"available kv", b"kv cache size", b"graph", b"init engine", b"startup complete",
    b"ready to accept", b"architecture", b"assigned as", b"supported tasks", b"autotun", b"init complete",
    b"init start", b"headless", b"version", b"died", b"usage: ", b"exception",
)  # fmt: skip


class _Lines:
    """Finds telling words, and remembers which lines have none: most lines differ from others in numbers alone."""

    def __init__(self, words: Tuple[bytes, ...]) -> None:
        self._words = words
        self._quiet: Set[bytes] = set()
        self._remembered = 0

    def telling(self, piece: bytes) -> bool:
        """Whether any word, none of which has a digit in it, stands in the piece."""
        new = set(piece.translate(None, b"0123456789").split(b"\n")) - self._quiet
        lowered = b"\n".join(new).lower()
        if any(word in lowered for word in self._words):
            return True
        if self._remembered > _REMEMBERED:
            self._quiet.clear()
            self._remembered = 0
        self._quiet |= new
        self._remembered += len(lowered) + 64 * len(new)
        return False


class LogReader:
    """One log, fed in blocks of any size."""

    def __init__(
        self, kind: str = "auto", started_at: Optional[str] = None, piece: int = PIECE, talk: int = TALK
    ) -> None:
        self._kind, self._started_at = kind, started_at
        self._piece, self._talk = piece, talk
        self._decoder = Decoder()
        self._splitter = LineSplitter()
        self._serving_lines, self._starting_lines = _Lines(SERVING_WORDS), _Lines(STARTING_WORDS)
        self._analysis = Analysis(kind, started_at)
        self._kept: Optional[List[Tuple[int, bytes]]] = []
        self._kept_size = 0
        self._reversed = False
        self._context: Optional[Tuple[int, bytes]] = None
        self._read = 0
        self._hot = 0
        self.ended = False
        self.bytes = 0

    @property
    def lines(self) -> int:
        """Lines seen so far."""
        return self._splitter.count

    @property
    def newest_first(self) -> bool:
        """Whether the log is read from its end."""
        return self._reversed or (self._kept is not None and self._analysis.order.newest_first)

    def feed(self, block: bytes) -> None:
        """The next bytes."""
        self.bytes += len(block)
        data = self._decoder.feed(block)
        if not self._may_skip():
            if self._kept is None and len(data) > self._piece:
                self._feed_pieces(data)
            else:
                self._parse(data)
        else:
            self._feed_pieces(data)

    def end(self) -> None:
        """No more bytes will come."""
        if self.ended:
            return
        self.ended = True
        self._parse(self._decoder.feed(b"", True))
        if self._splitter.pending:
            self._parse(b"\n")
        self._catch_up()
        self._decide_order()
        if not self._reversed:
            self._analysis.end()

    def result(self) -> Analysis:
        """What is known now."""
        if not self.ended:
            self._catch_up()
        if not self._reversed and (self._kept is None or not self._analysis.order.newest_first):
            return self._analysis
        analysis = Analysis(self._kind, self._started_at)
        for number, raw in reversed(self._kept or []):
            analysis.feed(number, raw)
        analysis.end()
        return analysis

    @property
    def _serving(self) -> bool:
        run = self._analysis.run
        return run.ready is not None or run.traffic.served_line > 0

    def _may_skip(self) -> bool:
        if self._reversed or self._kind == "kernel":
            return False
        return (self._serving or self._read > self._talk) and self._kept is None

    def _feed_pieces(self, data: bytes) -> None:
        """Cuts the data into pieces of whole lines, so that each is read or skipped as one."""
        position = 0
        if self._splitter.pending:
            position = data.find(b"\n") + 1
            if not position:
                self._parse(data)
                return
            self._parse(data[:position])
        while position < len(data):
            end = data.rfind(b"\n", position, position + self._piece) + 1
            if not end:
                end = data.find(b"\n", position) + 1
                if not end:
                    self._parse(data[position:])
                    return
            self._piece_of_lines(data[position:end])
            position = end

    def _piece_of_lines(self, piece: bytes) -> None:
        if self._hot or not self._may_skip() or self._telling(piece):
            self._hot = 1 if self._telling(piece) or self._analysis.busy else 0
            self._catch_up()
            self._parse(piece)
            return
        self._context = (self._splitter.count, piece)
        self._splitter.skip(piece)
        self._analysis.jump(self._splitter.count)

    def _telling(self, piece: bytes) -> bool:
        return (self._serving_lines if self._serving else self._starting_lines).telling(piece)

    def _catch_up(self) -> None:
        """Reads the piece that was skipped last."""
        if self._context is None:
            return
        number, piece = self._context
        self._context = None
        for offset, raw in enumerate(piece.split(b"\n")[:-1], 1):
            self._analysis.feed(number + offset, raw)

    def _parse(self, data: bytes) -> None:
        self._read += len(data)
        for number, raw in self._splitter.feed(data):
            if self._kept is not None:
                self._keep(number, raw)
            if not self._reversed:
                self._analysis.feed(number, raw)

    def _keep(self, number: int, raw: bytes) -> None:
        if self._kept is None:
            return
        if self._kept_size < _REVERSED:
            self._kept.append((number, raw))
            self._kept_size += len(raw) + 64
        if not self._reversed and self._kept_size > _KEPT:
            self._decide_order()

    def _decide_order(self) -> None:
        if self._kept is None or self._reversed:
            return
        if self._analysis.order.newest_first:
            self._reversed = True
        else:
            self._kept = None
