# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runtimes stored of a log becomes text lines, whatever is wrong with it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    MULTIPLEXED,
    PLAIN,
    TERMINAL,
    unescaped,
)
from ansible_collections.gpufleet.baseline.tests.unit.plugins.module_utils._stored_logs import (
    TIME,
    VALUE,
    decoded,
    frame,
    kept,
    of,
    record,
)
from hypothesis import given, settings
from hypothesis import strategies as st

MESSAGES = [
    "plain",
    'quotes "a" and \\ backslash',
    "ends with a backslash \\",
    "backslash and n \\n",
    "\x1b[0;36m(EngineCore pid=270)\x1b[0m colours\tand tabs\r progress",
    "<class 'x'> & more",
    "umlauts äöü and 漢字 and 😀",
    '","time":"',
    '","stream":"stderr","time":"2026"}',
    "",
    "\x00 nul",
    "\\u001b is text",
]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("attrs", ["", '"attrs":{"tag":"x","time":"y"},'])
def test_a_json_record_is_a_line(message: str, stream: str, attrs: str) -> None:
    expected = f"{TIME % 0} {stream} {message}\n".encode()
    assert decoded(record(message + "\n", stream, attrs=attrs)) == expected
    assert (
        decoded(json.dumps({"log": message + "\n", "stream": stream, "time": TIME % 0}).encode() + b"\n")
        == expected
    )


@given(
    st.lists(st.tuples(st.text(max_size=40), st.sampled_from(["stdout", "stderr"])), max_size=8),
    st.integers(1, 50),
)
@settings(deadline=None)
def test_any_message_survives_in_any_blocks(messages: list[tuple[str, str]], size: int) -> None:
    lines = [
        (text.replace("\n", " ").encode("utf-8", "replace").decode(), stream) for text, stream in messages
    ]
    data = b"".join(record(text + "\n", stream) for text, stream in lines)
    expected = "".join(f"{TIME % 0} {stream} {text}\n" for text, stream in lines).encode()
    assert decoded(data, size=size) == expected


@given(
    st.binary(max_size=300), st.integers(1, 60), st.sampled_from([JSON_FILE, MULTIPLEXED, TERMINAL, PLAIN])
)
@settings(deadline=None)
def test_any_bytes_are_taken_in_any_form(data: bytes, size: int, form: str) -> None:
    text = decoded(data, form, size)
    if form == PLAIN:
        assert text == data


@given(st.text(alphabet='\\"nrtu01b<>&abc', max_size=20))
def test_unescaping_is_that_of_json(text: str) -> None:
    assert unescaped(json.dumps(text)[1:-1].encode()) == text.encode()


def test_a_long_message_in_pieces_is_one_line() -> None:
    long = "x" * 40_000 + VALUE + "y" * 10_000
    pieces = [long[start : start + 16_384] for start in range(0, len(long), 16_384)]
    data = b"".join(record(piece, second=1) for piece in pieces[:-1]) + record(pieces[-1] + "\n", second=2)
    text, summary = kept(of(data + record("next\n", second=3)))
    assert text == f"{TIME % 1} stderr {long}\n{TIME % 3} stderr next\n".encode()
    assert summary.marks.joined_records == len(pieces) - 1


def test_pieces_of_two_streams_do_not_mix() -> None:
    data = (
        record("a1 ", "stdout")
        + record("b1 ", "stderr")
        + record("a2\n", "stdout")
        + record("b2\n", "stderr")
    )
    assert decoded(data) == f"{TIME % 0} stdout a1 a2\n{TIME % 0} stderr b1 b2\n".encode()


def test_a_message_whose_rest_does_not_come_is_ended_and_marked() -> None:
    data = record("a1 ", "stdout") + b"".join(record("b" * 1000 + "\n", "stderr") for _index in range(2000))
    text, summary = kept(of(data + record("a2\n", "stdout")))
    assert text.count(b"\n") == 2002
    assert text.startswith(f"{TIME % 0} stdout a1 \n".encode())
    assert text.endswith(f"{TIME % 0} stdout a2\n".encode())
    assert summary.marks.broken_lines == 1


def test_the_last_record_may_be_unfinished() -> None:
    text, summary = kept(of(record("one\n") + record("two\n")[:-20]))
    assert text.startswith(f"{TIME % 0} stderr one\n- invalid ".encode())
    assert b'"log":"two' in text
    assert summary.marks.last_record_unfinished
    text, summary = kept(of(record("one\n") + record("two\n").rstrip(b"\n")))
    assert text.endswith(b"stderr two\n")
    assert not summary.marks.last_record_unfinished


def test_what_is_no_record_is_kept_and_marked() -> None:
    data = record("one\n") + b"not json at all\n" + b'{"log": 5}\n' + b"[1]\n" + record("two\n")
    text, summary = kept(of(data))
    assert text.split(b"\n")[1:4] == [b"- invalid not json at all", b'- invalid {"log": 5}', b"- invalid [1]"]
    assert summary.marks.invalid_records == 3
    assert text.endswith(b"stderr two\n")


def test_nul_bytes_of_a_crash_are_counted_and_the_record_behind_them_is_read() -> None:
    text, summary = kept(of(record("one\n") + b"\0" * 4096 + record("two\n")))
    assert text == f"{TIME % 0} stderr one\n- invalid [4096 NUL bytes]\n{TIME % 0} stderr two\n".encode()
    assert summary.marks.nul_bytes == 4096


def test_bytes_that_are_not_utf8_are_kept_and_marked() -> None:
    line = record("caf\u00e9\n").replace("\u00e9".encode(), b"\xe9")
    text, summary = kept(of(line))
    assert b"caf\xe9\n" in text
    assert summary.marks.invalid_utf8_blocks == 1
    text, summary = kept(of("é".encode() * 1_000_000, PLAIN))
    assert summary.marks.invalid_utf8_blocks == 0


def test_the_engines_stream() -> None:
    data = frame(b"one\n", 1) + frame(b"a" * 16_384) + frame(b"b\n") + frame(b"two\n", 2, 5)
    for size in (1, 7, 1 << 20):
        expected = (
            f"{TIME % 0} stdout one\n{TIME % 0} stderr {'a' * 16384}b\n{TIME % 5} stderr two\n".encode()
        )
        assert decoded(data, MULTIPLEXED, size if size > 1 else 13) == expected


def test_an_engines_stream_out_of_step_is_kept_and_marked() -> None:
    text, summary = kept(of(frame(b"one\n") + b"HTTP/1.1 500 what\n", MULTIPLEXED))
    assert text.endswith(b"- invalid HTTP/1.1 500 what\n\n")
    assert summary.marks.invalid_records == 1
    text, summary = kept(of(frame(b"one\n") + frame(b"two\n")[:-3], MULTIPLEXED))
    assert summary.marks.last_record_unfinished


def test_the_stream_of_a_terminal() -> None:
    data = f"{TIME % 1} one\r\n{TIME % 2} two\r\nno time\r\n".encode()
    expected = f"{TIME % 1} stdout one\r\n{TIME % 2} stdout two\r\nno time\r\n".encode()
    for size in (3, 1000):
        assert decoded(data, TERMINAL, size) == expected


def test_a_plain_file_is_kept_as_it_is() -> None:
    data = b"INFO 08-09 10:00:00 [core.py:1] x\nno end"
    text, summary = kept(of(data, PLAIN))
    assert text == data
    assert (summary.format, summary.first_time, summary.lines_seen) == (PLAIN, "", 1)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(
        ValueError, match="expected one of json-file, multiplexed, plain, terminal, found 'journald'"
    ):
        kept(of(b"", "journald"))
