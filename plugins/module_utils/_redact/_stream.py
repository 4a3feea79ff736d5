# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redact a stream in constant memory, however long its lines and values are (private to the collection).

The stream is worked off in windows whose borders do not depend on the blocks it comes in. A window is read
with some of the text before it and much of the text behind it, and what reaches beyond it waits for the next
one.
"""

from __future__ import annotations

import re
from typing import Callable, Optional, Pattern

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import Span

WINDOW = 1024 * 1024
# Longer than anything that is matched as one piece, but for values that never end.
LOOKAHEAD = 48 * 1024
CONTEXT = 1024

# Takes a text and a position: what starts behind it may be cut short, so nothing is to be learned from it
# yet.
Find = Callable[[bytes, int], "list[Span]"]
Replace = Callable[[Span], bytes]


class RedactingStream:
    """Takes blocks and gives them back redacted."""

    def __init__(
        self, find: Find, replace: Replace, window: int = WINDOW, lookahead: int = LOOKAHEAD
    ) -> None:
        self._find = find
        self._replace = replace
        self._window = window
        self._lookahead = lookahead
        self._blocks: list[bytes] = []
        self._waiting = 0
        self._context = b""
        self._swallow: Optional[Pattern[bytes]] = None

    def feed(self, block: bytes) -> bytes:
        """Take a block; the redacted text that is ready by now."""
        self._blocks.append(block)
        self._waiting += len(block)
        ready: list[bytes] = []
        need = self._window + self._lookahead
        if self._waiting < need:
            return b""
        text = b"".join(self._blocks)
        position = 0
        while len(text) - position >= need:
            position += self._work(text[position : position + need], False, ready)
        self._keep(text[position:])
        return b"".join(ready)

    def finish(self) -> bytes:
        """The redacted rest of the stream."""
        text = b"".join(self._blocks)
        self._keep(b"")
        ready: list[bytes] = []
        position = 0
        while position < len(text):
            piece = text[position : position + self._window + self._lookahead]
            final = position + len(piece) == len(text)
            position += self._work(piece, final, ready)
        return b"".join(ready)

    def _keep(self, rest: bytes) -> None:
        self._blocks = [rest] if rest else []
        self._waiting = len(rest)

    def _work(self, fresh: bytes, final: bool, ready: list[bytes]) -> int:
        """Work off the beginning of the text that waits; how much of it that was."""
        if self._swallow:
            return self._swallowed(fresh)
        before = len(self._context)
        text = self._context + fresh
        cut = len(text) if final else before + self._cut(fresh)
        spans = [span for span in self._find(text, cut) if span.end > before]
        done: list[Span] = []
        for span in spans:
            if span.start >= cut:
                break
            if span.end >= len(text) and not final:
                if span.start > before:
                    cut = span.start
                    break
                self._swallow = _until(text, span)
                cut = len(text)
            done.append(span)
            cut = max(cut, span.end)
        ready.append(replaced(text, done, self._replace, before, cut))
        self._context = text[max(0, cut - CONTEXT) : cut]
        return cut - before

    def _cut(self, fresh: bytes) -> int:
        newline = fresh.rfind(b"\n", self._window // 2, self._window)
        return newline + 1 if newline >= 0 else self._window

    def _swallowed(self, fresh: bytes) -> int:
        """Drop the rest of a value that is longer than a window."""
        stop = self._swallow.search(fresh) if self._swallow else None
        end = stop.start() if stop else len(fresh)
        if stop:
            self._swallow = None
        self._context = fresh[max(0, end - CONTEXT) : end]
        return end


def replaced(text: bytes, spans: list[Span], replace: Replace, start: int, end: int) -> bytes:
    """``text[start:end]`` with its spans replaced."""
    if not spans:
        return text[start:end]
    pieces: list[bytes] = []
    position = start
    for span in spans:
        pieces.append(text[position : max(position, span.start)])
        pieces.append(replace(span))
        position = span.end
    pieces.append(text[position:end])
    return b"".join(pieces)


def _until(text: bytes, span: Span) -> Pattern[bytes]:
    """Where a value ends that is longer than a window."""
    opening = text[span.start - 1 : span.start] if span.start else b""
    if span.rule == "PEM":
        return re.compile(rb"-----")
    if opening in (b'"', b"'", b"`"):
        return re.compile(opening + rb"|\n")
    return re.compile(rb"\n" if b" " in span.value else rb"[\s\"'`]")
