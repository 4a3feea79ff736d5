# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the value that follows a name in free text: quoted, in a list, bare, to the end of the line
(private to the collection).
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import STAND_IN
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._values import (
    json_unescaped,
    looks_random,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._wrap import STAMP, after_wrap

_QUOTE = re.compile(rb"(?:[bBrRuUfF]{1,2}(?=[\"']))?(\\{0,15})([\"'`])")
_QUOTED = {
    quote: re.compile(rb"[^\\" + quote + rb"\n]*(?:\\[^\n][^\\" + quote + rb"\n]*)*")
    for quote in (b'"', b"'", b"`")
}
# A variable without a default; with one the default may be the secret.
_VARIABLE = re.compile(rb"\$\{[A-Za-z_]\w*\}|\{\{[^{}\n]*\}\}")
_CALL = re.compile(rb"[A-Za-z_][\w.]{0,60}\([ \t]{0,8}(?=[bruf]{0,2}[\"'])")
_SCHEME = re.compile(
    rb"(bearer|basic|token|apikey|api-key|negotiate|digest|aws4-hmac-sha256)[ \t]{1,8}", re.IGNORECASE
)
_LONG_SCHEMES = (b"negotiate", b"digest", b"aws4-hmac-sha256")
_BARE = re.compile(rb"[^\s\"'`<>&;,|(){}\[\]\\\0]+")
_BARE_MORE = re.compile(rb"[&;,|(){}\[\]<>\\]+[^\s\"'`<>&;,|(){}\[\]\\\0]*")
_PAIR_FOLLOWS = re.compile(rb"[&;,|(){}\[\]<>\\]+[\w.\-]+[\"']?\]?(?:=|:)")
_LINE_REST = re.compile(rb"[^\r\n\0]*")
_NEXT_PAIR = re.compile(rb",[ \t]{1,32}[\"']?[\w.\-]{1,128}[\"']?[ \t]{0,32}[:=]|[ \t]#")
_LIST_GAP = re.compile(rb"[\s,\\]{0,160}")
_LIST_BARE = re.compile(rb"[^\s,\"'\])]+")
_INDENT = re.compile(rb"[ \t]*")
_BLOCK = re.compile(rb"[|>][+-]?[1-9]?[ \t]*\r?\n")
_WRAPS = 64


class Value(NamedTuple):
    """Where a value stands in a text, and what it is without quotes and escapes."""

    start: int
    end: int
    value: bytes
    quoted: bool


class Place(NamedTuple):
    """What is known of the place where a value stands."""

    # The quote that was opened before the name, with its backslashes, when the value ends where that ends.
    enclosing: bytes = b""
    # The name opens its line, so that the value may be all the rest of it.
    line_start: Optional[int] = None
    # "name: value" and not "name=value".
    colon: bool = False
    # More values may follow behind spaces (a flag that takes several).
    several: bool = False
    # The value of a header, which may open with a scheme.
    header: bool = False
    # Part of a URL's query: the value ends at the next "&".
    query: bool = False


def read_values(text: bytes, position: int, place: Place) -> list[Value]:
    """The values at a position: none, one, or those of a list."""
    if STAND_IN.match(text, position) or _VARIABLE.match(text, position):
        return []
    call = _CALL.match(text, position)
    if call:
        position = call.end()
    opening = text[position : position + 1]
    if opening in (b"[", b"(") and not place.enclosing:
        return _listed(text, position + 1)
    quote = _QUOTE.match(text, position)
    if quote and not _closes(text, position, place.enclosing):
        found = quoted_value(text, quote)
        return [_without_scheme(text, found)]
    if place.enclosing:
        found = _to_quote(text, position, place.enclosing)
    elif place.line_start is not None and _BLOCK.match(text, position):
        found = _block(text, position, place.line_start)
    elif place.header:
        found = _credential(text, position, place)
    elif place.line_start is not None and place.colon:
        found = _to_line_end(text, position)
    else:
        found = _bare(text, position, place)
    return [_without_scheme(text, found)]


def quoted_value(text: bytes, quote: re.Match[bytes]) -> Value:
    """The value behind an opening quote; it may go on in the next line where a line was wrapped."""
    escapes, mark = quote.group(1), quote.group(2)
    start = position = quote.end()
    pieces: list[bytes] = []
    for _count in range(_WRAPS):
        end, closed = _piece(text, position, escapes, mark)
        piece = text[position:end]
        if closed or (pieces and b" " in piece):
            break
        goes_on = None if b" " in piece else after_wrap(text, end)
        if goes_on is None:
            break
        pieces.append(piece)
        position = goes_on
    if pieces and not closed:
        # No closing quote in sight: the value ends with its line.
        return Value(start, start + len(pieces[0]), pieces[0], True)
    raw = b"".join(pieces) + piece
    return Value(start, end, json_unescaped(raw, mark), True)


def _piece(text: bytes, position: int, escapes: bytes, mark: bytes) -> tuple[int, bool]:
    """The end of what stands on this line of a quoted value, and whether its closing quote follows."""
    if not escapes:
        match = _QUOTED[mark].match(text, position)
        end = match.end() if match else position
        return end, text[end : end + 1] == mark
    line_end = text.find(b"\n", position)
    line_end = len(text) if line_end < 0 else line_end
    end = text.find(escapes + mark, position, line_end)
    while end > position and text[end - 1 : end] == b"\\":
        end = text.find(escapes + mark, end + 1, line_end)
    return (line_end, False) if end < 0 else (end, True)


def _closes(text: bytes, position: int, enclosing: bytes) -> bool:
    return bool(enclosing) and text.startswith(enclosing, position)


def _to_quote(text: bytes, position: int, enclosing: bytes) -> Value:
    escapes, mark = enclosing[:-1], enclosing[-1:]
    end, _closed = _piece(text, position, escapes, mark)
    return Value(position, end, json_unescaped(text[position:end], mark), True)


def _credential(text: bytes, position: int, place: Place) -> Value:
    """The value of a header: one word behind its scheme, without one or with fields the rest of the line."""
    scheme = _SCHEME.match(text, position)
    if scheme and scheme.group(1).lower() not in _LONG_SCHEMES:
        return _bare(text, scheme.end(), place._replace(line_start=None))
    return _to_line_end(text, position, fields=bool(scheme))


def _to_line_end(text: bytes, position: int, fields: bool = False) -> Value:
    match = _LINE_REST.match(text, position)
    end = match.end() if match else position
    follows = None if fields else _NEXT_PAIR.search(text, position, end)
    if follows:
        end = follows.start()
    raw = text[position:end].rstrip(b" \t,\"'")
    return Value(position, position + len(raw), raw, False)


def _bare(text: bytes, position: int, place: Place) -> Value:
    match = _BARE.match(text, position)
    end = match.end() if match else position
    while match and not place.query:
        more = _BARE_MORE.match(text, end)
        # "a,b" is one value; of "a, b" and of "a,name=b" the value is "a".
        if (
            not more
            or STAND_IN.match(text, end)
            or _only_closes(more.group())
            or _PAIR_FOLLOWS.match(more.group())
        ):
            break
        end = more.end()
    raw = text[position:end]
    if place.line_start is not None and not looks_random(raw) and _is_phrase(text, end):
        return _to_line_end(text, position)
    raw = raw.rstrip(b".:,;)]}!?" if text[end : end + 1] in (b"", b" ", b"\n", b"\r") else b"")
    return Value(position, position + len(raw), raw, False)


def _only_closes(text: bytes) -> bool:
    return not text.strip(b"&;,|(){}[]<>\\.:")


_PHRASE = re.compile(rb"(?:[ \t]+[A-Za-z0-9!@#%^*?.]+)+[ \t]*(?:\r?\n|\Z)")


def _is_phrase(text: bytes, position: int) -> bool:
    """Whether the rest of a line is nothing but words, so that it belongs to a pass phrase."""
    return bool(_PHRASE.match(text, position))


def _listed(text: bytes, position: int) -> list[Value]:
    found: list[Value] = []
    while True:
        gap = _LIST_GAP.match(text, position)
        position = gap.end() if gap else position
        quote = _QUOTE.match(text, position)
        if quote:
            found.append(quoted_value(text, quote))
            position = found[-1].end + len(quote.group(1)) + 1
            continue
        earlier = STAND_IN.match(text, position)
        if earlier:
            position = earlier.end()
            continue
        match = _LIST_BARE.match(text, position)
        if not match:
            break
        found.append(Value(match.start(), match.end(), match.group(), False))
        position = match.end()
    return found


def _block(text: bytes, position: int, line_start: int) -> Value:
    """A YAML block: all following lines that stand deeper than the line of the name."""
    head = _BLOCK.match(text, position)
    end = head.end() if head else position
    stamp = STAMP.match(text, end)
    indent = _INDENT.match(text, stamp.end() if stamp else end)
    start = indent.end() if indent else end
    depth = _depth(text, line_start)
    while end < len(text):
        newline = text.find(b"\n", end)
        line_end = len(text) if newline < 0 else newline + 1
        if _unstamped(text[end:line_end]) and _depth(text, end) <= depth:
            break
        end = line_end
    raw = text[start:end].rstrip(b"\r\n")
    return Value(start, start + len(raw), b"\n".join(map(_unstamped, raw.split(b"\n"))), True)


def _unstamped(line: bytes) -> bytes:
    stamp = STAMP.match(line)
    return line[stamp.end() if stamp else 0 :].strip()


def _depth(text: bytes, line_start: int) -> int:
    stamp = STAMP.match(text, line_start)
    first = depth = stamp.end() if stamp else line_start
    while text[depth : depth + 1] in (b" ", b"-", b"\t"):
        depth += 1
    return depth - first


def scheme_length(value: bytes) -> int:
    """The length of the authentication scheme that opens a header's value, with its spaces."""
    scheme = _SCHEME.match(value)
    return scheme.end() if scheme and scheme.end() < len(value) else 0


def _without_scheme(text: bytes, found: Value) -> Value:
    """``Bearer V`` is the value V; the schemes that list several fields are removed whole."""
    length = scheme_length(found.value)
    if scheme_length(text[found.start : found.end]) != length:
        return found
    return found._replace(start=found.start + length, value=found.value[length:])
