# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The second look: learned values in bytes that should be clean (private to the collection)."""

from __future__ import annotations

from typing import Callable, NamedTuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._known import KnownValues
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._lines import LineFilter
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import Span

_WINDOW = 1024 * 1024
# Twice the longest form of a learned value with its line ends.
_OVERLAP = 48 * 1024


class Hit(NamedTuple):
    """A learned value that was found: as its stand-in, in which form, at which byte."""

    stand_in: str
    form: str
    offset: int


class Scanner:
    """Takes blocks and looks for learned values in any form, across the borders of blocks too."""

    def __init__(self, known: KnownValues, named: Callable[[Span], str]) -> None:
        self._known = known
        self._named = named
        self._filter = LineFilter(known, rules=False)
        self._blocks: list[bytes] = []
        self._waiting = 0
        self._offset = 0
        self._hits: dict[tuple[int, str], Hit] = {}

    def feed(self, block: bytes) -> None:
        """Take a block."""
        self._blocks.append(block)
        self._waiting += len(block)
        if self._waiting >= _WINDOW + _OVERLAP:
            text = b"".join(self._blocks)
            self._look(text)
            self._blocks = [text[-_OVERLAP:]]
            self._waiting = len(self._blocks[0])
            self._offset += len(text) - self._waiting

    def finish(self) -> list[Hit]:
        """Everything that was found."""
        self._look(b"".join(self._blocks))
        self._blocks, self._waiting = [], 0
        return sorted(self._hits.values(), key=lambda hit: hit.offset)

    def _look(self, text: bytes) -> None:
        spans = list(self._known.find_plain(text))
        for start, end, _families in self._filter.suspects(text):
            spans.extend(self._known.find(text, start, end))
        for span in spans:
            offset, form = self._offset + span.start, span.rule.rpartition(", ")[2]
            self._hits.setdefault((offset, form), Hit(self._named(span), form, offset))
