# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kept log of a container: T9, T10, every source and everything that can be wrong with one."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import threading
from pathlib import Path
from typing import Iterator

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _container_log
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log import (
    Limits,
    LogSummary,
    collect,
    learn,
    seconds_of,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    MULTIPLEXED,
    PLAIN,
    TERMINAL,
    decoder_for,
    unescaped,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_source import LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = b"a key of a reproduction in tests"
TIME = "2026-08-09T10:00:%02d.123456789Z"
VALUE = "cNry7-Vq2LmT9xWz4"


WHOLE = Limits()


def record(message: str, stream: str = "stderr", second: int = 0, attrs: str = "") -> bytes:
    text = json.dumps(message, ensure_ascii=False)
    for character, escape in (("\x1b", "\\u001b"), ("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escape)
    return f'{{"log":{text},"stream":"{stream}",{attrs}"time":"{TIME % (second % 60)}"}}\n'.encode()


def frame(message: bytes, stream: int = 2, second: int = 0) -> bytes:
    payload = (TIME % (second % 60)).encode() + b" " + message
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def kept(
    source: LogSource, limits: Limits = WHOLE, redactor: Redactor | None = None, **options: object
) -> tuple[bytes, LogSummary]:
    target = io.BytesIO()
    summary = collect(source, target, redactor or Redactor(KEY), limits, **options)  # type: ignore[arg-type]
    assert summary.sha256 == hashlib.sha256(target.getvalue()).hexdigest()
    assert summary.bytes_stored == len(target.getvalue())
    return gzip.decompress(target.getvalue()), summary


def of(data: bytes, form: str = JSON_FILE) -> LogSource:
    return LogSource.of_stream(io.BytesIO(data), form)


def of_known_size(data: bytes, form: str = JSON_FILE) -> LogSource:
    return LogSource(form, lambda: iter([data]), len(data))


def decoded(data: bytes, form: str = JSON_FILE, size: int = 1 << 20) -> bytes:
    decoder = decoder_for(form)
    text = b"".join(decoder.feed(data[start : start + size]) for start in range(0, len(data), size))
    return text + decoder.finish()


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


def test_an_empty_log() -> None:
    text, summary = kept(of(b""))
    assert (text, summary.bytes_kept, summary.head_missing) == (b"", 0, False)


def test_rotated_files_are_read_oldest_first_and_only_up_to_their_size_of_the_start(tmp_path: Path) -> None:
    packed, older, current = tmp_path / "x.2.gz", tmp_path / "x.1", tmp_path / "x"
    packed.write_bytes(gzip.compress(record("one\n")))
    older.write_bytes(record("two\n"))
    current.write_bytes(record("three\n"))
    source = LogSource.of_files([str(packed), str(older), str(current)], JSON_FILE)
    with current.open("ab") as writing:
        writing.write(record("came later\n"))
    for _again in range(2):
        text, _summary = kept(source)
        assert [line.split()[-1] for line in text.splitlines()] == [b"one", b"two", b"three"]
    assert source.size is None
    assert LogSource.of_files([str(older)], JSON_FILE).size == older.stat().st_size


def test_secrets_are_learned_and_removed_in_the_kept_log() -> None:
    redactor = Redactor(KEY)
    data = (
        record(f"args: {{'api_key': ['{VALUE}']}}\n")
        + record(f"saw {VALUE}\n")
        + record("HF_TOK")
        + record("EN=abc\n")
    )
    text, summary = kept(of_known_size(data), redactor=redactor)
    assert VALUE.encode() not in text
    assert b"HF_TOKEN=<redacted HF_TOKEN " in text
    assert summary.generation != redactor.generation


def test_a_value_taught_late_is_gone_when_collected_once_more() -> None:
    redactor = Redactor(KEY)
    filler = b"".join(record(f"line {index} of a log\n") for index in range(40_000))
    data = record(f"early {VALUE}\n") + filler + record(f"api_key={VALUE}\n")
    _text, summary = kept(of_known_size(data), redactor=redactor)
    assert summary.generation != redactor.generation
    text, summary = kept(of_known_size(data), redactor=redactor)
    assert summary.generation == redactor.generation
    assert VALUE.encode() not in text
    learned = Redactor(KEY)
    learn(of(data), learned)
    text, summary = kept(of_known_size(data), redactor=learned)
    assert VALUE.encode() not in text
    assert summary.generation == learned.generation


def find_traceback(blocks: Iterator[bytes]) -> int | None:
    lines = 0
    for block in blocks:
        position = block.find(b"Traceback")
        if position >= 0:
            return lines + block.count(b"\n", 0, position) + 1
        lines += block.count(b"\n")
    return None


def long_log(at: int, lines: int = 120_000) -> bytes:
    out = [
        record(f"line {index} xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n") for index in range(lines)
    ]
    out[at] = record("Traceback (most recent call last):\n") + record("ValueError: the first one\n")
    return b"".join(out)


SMALL = Limits(whole=4 << 20, head=1 << 20, tail=1 << 20, window=1 << 20)


@pytest.mark.parametrize("at", [50, 30_000, 60_000, 119_900])
@pytest.mark.parametrize("known_size", [False, True])
def test_t9_head_tail_and_the_window_round_the_first_failure_are_kept(
    at: int, known_size: bool, tmp_path: Path
) -> None:
    data = long_log(at)
    path = tmp_path / "log"
    path.write_bytes(data)
    source = LogSource.of_files([str(path)], JSON_FILE) if known_size else of(data)
    whole = decoded(data)
    text, summary = kept(source, SMALL, find_first_failure=find_traceback)
    assert b"ValueError: the first one" in text
    assert b" stderr line 0 " in text
    assert text.endswith(whole[-500_000:])
    assert len(text) < 5 << 20
    marks = [line for line in text.split(b"\n") if line.startswith(b"[gpufleet.baseline: ")]
    assert len(marks) == len(summary.cuts)
    assert len(summary.cuts) == (1 if at in (50, 119_900) else 2)
    assert sum(cut.bytes for cut in summary.cuts) + len(text) - sum(len(mark) + 1 for mark in marks) == len(
        whole
    )
    assert sum(cut.lines for cut in summary.cuts) + text.count(b"\n") - len(marks) == whole.count(b"\n")
    for index, cut in enumerate(summary.cuts):
        mark = marks[index]
        assert text[cut.at_byte :].startswith(mark)
        assert mark == b"[gpufleet.baseline: %d bytes, %d lines left out here]" % (cut.bytes, cut.lines)
    assert all(line.startswith(b"2026-") for line in text.splitlines() if line not in marks)


def test_t9_without_a_first_failure_head_and_tail_are_kept() -> None:
    data = long_log(0)
    text, summary = kept(of(data), SMALL)
    assert len(summary.cuts) == 1
    assert summary.last_time
    assert summary.bytes_kept == len(text)


def test_a_log_that_fits_is_kept_whole_and_its_finder_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(record("one\n"))

    def refuse(blocks: Iterator[bytes]) -> int | None:
        raise AssertionError("asked")

    _text, summary = kept(LogSource.of_files([str(path)], JSON_FILE), SMALL, find_first_failure=refuse)
    assert summary.cuts == []


def test_one_line_longer_than_all_limits_is_cut_within() -> None:
    text, summary = kept(of(b"x" * (12 << 20), PLAIN), SMALL)
    assert summary.cuts
    assert len(text) < 6 << 20
    assert summary.cuts[0].bytes + len(text.replace(b"[gpufleet", b"").partition(b"\n")[0]) > 0


def test_a_cut_goes_through_no_secret_of_several_lines() -> None:
    body = [f"MIIE{index:05d}canaryAbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefgh\n" for index in range(150)]
    pem = ["-----BEGIN RSA PRIVATE KEY-----\n", *body, "-----END RSA PRIVATE KEY-----\n"]
    data = b"".join(record(line) for line in pem) * 40
    _text, summary = kept(of(data), Limits(whole=200, head=50, tail=90, window=0))
    assert summary.cuts
    text, _summary = kept(of(data), Limits(whole=5000, head=1500, tail=1700, window=0))
    assert b"canary" not in text


def test_what_is_observed_is_what_is_kept() -> None:
    seen: list[bytes] = []
    text, _summary = kept(of(long_log(60_000)), SMALL, find_first_failure=find_traceback, observe=seen.append)
    assert b"".join(seen) == text


def test_t10_a_head_that_was_rotated_away_is_said_to_be_missing() -> None:
    data = record("one\n", second=30)
    _text, summary = kept(of(data), started_at="2026-08-09T09:00:00.5Z")
    assert summary.head_missing
    assert summary.head_missing_reason == (
        "the log begins at 2026-08-09T10:00:30.123456789Z, the container was started at 2026-08-09T09:00:00.5Z: "
        "3630 s are missing, rotated away or silent"
    )
    for started, rotates in (
        ("2026-08-09T10:00:29Z", None),
        ("2026-08-09T09:00:00Z", False),
        ("", None),
        ("soon", True),
    ):
        _text, summary = kept(of(data), started_at=started, rotates=rotates)
        assert not summary.head_missing


def test_times() -> None:
    _text, summary = kept(of(record("one\n", second=1) + record("two\n", second=59)))
    assert (summary.first_time, summary.last_time) == (TIME % 1, TIME % 59)
    assert seconds_of("2026-08-09T10:00:00.5+02:00") == seconds_of("2026-08-09T08:00:00.500000Z")
    assert seconds_of("2026-13-09T10:00:00Z") is None


class FullDisk(io.BytesIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self.tell() + len(data) > 1000:
            raise OSError(28, "No space left on device")
        return super().write(data)


def test_a_full_disk_is_told_and_stops_the_second_thread() -> None:
    before = threading.active_count()
    data = b"".join(
        record(f"{hashlib.sha256(str(index).encode()).hexdigest()}\n") for index in range(100_000)
    )
    with pytest.raises(OSError, match="No space left"):
        collect(of(data), FullDisk(), Redactor(KEY), Limits())
    assert threading.active_count() == before


def test_an_observer_that_fails_stops_the_second_thread() -> None:
    before = threading.active_count()

    def fail(block: bytes) -> None:
        raise KeyError("observer")

    with pytest.raises(KeyError):
        collect(of(record("one\n")), io.BytesIO(), Redactor(KEY), Limits(), observe=fail)
    assert threading.active_count() == before


def test_a_summary_is_plain_data() -> None:
    _text, summary = kept(of(long_log(0)), SMALL)
    assert json.loads(json.dumps(summary.as_dict()))["cuts"][0]["bytes"] == summary.cuts[0].bytes
    assert _container_log.Limits.of(100) == Limits(100, 25, 50, 12)
