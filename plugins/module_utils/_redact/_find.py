# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over a text: find the secrets in it, or replace them (private to the collection)."""

from __future__ import annotations

import re
from typing import Callable, Iterator, Protocol

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact import _forms, _lines
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._known import KnownValues
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._named import named_secrets
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import (
    STAND_IN,
    STAND_IN_START,
    STRUCK_OUT,
    Span,
    merged,
)

_FINDERS: tuple[tuple[int, Callable[[bytes, int, int], Iterator[Span]]], ...] = (
    (_lines.NAMED, named_secrets),
    (_lines.FORM, _forms.known_forms),
    (_lines.URL, _forms.url_credentials),
    (_lines.SCHEME, _forms.scheme_credentials),
    (_lines.PEM, _forms.pem_keys),
    (_lines.PEM, _forms.pem_in_base64),
)
_ROUNDS = 4
_NOTHING = re.compile(rb"[\s\"'`,;:.&|()\[\]{}<>\\]*\Z")


class Lines(Protocol):
    """Tells which lines can hold which kinds of secrets."""

    def suspects(self, text: bytes) -> Iterator[tuple[int, int, int]]:
        """Start, end and families of every line that can hold a secret."""

    def families(self, line: bytes) -> int:
        """The families of one line."""


def find_secrets(text: bytes, lines: Lines, known: KnownValues) -> list[Span]:
    """All secrets in a text, in order, none overlapping."""
    spans = _found(text, lines.suspects(text), known) + list(known.find_plain(text))
    if not spans:
        return spans
    spans = merged(spans, text)
    for _count in range(_ROUNDS):
        # With a secret gone what stood beside it stands free, and may be another.
        struck = _struck_out(text, spans)
        more = _found(struck, _lines_of(struck, spans, lines), known)
        more = [span for span in more if span.value.strip(STRUCK_OUT)]
        if not more:
            break
        spans = merged(spans + [span._replace(value=text[span.start : span.end]) for span in more], text)
    return list(_beside_stand_ins(text, spans)) if STAND_IN_START in text else spans


def _found(text: bytes, lines: Iterator[tuple[int, int, int]], known: KnownValues) -> list[Span]:
    spans: list[Span] = []
    for start, end, families in lines:
        for family, finder in _FINDERS:
            if families & family:
                spans.extend(finder(text, start, end))
        if families & _lines.KNOWN:
            spans.extend(known.find(text, start, end))
    return spans


def _struck_out(text: bytes, spans: list[Span]) -> bytes:
    """The text with every span struck out, at the same length."""
    struck = bytearray(text)
    for span in spans:
        struck[span.start : span.end] = STRUCK_OUT * (span.end - span.start)
    return bytes(struck)


def _lines_of(text: bytes, spans: list[Span], lines: Lines) -> Iterator[tuple[int, int, int]]:
    """The lines that spans touch."""
    past = 0
    for span in spans:
        start = max(past, text.rfind(b"\n", past, span.start) + 1)
        end = text.find(b"\n", span.end)
        past = len(text) if end < 0 else end
        if start < past:
            yield start, past, lines.families(text[start:past])


def _beside_stand_ins(text: bytes, spans: list[Span]) -> Iterator[Span]:
    """Spans without the stand-ins that earlier passes have put into the text."""
    inside = [match.span() for match in STAND_IN.finditer(text)]
    for span in spans:
        touched = [place for place in inside if place[0] < span.end and span.start < place[1]]
        if not touched:
            yield span
            continue
        start, end = span.start, span.end
        if touched[0][0] <= start:
            start = touched[0][1]
        if touched[-1][1] >= end:
            end = touched[-1][0]
        if start < end and not _NOTHING.match(STAND_IN.sub(b"", text[start:end])):
            yield span._replace(start=start, end=end, value=text[start:end], learn=False)
