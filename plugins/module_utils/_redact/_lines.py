# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line filter: which lines of a text can hold a secret at all (private to the collection).

Most lines of a log differ from others in their numbers alone. A line's sketch is the line without digits and
hexadecimal letters; a sketch is judged once and remembered. It is judged by literals that every secret of a
kind has in its line's sketch, so the filter lets through too much and never too little; what is let through
is read in full.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Iterator, NamedTuple, Optional, Pattern

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._forms import FORMS
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._known import (
    GRAM,
    KnownValues,
    sketch,
)

NAMED, FORM, URL, SCHEME, PEM, KNOWN = 1, 2, 4, 8, 16, 32
# So many known pieces are looked for one by one; of more the short beginnings are looked up at every place of a line.
_FEW = 100
# Bytes of sketches that are remembered; after that the memory starts anew.
_REMEMBERED = 4 * 1024 * 1024


class _Mark(NamedTuple):
    """A literal of a sketch that makes a line suspect, when what stands round it agrees."""

    literal: bytes
    family: int
    # Matched against the sketch some letters before the literal.
    refined: Optional[Pattern[bytes]] = None
    before: int = 0


_LETTER = rb"[g-z]"
# "token" but not "tokens", "tokenizer", "token_ids"; "tokens" only behind a word that makes them secrets.
_TOKEN = re.compile(rb"tokn(?!iz|s(?!" + _LETTER + rb")|_is?(?!" + _LETTER + rb"))")
_TOKENS = re.compile(rb".{0,9}?(?:uth|pi|ss|srt|rrsh|rr|usr|h|prsonl|rgistry)[_.\-]?tokns", re.DOTALL)
_BEARER_NAME = re.compile(rb"(?<!" + _LETTER + rb")rr(?!" + _LETTER + rb")")
# Before a scheme there is no letter or digit; "stderr" has one.
_SCHEME_GAP = re.compile(rb"(?<!" + _LETTER + rb")(?:rr|si)[ \t%+]")
# "curl ... -u" and "--user".
_CURL_USER = re.compile(rb"url(?=[\s\"'])[^\n]{0,400}?[\s\"']-(?:u|-(?:proxy-)?usr)")
_URL_AT = re.compile(rb"://[^\s/]*@")

# In small letters: literals of sketches in small letters.
_SMALL_MARKS = (
    _Mark(b"srt", NAMED),
    _Mark(b"pss", NAMED),
    _Mark(b"rntil", NAMED),
    _Mark(b"ky", NAMED),
    _Mark(b"uth", NAMED),
    _Mark(b"pw", NAMED),
    _Mark(b"ooki", NAMED),
    _Mark(b"jwt", NAMED),
    _Mark(b"sig", NAMED),
    _Mark(b"rr", NAMED, _BEARER_NAME),
    _Mark(b"tokn", NAMED, _TOKEN),
    _Mark(b"tokns", NAMED, _TOKENS, 9),
    _Mark(b"rr", SCHEME, _SCHEME_GAP),
    _Mark(b"si", SCHEME, _SCHEME_GAP),
    _Mark(b"url", SCHEME, _CURL_USER),
    _Mark(b"://", URL, _URL_AT),
    _Mark(b"-----gin ", PEM),
)
# What stands before a known form is no letter or digit, so the sketch still has it.
_FORM_LITERALS = sorted({sketch(literal) for form in FORMS for literal in form.literals})
_MARKS = (
    _Mark(sketch(b"LS0tLS1CRUdJTi"), PEM),
    *(
        _Mark(literal, FORM, re.compile(rb"(?<![A-Za-z0-9])" + re.escape(literal)))
        for literal in _FORM_LITERALS
    ),
)


class LineFilter:
    """Judges the lines of texts, and remembers the sketches it has seen."""

    def __init__(self, known: KnownValues, rules: bool = True) -> None:
        self._known = known
        self._rules = rules
        self._generation = known.generation
        self._clean: set[bytes] = set()
        self._suspect: dict[bytes, int] = {}
        self._remembered = 0

    def suspects(self, text: bytes) -> Iterator[tuple[int, int, int]]:
        """Start, end and families of every line that can hold a secret."""
        sketches = sketch(text).split(b"\n")
        different = set(sketches)
        self._judge(different)
        if different <= self._clean:
            return
        start = 0
        for outline, line in zip(sketches, text.split(b"\n")):
            families = self._suspect.get(outline)
            if families:
                yield start, start + len(line), families
            start += len(line) + 1

    def families(self, line: bytes) -> int:
        """The families of one line; of several lines those of all."""
        outlines = set(sketch(line).split(b"\n"))
        self._judge(outlines)
        found = 0
        for outline in outlines:
            found |= self._suspect.get(outline, 0)
        return found

    def _judge(self, different: set[bytes]) -> None:
        if self._generation != self._known.generation or self._remembered > _REMEMBERED:
            self._generation = self._known.generation
            self._clean.clear()
            self._suspect.clear()
            self._remembered = 0
        new = [outline for outline in different - self._clean if outline not in self._suspect]
        if not new:
            return
        families = _families(new, self._known, self._rules)
        for outline, found in zip(new, families):
            if found:
                self._suspect[outline] = found
            else:
                self._clean.add(outline)
            self._remembered += len(outline) + 64


def _families(outlines: list[bytes], known: KnownValues, rules: bool) -> list[int]:
    """The families of marks of each sketch."""
    joined = b"\n".join(outlines)
    starts = [0]
    for outline in outlines:
        starts.append(starts[-1] + len(outline) + 1)
    result = [0] * len(outlines)
    for text, marks in ((joined, _MARKS), (joined.lower(), _SMALL_MARKS)):
        for mark in marks if rules else ():
            _mark_lines(text, mark, starts, result)
    few = len(known.sketches) <= _FEW
    for outline in known.sketches:
        if few or len(outline) < GRAM:
            _mark_lines(joined, _Mark(outline, KNOWN), starts, result)
    if not few:
        for index, outline in enumerate(outlines):
            if known.may_stand_in(outline):
                result[index] |= KNOWN
    return result


def _mark_lines(text: bytes, mark: _Mark, starts: list[int], result: list[int]) -> None:
    position = text.find(mark.literal)
    while position >= 0:
        index = bisect_right(starts, position) - 1
        start = max(starts[index], position - mark.before)
        if mark.refined is None or mark.refined.match(text, start):
            result[index] |= mark.family
            position = text.find(mark.literal, starts[index + 1])
        else:
            position = text.find(mark.literal, position + 1)
