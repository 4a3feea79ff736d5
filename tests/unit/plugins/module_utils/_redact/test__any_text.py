# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redaction of any text in any blocks: nothing known survives, twice is once, the line filter loses nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import Iterator
from urllib.parse import quote

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._find import find_secrets
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._known import KnownValues
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._lines import LineFilter
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._stream import RedactingStream
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

KEY = b"a key of a reproduction in tests"
KNOWN = (b"cNry7-Vq2LmT9xWz4", b"0123456789abcdef0123456789abcdef", b'p@s/s"w\\o&r<d>%7Q', b"aB3dE6gH")

NAMES = """
HF_TOKEN api_key --api-key apiKey password token tokens max_tokens prompt_token_ids bos_token Authorization
Cookie X-Api-Key secret AWS_SECRET_ACCESS_KEY auth key hf_token HF_TOKEN_PATH sig bearer jwt pwd db_pass
TOKEN_ID TOKEN5S token_idx cookie
""".split()
GLUE = [
    "=",
    ": ",
    ":",
    " ",
    '"',
    "'",
    '": "',
    "': '",
    "=[",
    "['",
    "']",
    ", ",
    '", "',
    "\\n",
    "\\",
    "\n",
    "\r\n",
]
GLUE += [
    "\n  ",
    "&",
    "?",
    ";",
    "{",
    "}",
    "|\n  ",
    "- ",
    "(",
    ")",
    "<",
    ">",
    "\0",
    "`",
    "Bearer ",
    "Basic ",
    "://",
]
GLUE += ["@", "/", "=="]
PIECES = (
    "2026-08-09T10:00:00.123456789Z stderr ",
    "(EngineCore pid=270) INFO 08-09 10:00:00 [core.py:121] ",
    "<redacted HF_TOKEN 3f2a9c>",
    "<redacted ",
    "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "-----END RSA PRIVATE KEY-----",
    "MIIEpAIBAAKCAQEAcanaryAbCdEfGhIjKlMnOpQrStUvWxYz",
    "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQphYmNkZWY=",
    "dXNlcjpwYXNzd29yZA==",
    "https://me:Sup3rS3cret@host/x",
    "machine a login b password ",
    "None",
    "123456",
    "error: ",
    "a1b2c3d4e5f60718",
    "correct horse battery",
)


def forms(value: bytes) -> list[bytes]:
    text = value.decode()
    return [
        value,
        json.dumps(text)[1:-1].encode(),
        quote(text, safe="").encode(),
        base64.b64encode(value),
        base64.b64encode(b"x" + value + b"yz"),
        base64.b64encode(b"xy" + value + b"z"),
    ]


PLANTED = [form for value in KNOWN for form in forms(value)]
words = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(GLUE),
    st.sampled_from(PIECES),
    st.text(st.characters(codec="utf-8"), max_size=6),
)
texts = st.lists(words, max_size=25).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
planted_texts = st.lists(
    st.one_of(words.map(lambda word: word.encode()), st.sampled_from(PLANTED)), max_size=25
).map(b"".join)
EXAMPLES = int(os.environ.get("REDACTION_EXAMPLES", "200"))
relaxed = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class EveryLine:
    """What the line filter is measured against: every text is read in full."""

    def suspects(self, text: bytes) -> Iterator[tuple[int, int, int]]:
        yield 0, len(text), self.families(text)

    def families(self, line: bytes) -> int:
        return 63


def knowing() -> Redactor:
    redactor = Redactor(KEY)
    redactor.learn_environment([f"SECRET_{index}={value.decode()}" for index, value in enumerate(KNOWN)])
    return redactor


def in_blocks(stream: RedactingStream, text: bytes, cuts: list[int]) -> bytes:
    return b"".join(map(stream.feed, blocks_of(text, cuts))) + stream.finish()


