# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for secrets, and the pieces of text that are to be replaced (private to the collection).

A stand-in tells the name of the secret and six hexadecimal digits of its HMAC-SHA256 under the reproduction's
key (https://www.rfc-editor.org/rfc/rfc2104): equal values are equal stand-ins within one reproduction and
nowhere else.
"""

from __future__ import annotations

import hmac
import re
from typing import Iterable, NamedTuple

STAND_IN = re.compile(rb"<redacted ([A-Za-z0-9_.\-]{1,48}) ([0-9a-f]{6})>")
STAND_IN_START = b"<redacted "
# Takes the place of a secret while the rest of its line is read once more; no value is made of it.
STRUCK_OUT = b">"
_NAME = re.compile(r"[^A-Za-z0-9_.\-]+")


class Span(NamedTuple):
    """A piece ``[start, end)`` of a text that is a secret. ``value`` is the secret itself, decoded."""

    start: int
    end: int
    name: str
    value: bytes
    rule: str
    # Whether the value may be looked for everywhere else, when it is long and unlike a common word.
    learn: bool = True


def tag(key: bytes, value: bytes) -> str:
    """The six digits of a value."""
    return hmac.new(key, value, "sha256").hexdigest()[:6]


def plain_name(name: str) -> str:
    """A name as it may stand in a stand-in."""
    return _NAME.sub("", name).strip("-.")[:48] or "secret"


def stand_in(name: str, digits: str) -> bytes:
    """The text that replaces a secret."""
    return f"<redacted {plain_name(name)} {digits}>".encode()


def merged(spans: Iterable[Span], text: bytes) -> list[Span]:
    """Spans in order, none overlapping: of two that overlap the outer one stands, or both as one piece."""
    result: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if not result or span.start >= result[-1].end:
            result.append(span)
        elif span.end > result[-1].end:
            first = result[-1]
            piece = text[first.start : span.end]
            result[-1] = first._replace(end=span.end, value=piece, learn=False)
    return result
