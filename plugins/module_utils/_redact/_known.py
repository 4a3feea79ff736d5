# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that are known to be secret, and where they stand in a text (private to the collection).

A value is looked for as it is, escaped for JSON, escaped for a URL, and in base64 at each of the three ways
its bytes can fall (https://www.rfc-editor.org/rfc/rfc4648#section-4), also where a line end has split it.
Every form is cut into pieces; a text without any of the pieces has no value in it, and only round a piece is
looked closer.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Iterator, NamedTuple, Optional
from urllib.parse import quote, quote_plus

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import Span
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._wrap import after_wrap, before_wrap

# Left out of a line's sketch: with them gone, the lines of a log are a few hundred different ones.
SKETCH_LEAVES_OUT = b"0123456789abcdefABCDEF"
_SKETCH_AT_LEAST = 3
# By the first letters of their sketches pieces are looked up when there are many.
GRAM = 5
_PIECE = 20
_PLAIN_PIECE = 32
_URL_SAFE = "/:@!$&'()*+,;="
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")


def sketch(text: bytes) -> bytes:
    """A text without digits and hexadecimal letters."""
    return text.translate(None, SKETCH_LEAVES_OUT)


class Literal(NamedTuple):
    """One form of a value, as bytes to look for."""

    text: bytes
    form: str
    value: bytes


def forms_of(value: bytes) -> Iterator[Literal]:
    """All forms in which a value is looked for; equal ones once."""
    seen: set[bytes] = set()
    for form, text in _forms(value):
        if text not in seen and len(text) >= min(8, len(value)):
            seen.add(text)
            yield Literal(text, form, value)


def _forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    yield "raw", value
    text = value.decode("utf-8", "surrogateescape")
    for plain in (True, False):
        escaped = json.dumps(text, ensure_ascii=plain)[1:-1].encode("utf-8", "surrogateescape")
        yield "JSON", escaped
        yield "JSON", escaped.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
        yield "JSON in JSON", escaped.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    for quoted in (
        quote(value, safe=""),
        quote(value, safe="/"),
        quote(value, safe="/:@!$&'()*+,;="),
        quote_plus(value),
    ):
        yield "URL", quoted.encode()
        yield "URL", re.sub(r"%[0-9A-F]{2}", lambda match: match.group().lower(), quoted).encode()
    yield "repr", repr(value)[2:-1].encode()
    for shift in range(3):
        text64 = _base64_core(value, shift)
        yield "base64", text64
        yield "base64", text64.replace(b"+", b"-").replace(b"/", b"_")


def _base64_core(value: bytes, shift: int) -> bytes:
    """The letters of base64 that hang on the value alone; ``shift`` bytes of its group stand before it."""
    encoded = base64.b64encode(b"\0" * shift + value).rstrip(b"=")
    last = len(encoded) - (1 if (shift + len(value)) % 3 else 0)
    return encoded[(0, 2, 3)[shift] : last]


class KnownValues:
    """The secrets of one host that were learned so far."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        # Grows with every value: what was found clean before has to be looked at again.
        self.generation = 0
        self._pieces: dict[bytes, list[tuple[Literal, int]]] = {}
        self.sketches: dict[bytes, list[bytes]] = {}
        self._plain: list[bytes] = []
        self._grams: dict[bytes, list[bytes]] = {}

    def add(self, value: bytes, name: str) -> bool:
        """Learn a value; True when it is new."""
        if value in self.names:
            return False
        self.names[value] = name
        self.generation += 1
        for literal in forms_of(value):
            for offset, piece in _cut(literal.text):
                self._add_piece(piece, literal, offset)
        return True

    def _add_piece(self, piece: bytes, literal: Literal, offset: int) -> None:
        owners = self._pieces.setdefault(piece, [])
        owners.append((literal, offset))
        if len(owners) > 1:
            return
        outline = sketch(piece)
        if len(outline) < _SKETCH_AT_LEAST:
            self._plain.append(piece)
            return
        pieces = self.sketches.setdefault(outline, [])
        pieces.append(piece)
        if len(pieces) == 1:
            self._grams.setdefault(outline[:GRAM], []).append(outline)

    def may_stand_in(self, outline: bytes) -> bool:
        """Whether the sketch of any piece, of at least ``GRAM`` letters, stands in the sketch of a line."""
        grams = {outline[place : place + GRAM] for place in range(len(outline) - GRAM + 1)}
        return any(one in outline for gram in grams & self._grams.keys() for one in self._grams[gram])

    def literals(self) -> Iterator[Literal]:
        """All forms of all values."""
        for value in self.names:
            yield from forms_of(value)

    def find(self, text: bytes, start: int, end: int) -> Iterator[Span]:
        """Values of which a piece stands in ``[start, end)``."""
        for pieces in self.sketches.values():
            for piece in pieces:
                yield from self._find_piece(text, piece, start, end)

    def find_plain(self, text: bytes) -> Iterator[Span]:
        """Values of digits and hexadecimal letters, of which a sketch says nothing."""
        for piece in self._plain:
            yield from self._find_piece(text, piece, 0, len(text))

    def _find_piece(self, text: bytes, piece: bytes, start: int, end: int) -> Iterator[Span]:
        position = text.find(piece, start, end)
        while position >= 0:
            for literal, offset in self._pieces[piece]:
                place = _stretched(text, literal.text, offset, position, len(piece))
                if place:
                    yield self._span(text, literal, *place)
            position = text.find(piece, position + 1, end)

    def _span(self, text: bytes, literal: Literal, start: int, end: int) -> Span:
        if literal.form == "base64":
            # The letters round the core hold bits of the value's first and last byte.
            start -= _run_back(text, start, 3)
            end += _run(text, end, 2)
            while text[end : end + 1] == b"=":
                end += 1
        return Span(
            start, end, self.names[literal.value], literal.value, "known value, " + literal.form, False
        )


def _cut(text: bytes) -> Iterator[tuple[int, bytes]]:
    """A text in pieces. A line end splits at most one, and a wrapped line of 40 letters holds one whole."""
    wanted = _PIECE if len(sketch(text)) > len(text) // 3 else _PLAIN_PIECE
    size = min(wanted, (len(text) + 1) // 2)
    for offset in range(0, len(text) - size + 1, size):
        yield offset, text[offset : offset + size]
    if len(text) % size and len(text) < 2 * wanted:
        yield len(text) - size, text[-size:]


def _stretched(
    text: bytes, wanted: bytes, offset: int, position: int, size: int
) -> Optional[tuple[int, int]]:
    """The whole of a literal round one piece of it that was found, over line ends if need be."""
    end = _forward(text, position + size, wanted[offset + size :])
    if end is None:
        return None
    start = _backward(text, position, wanted[:offset])
    return None if start is None else (start, end)


def _forward(text: bytes, position: int, wanted: bytes) -> Optional[int]:
    while wanted:
        if text.startswith(wanted, position):
            return position + len(wanted)
        same = _common(wanted, text[position : position + len(wanted)])
        goes_on = after_wrap(text, position + same)
        if goes_on is None:
            return None
        position, wanted = goes_on, wanted[same:]
    return position


def _backward(text: bytes, position: int, wanted: bytes) -> Optional[int]:
    while wanted:
        if text.endswith(wanted, 0, position):
            return position - len(wanted)
        piece = text[max(0, position - len(wanted)) : position]
        same = _common(wanted[::-1], piece[::-1])
        goes_on = before_wrap(text, position - same)
        if goes_on is None:
            return None
        position, wanted = goes_on, wanted[: len(wanted) - same]
    return position


def _common(first: bytes, second: bytes) -> int:
    for count, (one, other) in enumerate(zip(first, second)):
        if one != other:
            return count
    return min(len(first), len(second))


def _run(text: bytes, position: int, most: int) -> int:
    count = 0
    while (
        count < most and text[position + count : position + count + 1] and text[position + count] in _BASE64
    ):
        count += 1
    return count


def _run_back(text: bytes, position: int, most: int) -> int:
    count = 0
    while count < most and position > count and text[position - count - 1] in _BASE64:
        count += 1
    return count
