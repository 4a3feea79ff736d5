# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kept log of a container: T9, T10, and what can be wrong with its source, its target and its time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import threading
from pathlib import Path
from typing import Iterator

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _container_log
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log import (
    Limits,
    collect,
    learn,
    seconds_of,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    PLAIN,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_source import LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.tests.unit.plugins.module_utils._stored_logs import (
    KEY,
    TIME,
    VALUE,
    decoded,
    kept,
    of,
    of_known_size,
    record,
)


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


def test_t9_a_small_limit_is_kept_to() -> None:
    small = Limits(whole=400_000, head=100_000, tail=100_000, window=100_000)
    text, summary = kept(of(long_log(60_000)), small, find_first_failure=find_traceback)
    assert b"ValueError: the first one" in text
    assert len(summary.cuts) == 2
    assert len(text) < 400_000


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
    assert len(summary.cuts) == 1
    runs = [len(run) for run in re.findall(rb"x{100,}", text)]
    assert summary.cuts[0].bytes + sum(runs) == 12 << 20


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
