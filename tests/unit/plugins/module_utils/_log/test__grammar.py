# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import (
    LogClock,
    parse_text,
    show,
    yearless,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import Line, parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import Judge, LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._lines import MAX_LINE, LineSplitter
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._markers import find_marker, progress_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._wrappers import Unwrapper
from hypothesis import given, settings
from hypothesis import strategies as st


def lines_of(*texts: str, kind: str = "auto") -> list[Line]:
    unwrapper, clock, found = Unwrapper(kind), LogClock(), []
    for number, text in enumerate(texts, 1):
        for unwrapped in unwrapper.feed(number, text.encode()):
            found += parse(unwrapped, clock)
    return found


def at(month: int, day: int, hour: int, minute: int, second: float) -> float:
    value = yearless(month, day, hour, minute, second)
    assert value is not None
    return value


PLAIN = "(Worker_TP2 pid=99) ERROR 04-09 20:31:10 [multiproc_executor.py:949] WorkerProc hit an exception."

COLOURED = (
    "\x1b[0;36m(Worker_TP2 pid=99)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m04-09 20:31:10\x1b[0m "
    "\x1b[90m[multiproc_executor.py:949]\x1b[0m WorkerProc hit an exception."
)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        PLAIN + "\r",
        "(APIServer pid=1) " + PLAIN,
        "my prefix " + PLAIN,
        COLOURED,
        "2026-04-09T20:31:10.123456789Z " + PLAIN,
        "2026-04-09T20:31:10.123456789Z stderr F " + PLAIN,
        "2026-04-09T20:31:10.123456789+00:00 stdout F " + PLAIN,
        "2026-04-09T20:31:10.123456789Z stderr " + PLAIN,
        "Apr 09 20:31:10 tray-a docker[812]: " + PLAIN,
        "2026-04-09T20:31:10+0000 tray-a vllm[812]: " + PLAIN,
        "vllm-1  | " + PLAIN,
        "[pod/vllm-0/server] " + PLAIN,
        json.dumps({"log": PLAIN + "\n", "stream": "stderr", "time": "2026-04-09T20:31:10.1Z"}),
        PLAIN.replace("multiproc_executor.py", "v1/executor/multiproc_executor.py"),
    ],
)
def test_a_record_in_every_wrapping(text: str) -> None:
    line = lines_of(text)[-1]
    assert (line.kind, line.process, line.pid, line.level) == ("record", "Worker_TP2", 99, "ERROR")
    assert line.message == "WorkerProc hit an exception."
    assert line.source == "multiproc_executor.py:949"
    assert line.own == at(4, 9, 20, 31, 10)


@pytest.mark.parametrize(
    ("text", "process", "pid"),
    [
        ("(VllmWorker TP1 pid=7) INFO 07-21 19:05:00 [a.py:1] x", "VllmWorker_TP1", 7),
        ("(VllmWorker rank=1 pid=7) INFO 07-21 19:05:00 [a.py:1] x", "VllmWorker", 7),
        ("(EngineCore_0 pid=7) INFO 07-21 19:05:00 [a.py:1] x", "EngineCore_0", 7),
        ("INFO 07-21 19:05:00 [__init__.py:241] x", "", None),
        (
            "\x1b[36m(RayWorkerWrapper pid=4512, ip=10.50.10.20)\x1b[0m INFO 07-21 19:05:00 [a.py:1] x",
            "RayWorkerWrapper",
            4512,
        ),
        ("(RustFrontend pid=9) WARNING <unknown time> [lib.rs:3] x", "RustFrontend", 9),
        (
            '{"asctime": "2026-11-25 08:00:23,000", "levelname": "INFO", "processName": "VllmWorker-1", "process": 341, "message": "x"}',
            "VllmWorker-1",
            341,
        ),
    ],
)
def test_process_names_of_all_versions(text: str, process: str, pid: int | None) -> None:
    line = lines_of(text)[0]
    assert (line.process, line.pid, line.message) == (process, pid, "x")


def test_nccl_with_and_without_a_date() -> None:
    old, new = lines_of(
        "node4:27:29 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401",
        "[2026-11-30 20:44:36] gpu-b:14:15 [0] bootstrap.cc:114 NCCL WARN Bootstrap : no socket interface found",
    )
    assert (old.kind, old.level, old.pid, old.local_rank, old.own) == ("nccl", "WARNING", 27, 1, None)
    assert (new.source, new.host, new.own) == ("bootstrap.cc:114", "gpu-b", at(11, 30, 20, 44, 36))


