# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that a name gives away in free text (private to the collection).

One grammar for assignments, flags, JSON, YAML, Python's repr, headers, queries, argument lists and netrc
(https://everything.curl.dev/usingcurl/netrc.html): a name that names a secret, what joins it to a value, the
value.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._names import (
    SURE,
    WEAK,
    names_location,
    secret_kind,
    words_of,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._read_value import (
    Place,
    Value,
    read_values,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import STAND_IN_START, Span
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._values import (
    is_path,
    is_value,
    key_file,
    percent_decoded,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._wrap import LINE_PREFIX, NEXT_LINE

# Every name of a secret has one of these in it.
HINT = re.compile(rb"token|secret|pass|credential|key|auth|pwd|cookie|jwt|bearer|sig", re.IGNORECASE)
NAME_LIMIT = 128
_NAME_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_NAME_REST = re.compile(rb"[A-Za-z0-9_.\-]*")
# A type may stand between the name and the equals sign: token: Optional[str] = "...".
_TYPE = (
    rb"[ \t]{0,32}:[ \t]{0,32}(?:Optional\[)?(?:str|bytes|SecretStr)\]?"
    rb"(?:[ \t]?\|[ \t]?None)?(?=[ \t]{0,32}=[^=])"
)
_CONTINUED = rb"(?:\\" + NEXT_LINE + rb")?"
_ASSIGNED = re.compile(
    rb"(\\{0,15}[\"'`]?)\]?(?:" + _TYPE + rb")?[ \t]{0,32}(=>|:=|===?|=|:(?![:/]))[ \t]{0,80}" + _CONTINUED
)
_FLAG_GAP = re.compile(rb"[ \t]{1,32}" + _CONTINUED + rb"(?![-\[<{|\s])")
_PAIR_GAP = re.compile(
    rb"(\\{0,15}[\"'])[ \t]{0,32},[ \t]{0,160}(?:" + NEXT_LINE + rb"|\\+n[ \t]{0,160})?(?=b?\\{0,15}[\"'])"
)
_LIST_ITEM_GAP = re.compile(rb"[\"']?[ \t]{0,32}" + NEXT_LINE + rb"-[ \t]{1,32}")
_NAMED_VALUE_GAP = re.compile(
    rb"[\"']?,?[ \t]{0,160}(?:"
    + NEXT_LINE
    + rb"|\\+n[ \t]{0,160})?[\"']?value[\"']?[ \t]{0,32}[:=][ \t]{0,80}",
    re.IGNORECASE,
)
_NAME_KEY_BEFORE = re.compile(rb"(?:name|key)[\"']?[ \t]{0,32}[:=][ \t]{0,32}[\"']?\Z", re.IGNORECASE)
_LINE_OPENING = re.compile(rb"(?:[-+#>$] ?)*(?:export |set |setenv |env |ENV |ARG |declare -x )?[\"']?\Z")
_NETRC_BEFORE = re.compile(rb"(?:\A|[\s\"'])(?:login|machine|default|account)[ \t]+[^\n]*\Z")
_NETRC_GAP = re.compile(rb"[ \t]{1,32}(?=\S+[ \t]*(?:\r?$|\s(?:account|macdef|machine)\b|\Z))", re.MULTILINE)
_NETRC_INLINE_GAP = re.compile(rb"[ \t]{1,32}(?=\S)|" + NEXT_LINE + rb"(?=\S)")
_MORE_GAP = re.compile(
    rb"\\{0,15}[\"'](?:[ \t]{0,32},\s{0,160}|[ \t]{1,32})(?=\\{0,15}[\"'][^-\"'])|[ \t]{1,32}(?=[A-Za-z0-9])"
)
_LOGPROB = re.compile(rb"[\"']?,\s{0,32}[\"'](?:logprob|bytes)")
_QUERY_NAMES = re.compile(
    r"(?:sig|signature|key|x-(?:amz|goog|ms)-(?:signature|credential|security-token)|awsaccesskeyid|hmac)\Z",
    re.IGNORECASE,
)
_HEADER_NAMES = frozenset("authorization cookie cookies setcookie".split())


class _Name(NamedTuple):
    start: int
    end: int
    text: str
    kind: str
    location: bool


def named_secrets(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Secrets whose name has its telling part in ``[start, end)``; the value may stand behind ``end``."""
    past = start
    for hint in HINT.finditer(text, start, end):
        if hint.start() < past:
            continue
        past, name = _name_at(text, hint.start(), hint.end())
        if name is None or text.endswith(STAND_IN_START, 0, name.start):
            continue
        for value, span in _values_of(text, name):
            # A name within the value is part of it.
            past = max(past, value.end)
            if span:
                yield span


def _name_at(text: bytes, hint_start: int, hint_end: int) -> tuple[int, Optional[_Name]]:
    """The end of the run of a name's letters round a hint, and the name when it is that of a secret."""
    rest = _NAME_REST.match(text, hint_end)
    run_end = end = rest.end() if rest else hint_end
    while text[end - 1 : end] in (b".", b"-") and end > hint_end:
        end -= 1
    floor = max(0, end - NAME_LIMIT)
    start = max(hint_start, floor)
    while start > floor and text[start - 1] in _NAME_BYTES:
        start -= 1
    raw = text[start:end].decode("ascii")
    kind = secret_kind(raw)
    if kind:
        return run_end, _Name(start, end, raw, kind, False)
    if text[start - 1 : start] in (b"?", b"&", b";") and _QUERY_NAMES.match(raw):
        return run_end, _Name(start, end, raw, SURE, False)
    if names_location(raw):
        return run_end, _Name(start, end, raw, SURE, True)
    return run_end, None


def _values_of(text: bytes, name: _Name) -> Iterator[tuple[Value, Optional[Span]]]:
    """The values that follow a name, each with its span when it is a secret."""
    place, position, rule = _joined(text, name)
    if position is None:
        return
    found = read_values(text, position, place)
    for value in found:
        decoded = percent_decoded(value.value) if place.query else value.value
        secret = _is_secret(text, name, value)
        yield value, Span(value.start, value.end, name.text, decoded, rule) if secret else None
    if place.several and found:
        yield from _more(text, name, found[-1])


def _is_secret(text: bytes, name: _Name, value: Value) -> bool:
    if value.start >= value.end:
        return False
    if name.text.lower() == "token" and _LOGPROB.match(text, value.end):
        # {"token": "Hello", "logprob": -0.1}: a piece of generated text.
        return False
    if (name.location or key_file(words_of(name.text))) and is_path(value.value):
        return False
    return is_value(value.value, name.text, name.kind, value.quoted)


def _in_query(text: bytes, name: _Name) -> bool:
    return text[name.start - 1 : name.start] in (b"?", b"&")


def _joined(text: bytes, name: _Name) -> tuple[Place, Optional[int], str]:
    """What joins the name to its value, where the value starts, and the rule that this is."""
    flag = name.text.startswith("-")
    header = _HEADER_NAMES.intersection(words_of(name.text))
    assigned = _ASSIGNED.match(text, name.end)
    if assigned and (assigned.group(1) in (b"", b'"', b"'", b"`") or assigned.group(1)[:1] == b"\\"):
        return _assigned_place(text, name, assigned, bool(header)), assigned.end(), "name"
    pair = _PAIR_GAP.match(text, name.end)
    if pair and (flag or header or (name.kind == SURE and _is_header(name.text))):
        return Place(several=_takes_several(name.text)), pair.end(), "list"
    if flag:
        gap = _FLAG_GAP.match(text, name.end) or _LIST_ITEM_GAP.match(text, name.end)
        if gap:
            return Place(several=_takes_several(name.text)), gap.end(), "flag"
    before = text[max(0, name.start - 200) : name.start]
    named = _NAMED_VALUE_GAP.match(text, name.end)
    if named and _NAME_KEY_BEFORE.search(before):
        return Place(colon=True, line_start=_line_start(text, name.start)), named.end(), "named value"
    netrc = _netrc_gap(text, name, before)
    return Place(), netrc, "netrc"


def _netrc_gap(text: bytes, name: _Name, before: bytes) -> Optional[int]:
    if name.text not in ("password", "passwd"):
        return None
    line = before[before.rfind(b"\n") + 1 :]
    if _NETRC_BEFORE.search(line):
        gap = _NETRC_INLINE_GAP.match(text, name.end)
    else:
        gap = _NETRC_GAP.match(text, name.end) if LINE_PREFIX.fullmatch(line) else None
    return gap.end() if gap else None


def _is_header(name: str) -> bool:
    return name.lower().startswith("x-") or name.lower() in (
        "api-key",
        "private-token",
        "proxy-authorization",
    )


def _takes_several(name: str) -> bool:
    """vLLM's --api-key takes one or more values (https://docs.vllm.ai/en/latest/cli/serve/)."""
    return name.lower().strip("-").replace("_", "-") in ("api-key", "api-keys")


def _assigned_place(text: bytes, name: _Name, assigned: re.Match[bytes], header: bool) -> Place:
    enclosing = b""
    if not assigned.group(1):
        enclosing = _opened_before(text, name.start)
    line_start = None if enclosing else _line_start(text, name.start)
    if _in_query(text, name):
        return Place(query=True)
    return Place(enclosing, line_start, assigned.group(2) == b":", False, header)


def _opened_before(text: bytes, position: int) -> bytes:
    """The quote that stands right before the name, with its backslashes."""
    mark = text[position - 1 : position] if position else b""
    if mark not in (b'"', b"'", b"`"):
        return b""
    start = position - 1
    while start > 0 and text[start - 1 : start] == b"\\":
        start -= 1
    return text[start:position]


def _line_start(text: bytes, position: int) -> Optional[int]:
    """The start of the line when the name at the position opens it."""
    newline = text.rfind(b"\n", max(0, position - 300), position)
    start = newline + 1
    if newline < 0 and position > 300:
        return None
    prefix = LINE_PREFIX.match(text, start, position)
    inner = prefix.end() if prefix else start
    return start if _LINE_OPENING.fullmatch(text, inner, position) else None


def _more(text: bytes, name: _Name, last: Value) -> Iterator[tuple[Value, Optional[Span]]]:
    """Further values of a flag that takes several, as words or as items of a list."""
    while True:
        following = _MORE_GAP.match(text, last.end)
        found = read_values(text, following.end(), Place()) if following else []
        if not found or not is_value(found[0].value, name.text, WEAK, False):
            return
        last = found[0]
        yield last, Span(last.start, last.end, name.text, last.value, "flag")
