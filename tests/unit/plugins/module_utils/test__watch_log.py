# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Following a log: every byte once, through any number of looks, a rotation, and lines that are not whole."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from io import BytesIO

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _watch_log
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    MULTIPLEXED,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import LogOrigin, rotated
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_log import follow, newer, whole_bytes
from hypothesis import given
from hypothesis import strategies as st

KEY = b"-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n"


def entry(message: str, second: int = 0, stream: str = "stdout") -> bytes:
    time = "2026-12-01T01:00:%02d.123456789Z" % second
    return (
        json.dumps({"log": message, "stream": stream, "time": time}, separators=(",", ":")).encode() + b"\n"
    )


def told(origin, final=True, limit=_watch_log.LIMIT):
    """Everything that repeated looks give."""
    cursor, text = {}, b""
    for _count in range(200):
        gain = follow(origin, cursor, final, limit)
        text += gain.text
        if gain.cursor == cursor and not gain.more:
            return text
        cursor = json.loads(json.dumps(gain.cursor))
    raise AssertionError("the looks come to no end")


def test_a_growing_file(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthr")
    origin = LogOrigin.of_file(str(path))
    first = follow(origin, {}, False)
    assert (first.text, first.unfinished, first.more, first.size) == (b"one\ntwo\n", b"thr", False, 11)
    with open(path, "ab") as stream:
        stream.write(b"ee\nfour")
    second = follow(origin, first.cursor, False)
    assert second.text == b"three\n"
    assert follow(origin, second.cursor, True).text == b"four"


@given(st.binary(max_size=200), st.integers(1, 40))
def test_no_byte_is_lost_or_told_twice(tmp_path_factory, content, limit):
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(content)
    assert told(LogOrigin.of_file(str(path)), limit=limit) == content


def test_a_json_file_waits_for_the_end_of_a_message_of_several_pieces(tmp_path):
    path = tmp_path / "x-json.log"
    path.write_bytes(entry("whole\n") + entry("first half "))
    origin = LogOrigin(JSON_FILE, (str(path),))
    first = follow(origin, {}, False)
    assert first.text == b"2026-12-01T01:00:00.123456789Z stdout whole\n"
    with open(path, "ab") as stream:
        stream.write(entry("second half\n"))
    assert follow(origin, first.cursor, False).text.endswith(b" stdout first half second half\n")


def test_a_rotation_between_two_looks(tmp_path):
    path = tmp_path / "x-json.log"
    path.write_bytes(entry("one\n"))
    first = follow(LogOrigin(JSON_FILE, tuple(rotated(str(path)))), {}, False)
    with open(path, "ab") as stream:
        stream.write(entry("two\n"))
    os.rename(path, tmp_path / "x-json.log.1")
    path.write_bytes(entry("three\n"))
    origin = LogOrigin(JSON_FILE, tuple(rotated(str(path))))
    second = follow(origin, first.cursor, False)
    assert (second.text[-5:], second.more) == (b" two\n", True)
    third = follow(origin, second.cursor, False)
    assert (third.text[-7:], third.more, third.gap) == (b" three\n", False, "")


def test_a_file_that_is_gone_is_a_gap(tmp_path):
    path = tmp_path / "x-json.log"
    path.write_bytes(entry("one\n"))
    gain = follow(LogOrigin(JSON_FILE, (str(path),)), {"inode": 1, "offset": 700}, False)
    assert gain.text.endswith(b"one\n")
    assert "lines may be missing" in gain.gap


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"new\n")
    place = {"inode": path.stat().st_ino, "offset": 700}
    gain = follow(LogOrigin.of_file(str(path)), place, False)
    assert gain.text == b"new\n"
    assert "cut" in gain.gap


def test_a_private_key_is_taken_whole(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"before\n" + KEY)
    origin = LogOrigin.of_file(str(path))
    first = follow(origin, {}, False)
    assert first.text == b"before\n"
    with open(path, "ab") as stream:
        stream.write(b"-----END RSA PRIVATE KEY-----\nafter\n")
    assert follow(origin, first.cursor, False).text == KEY + b"-----END RSA PRIVATE KEY-----\nafter\n"


def test_what_only_begins_like_a_key_is_not_held_back_for_ever():
    text = KEY + b"x\n" * 40000
    assert whole_bytes(text, "plain") == len(text)


class EngineOf:
    """Stands for the Engine's log of one container, with its whole seconds."""

    def __init__(self, lines):
        self.lines = lines
        self.asked = []

    def __call__(self, _socket, _timeout):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    @contextmanager
    def log_stream(self, _identifier, since=0):
        self.asked.append(since)
        payloads = [line for second, line in self.lines if second >= since % 60]
        frames = b"".join(b"\1\0\0\0" + len(line).to_bytes(4, "big") + line for line in payloads)
        yield BytesIO(frames)


def test_the_engines_log_goes_on_behind_the_last_line(monkeypatch):
    stamp = "2026-12-01T01:00:%02d.%sZ %s\n"
    lines = [(n // 2, (stamp % (n // 2, "5" if n % 2 else "25", "line %d" % n)).encode()) for n in range(20)]
    # The Engine leaves out zeros at the end: .25 is before .5
    engine = EngineOf(lines[:7])
    monkeypatch.setattr(_watch_log, "Engine", engine)
    origin = LogOrigin(MULTIPLEXED, (), "/run/docker.sock", "c")
    first = follow(origin, {}, False)
    engine.lines = lines
    second = follow(origin, first.cursor, False)
    found = [line.rsplit(b" ", 1)[1] for line in (first.text + second.text).splitlines()]
    assert found == [b"%d" % n for n in range(20)]
    assert engine.asked[0] == 0
    assert engine.asked[1] > 0


@pytest.mark.parametrize("limit", [40, 90, 1000])
def test_the_engines_log_in_many_looks(monkeypatch, limit):
    lines = [(n, b"2026-12-01T01:00:%02d.000000001Z line %d\n" % (n, n)) for n in range(12)]
    monkeypatch.setattr(_watch_log, "Engine", EngineOf(lines))
    monkeypatch.setattr(_watch_log, "_BLOCK", 64)
    text = told(LogOrigin(MULTIPLEXED, (), "/run/docker.sock", "c"), final=False, limit=limit)
    assert [line.rsplit(b" ", 1)[1] for line in text.splitlines()] == [b"%d" % n for n in range(12)]


def test_only_later_lines_are_new():
    text = b"2026-12-01T01:00:00.1Z a\n2026-12-01T01:00:00.12Z b\n2026-12-01T01:00:00.13Z c\n"
    assert newer(text, "2026-12-01T01:00:00.12Z") == b"2026-12-01T01:00:00.13Z c\n"
    assert newer(text, "") == text