@pytest.mark.parametrize(
    ("digits", "month", "day"),
    [("W111", 1, 11), ("W810", 8, 10), ("W129", 1, 29), ("E1209", 12, 9), ("W1224", 12, 24)],
)
def test_c10d_dates_without_leading_zero(digits: str, month: int, day: int) -> None:
    line = lines_of(f"[rank3]:[{digits} 08:50:36.247935068 TCPStore.cpp:125] [c10d] recvValue failed")[0]
    assert (line.kind, line.rank) == ("c10d", 3)
    assert line.own == pytest.approx(at(month, day, 8, 50, 36.247935068))


def test_ray_and_python_logging_with_a_full_date() -> None:
    ray, tuner = lines_of(
        "(APIServer pid=5000) 2026-06-07 10:00:09,114\tINFO worker.py:1821 -- Connecting to existing Ray cluster",
        "2026-09-02 11:57:03,500 - INFO - autotuner.py:829 - flashinfer.jit: [Autotuner]: Autotuning process starts ...",
    )
    assert (ray.level, ray.own) == ("INFO", pytest.approx(at(6, 7, 10, 0, 9.114)))
    assert (tuner.level, tuner.own) == ("INFO", pytest.approx(at(9, 2, 11, 57, 3.5)))


def test_split_entries_are_joined_per_stream() -> None:
    entries = [
        {
            "log": "(Worker pid=1) INFO 04-30 08:00:09 [a.py:1] begin",
            "stream": "stderr",
            "time": "2026-04-30T08:00:09Z",
        },
        {"log": "other\n", "stream": "stdout", "time": "2026-04-30T08:00:09Z"},
        {"log": " end\n", "stream": "stderr", "time": "2026-04-30T08:00:09Z"},
    ]
    found = lines_of(*map(json.dumps, entries))
    assert [(line.number, line.message) for line in found] == [(2, "other"), (1, "begin end")]
    cri = lines_of("2026-04-30T08:00:09Z stderr P one ", "2026-04-30T08:00:09Z stderr F two")
    assert [(line.number, line.message) for line in cri] == [(1, "one two")]


def test_an_entry_cut_off_in_the_middle_is_still_read() -> None:
    line = lines_of('{"log":"(Worker pid=1) ERROR 04-30 08:00:09 [a.py:1] no \\"space\\" le')[0]
    assert (line.process, line.message) == ("Worker", 'no "space" le')


def test_a_traceback_in_a_json_record_keeps_one_line_number() -> None:
    entry = {
        "asctime": "2026-11-25 08:00:23,000",
        "levelname": "ERROR",
        "name": "vllm.x",
        "processName": "EngineCore",
        "process": 2,
        "message": "m",
        "exc_info": "Traceback (most recent call last):\n  File x\nOSError: y",
    }
    found = lines_of("", json.dumps(entry))[1:]
    assert [line.message for line in found] == [
        "m",
        "Traceback (most recent call last):",
        "  File x",
        "OSError: y",
    ]
    assert {line.number for line in found} == {2}


def test_redrawn_bars_and_what_begins_behind_them() -> None:
    bars = "\r".join(
        f"Capturing CUDA graphs (PIECEWISE): {done}%|##| {done}/100 [00:03<00:01]" for done in range(40)
    )
    found = lines_of("(Worker_TP0 pid=9) " + bars + "Traceback (most recent call last):")
    assert found[-1].message == "Traceback (most recent call last):"
    assert {(line.process, line.number) for line in found} == {("Worker_TP0", 1)}
    assert len(found) < 8
    marker = find_marker(found[-2].message)
    assert marker is not None
    assert progress_of(marker[1]) == "39/100"


def test_kernel_lines_of_dmesg_and_journal() -> None:
    texts = (
        "[  512.901234] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "[Thu Aug 27 14:03:47 2026] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "Aug 27 14:03:47 h kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
        "2026-08-27T14:03:47.8+00:00 h kernel: [  512.901234] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.",
    )
    for kind in ("auto", "kernel"):
        found = lines_of(*texts, kind=kind)
        assert [line.kind for line in found] == ["kernel"] * 4
        assert {line.message.partition(" (")[0] for line in found} == {"NVRM: Xid"}
        assert [line.outer is None for line in found] == [True, False, False, False]