def blocks_of(text: bytes, cuts: list[int]) -> Iterator[bytes]:
    start = 0
    for end in [*cuts, len(text)]:
        yield text[start:end]
        start = end


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[bytes, list[int]]:
    text = draw(planted_texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, cuts


@relaxed
@given(planted_texts)
def test_no_known_value_survives_in_any_form(text: bytes) -> None:
    answer = knowing().redact_bytes(text)
    for value in KNOWN:
        assert value not in answer
        assert base64.b64encode(value)[:-4] not in answer


@relaxed
@given(texts, st.sampled_from(PLANTED), texts)
def test_a_planted_value_is_gone_and_was_there(before: bytes, planted: bytes, after: bytes) -> None:
    text = before + b"\n" + planted + b"\n" + after
    redactor = knowing()
    scanner = redactor.scanner()
    scanner.feed(text)
    assert scanner.finish()
    answer = redactor.redact_bytes(text)
    assert planted not in answer
    scanner = redactor.scanner()
    scanner.feed(answer)
    assert scanner.finish() == []


@relaxed
@given(planted_texts)
@example(b"password=V1abcdef99,<redacted x 123456> tail")
def test_redacting_twice_is_redacting_once(text: bytes) -> None:
    redactor = knowing()
    once = redactor.redact_bytes(text)
    assert redactor.redact_bytes(once) == once
    assert knowing().redact_bytes(once) == once


@relaxed
@given(cut_texts(), st.integers(40, 400), st.integers(1200, 3000))
def test_blocks_and_windows_do_not_matter(cut: tuple[bytes, list[int]], window: int, lookahead: int) -> None:
    text, cuts = cut
    text *= 6
    # A value runs to the end of its line at most; the stand-in of one that no window can hold is made of its beginning.
    assume(max(map(len, text.splitlines(keepends=True)), default=0) < window + lookahead)
    whole = knowing()
    expected = whole.redact_bytes(text)
    stream = RedactingStream(whole._find_and_learn, whole._replacement, window, lookahead)
    assert in_blocks(stream, text, cuts) == expected


ONE_LINE = (
    b"HF_TOKEN"
    * 10
    + b": HF_TOKEN2026-08-09T10:00:00.123456789Z stderr 2026-08-09T10:00:00.123456789Z stderr "
    b"(EngineCore pid=270) INFO 08-09 10:00:00 [core.py:121] "
) * 6


@pytest.mark.parametrize(("lookahead", "same"), [(1200, False), (1400, True)])
def test_a_value_that_no_window_can_hold_is_gone_as_well(lookahead: int, same: bool) -> None:
    """Only its stand-in is another one than in one go."""
    whole = knowing()
    expected = whole.redact_bytes(ONE_LINE)
    stream = RedactingStream(whole._find_and_learn, whole._replacement, 40, lookahead)
    answer = in_blocks(stream, ONE_LINE, [])
    assert (answer == expected) is same
    assert b"INFO" not in expected
    assert b"INFO" not in answer


@relaxed
@given(planted_texts)
def test_the_line_filter_loses_nothing(text: bytes) -> None:
    known = KnownValues()
    for value in KNOWN:
        known.add(value, "SECRET")
    filtered = find_secrets(text, LineFilter(known), known)
    assert filtered == find_secrets(text, EveryLine(), known)


MANY = [hashlib.sha256(str(index).encode()).digest() for index in range(60)]
MANY = [base64.urlsafe_b64encode(digest)[: 9 + index % 30] for index, digest in enumerate(MANY)]


@relaxed
@given(st.lists(st.one_of(words.map(str.encode), st.sampled_from(MANY)), max_size=12).map(b"".join))
def test_the_line_filter_loses_nothing_with_many_known_values(text: bytes) -> None:
    known = KnownValues()
    for value in MANY:
        known.add(value, "SECRET")
    found = find_secrets(text, LineFilter(known), known)
    assert found == find_secrets(text, EveryLine(), known)
    assert bool(found) >= any(value in text for value in MANY)


@relaxed
@given(cut_texts())
def test_the_scanner_finds_every_known_value_over_any_blocks(cut: tuple[bytes, list[int]]) -> None:
    text, cuts = cut
    redactor = knowing()
    scanner = redactor.scanner()
    for block in blocks_of(text, cuts):
        scanner.feed(block)
    found = {(hit.offset, hit.stand_in) for hit in scanner.finish() if hit.form == "raw"}
    for value in KNOWN:
        stand_in = redactor.replace_value(value, "SECRET").decode()
        position = text.find(value)
        while position >= 0:
            assert (position, stand_in) in found
            position = text.find(value, position + 1)


@relaxed
@given(st.binary(max_size=200))
def test_any_bytes_are_taken(text: bytes) -> None:
    redactor = knowing()
    once = redactor.redact_bytes(text)
    assert redactor.redact_bytes(once) == once
