# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fed in pieces, read fast, wrapped in megabytes of serving: the answer stays the same."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _reader
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import (
    Judge,
    LogSource,
    judge_files,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._reader import LogReader

from . import worked

CASES = worked.load()
pytestmark = pytest.mark.skipif(not CASES, reason=worked.MISSING)
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

STATISTICS = (
    b"(APIServer pid=1) INFO 08-09 10:20:30 [loggers.py:271] Engine 000: Avg prompt throughput: 33.5 tokens/s, "
    b"Avg generation throughput: 34.7 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 41.0%\n"
)
SERVED = (
    b'(APIServer pid=1) INFO:     10.20.0.5:52144 - "POST /v1/completions HTTP/1.1" 200 OK\n',
    STATISTICS,
)


def _plain(verdict: dict) -> str:
    return json.dumps(verdict, sort_keys=True)


@each
@pytest.mark.parametrize("size", [5, 4096])
def test_pieces_of_any_size_give_the_same_verdict(case: worked.Case, size: int) -> None:
    judge = Judge(case.sources, case.state)
    for index, text in enumerate(case.texts):
        for start in range(0, len(text), size):
            judge.feed(index, text[start : start + size])
        judge.end(index)
    assert _plain(judge.verdict()) == _plain(case.judge())


@each
def test_a_verdict_in_between_disturbs_nothing(case: worked.Case) -> None:
    judge = Judge(case.sources, case.state)
    for index, text in enumerate(case.texts):
        for start in range(0, len(text), 2000):
            judge.feed(index, text[start : start + 2000])
            assert judge.verdict()["outcome"] in ("ready", "failed", "hung", "stopped", "running", "unknown")
        judge.end(index)
    assert _plain(judge.verdict()) == _plain(case.judge())


def _brief(verdict: dict) -> tuple:
    return tuple(
        verdict[name]
        for name in ("outcome", "stage", "substage", "failure_class", "path", "line", "exception_line")
    )


@each
def test_fast_reading_equals_full_reading(case: worked.Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same log read with skipping from its first line on, in small pieces, and without any skipping."""
    full = case.judge()
    monkeypatch.setattr(_reader, "PIECE", 2048)
    monkeypatch.setattr(_reader, "TALK", 0)
    monkeypatch.setattr(_reader, "_KEPT", 0)
    monkeypatch.setattr(LogReader.__init__, "__defaults__", ("auto", None, 2048, 0))
    fast = case.judge()
    if full["failure_class"] in ("hang", "none"):
        assert fast["failure_class"] == full["failure_class"]
        assert (fast["outcome"], fast["stage"]) == (full["outcome"], full["stage"])
    else:
        assert _brief(fast) == _brief(full)


def _with_serving(text: bytes, mebibytes: int) -> tuple[bytes, int]:
    """The log with much serving after the first answered request, and the number of lines put in."""
    place = text.find(b'HTTP/1.1" 200')
    place = text.find(b"\n", place) + 1
    block = b"".join(SERVED)
    times = mebibytes * 1024 * 1024 // len(block)
    return text[:place] + block * times + text[place:], 2 * times


@pytest.mark.parametrize(
    "name",
    [
        "32-runtime-k3-illegal-memory-huge-line",
        "33-runtime-xid31-kernel-log",
        "34-runtime-request-too-long-400",
    ],
)
def test_a_failure_after_much_serving_is_found_at_its_line(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    texts, added = list(case.texts), 0
    for index, source in enumerate(case.sources):
        if source.kind != "kernel":
            texts[index], added = _with_serving(case.texts[index], 3)
    before, after = case.judge(), case.judge(texts)
    assert after["line"] == before["line"] + added
    assert (after["failure_class"], after["stage"], after["outcome"]) == (
        before["failure_class"],
        before["stage"],
        before["outcome"],
    )
    assert after["logs"][-1]["lines"] == before["logs"][-1]["lines"] + added


def test_serving_is_skipped_and_not_parsed() -> None:
    ready = b"(APIServer pid=1) INFO:     Application startup complete.\n"
    reader = LogReader()
    reader.feed(ready)
    for _block in range(24):
        reader.feed(b"".join(SERVED) * 2000)
    seen = reader.result().run.lines
    assert reader.lines == 1 + 24 * 4000
    assert seen < reader.lines / 2


def test_files_plain_and_packed(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name.startswith("29-"))
    plain, packed = tmp_path / "log.txt", tmp_path / "log.gz"
    plain.write_bytes(case.texts[0])
    packed.write_bytes(gzip.compress(case.texts[0]))
    one = judge_files([LogSource(str(plain))])
    other = judge_files([LogSource(str(packed))])
    assert one["line"] == other["line"] == 36
    assert other["path"] == str(packed)


def test_newest_first_is_read_from_its_end() -> None:
    case = next(case for case in CASES if case.name.startswith("14-"))
    lines = case.texts[0].rstrip(b"\n").split(b"\n")
    verdict = case.judge([b"\n".join(reversed(lines))])
    assert verdict["failure_class"] == "checkpoint-corrupt"
    assert verdict["line"] == len(lines) + 1 - 24
    assert verdict["confidence"] == "medium"
    assert verdict["logs"][0]["newest_first"] is True


@pytest.mark.parametrize("coding", ["utf-16", "utf-8-sig"])
def test_pastes_saved_with_a_byte_order_mark(coding: str) -> None:
    case = next(case for case in CASES if case.name.startswith("27-"))
    verdict = case.judge([case.texts[0].decode().encode(coding)])
    assert (verdict["failure_class"], verdict["line"]) == ("kv-cache-no-memory", 24)


def test_a_line_of_megabytes_costs_no_memory() -> None:
    case = next(case for case in CASES if case.name.startswith("32-"))
    huge = (
        b"(EngineCore pid=270) ERROR 07-28 20:01:16 [dump_input.py:79] Dumping scheduler output for model: "
        + b"1, " * 3000000
    )
    lines = case.texts[0].split(b"\n")
    lines[42] = huge
    verdict = case.judge([b"\n".join(lines)])
    assert (verdict["failure_class"], verdict["line"]) == ("cuda-illegal-memory-access", 33)