def test_a_december_and_the_january_after_it() -> None:
    old, new = lines_of("INFO 12-31 23:59:59 [a.py:1] x", "INFO 01-01 00:00:01 [a.py:1] x")
    assert old.own is not None
    assert new.own is not None
    assert new.own - old.own == pytest.approx(2)
    assert show(new.own, 2026) == "2027-01-01 00:00:01"


@pytest.mark.parametrize("text", ["", "yesterday", "0001-01-01T00:00:00Z", "2026-02-31T00:00:00Z"])
def test_what_is_no_time(text: str) -> None:
    assert parse_text(text)[0] is None


@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 17))
def test_lines_are_counted_by_line_feed_whatever_the_pieces(parts: list[bytes], size: int) -> None:
    text = b"\n".join(parts)
    splitter, found = LineSplitter(), []
    for start in range(0, len(text), size):
        found += splitter.feed(text[start : start + size])
    whole = text.split(b"\n")
    assert [line for _number, line in found] == whole[:-1]
    assert splitter.pending == whole[-1]
    assert [number for number, _line in found] == list(range(1, len(whole)))


def test_a_very_long_line_keeps_head_and_tail_whatever_the_pieces() -> None:
    text = b"head" + b"x" * (3 * MAX_LINE) + b"tail\n"
    results = set()
    for size in (1 << 16, 1 << 20, len(text)):
        splitter = LineSplitter()
        found = [
            line
            for start in range(0, len(text), size)
            for _n, line in splitter.feed(text[start : start + size])
        ]
        assert len(found) == 1
        assert len(found[0]) < MAX_LINE + 100
        results.add(found[0])
    assert len(results) == 1
    kept = results.pop()
    assert kept.startswith(b"head")
    assert kept.endswith(b"tail")


_WORDS = st.sampled_from(
    [
        PLAIN, "Traceback (most recent call last):", '  File "/x/y.py", line 3, in load_model', "ValueError: x", "", "\r", "\x1b[31m", '{"log":"', '"}',
        "(EngineCore pid=80) ", "(APIServer pid=1) ERROR 02-30 25:61:61 [a.py:1] x", "The above exception was the direct cause of the following exception:",
        "[2026-13-45 99:99:99] h:1:1 [0] NCCL WARN x", "[rank1]:[W999 08:50:36.2 a.cpp:1] x", "usage: vllm", "docker: Error response from daemon: x",
        "2026-08-09T10:00:00.1Z stderr P ", "INFO:     Application startup complete.", "vLLM server version 0.27.1, serving model m",
        "[shutdown] API server: shutdown triggered",
        "Loading safetensors checkpoint shards:  40% Completed | 2/5 [00:24<01:10, 2.91s/it]",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9e99 GiB.",
        "NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=VLLM", "non-default args: {'a': ", "world_size=99999999 rank=3 local_rank=0 ", "\x00\ud800\uffff",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(_WORDS | st.text(max_size=20), max_size=4).map("".join), max_size=25),
    st.sampled_from(["auto", "vllm", "docker_json", "kernel"]),
    st.sampled_from([b"\n", b"\r\n", b""]),
)
def test_no_text_breaks_the_reader(lines: list[str], kind: str, ending: bytes) -> None:
    text = ending.join(line.encode("utf-8", "surrogatepass") for line in lines)
    judge = Judge([LogSource("a", kind=kind), LogSource("b", node=1, kind=kind)])
    judge.feed(0, text)
    middle = judge.verdict()
    judge.end(0)
    judge.feed(1, text[::-1])
    judge.end(1)
    json.dumps([middle, judge.verdict()])


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=2000),
    st.dictionaries(
        st.sampled_from(["Status", "Running", "ExitCode", "OOMKilled", "Error", "StartedAt"]),
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    ),
)
def test_no_bytes_and_no_state_break_the_reader(text: bytes, state: dict[str, object]) -> None:
    judge = Judge([LogSource("a")], state)
    judge.feed(0, text)
    judge.end(0)
    assert judge.verdict()["confidence"] in ("low", "medium", "high")
