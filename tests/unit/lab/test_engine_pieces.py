# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pieces of the stand-in engine that can be tested without a process."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.tests.lab.engine import stand_in
from hypothesis import given
from hypothesis import strategies as st

STAMPS = [
    (b"INFO 11-30 20:35:01 [core.py:1] x", b"INFO 02-03 04:05:06 [core.py:1] x"),
    (b"[2026-11-30 20:44:36] gpu-b:1:1 [0] NCCL WARN x", b"[2026-02-03 04:05:06] gpu-b:1:1 [0] NCCL WARN x"),
    (b"2026-09-02 11:57:03,500 - INFO - x", b"2026-02-03 04:05:06,007 - INFO - x"),
    (b"[W1130 20:36:52.395866973 socket.cpp:207] x", b"[W203 04:05:06.007000000 socket.cpp:207] x"),
    (b"[rank3]:[E728 20:01:16.000000457 a.cpp:1] x", b"[rank3]:[E203 04:05:06.007000000 a.cpp:1] x"),
]


@pytest.mark.parametrize(("recorded", "printed"), STAMPS)
def test_every_form_of_a_time_becomes_now(recorded: bytes, printed: bytes) -> None:
    now = datetime(2026, 2, 3, 4, 5, 6, 7000)
    assert stand_in.STAMP.sub(lambda found: stand_in.stamp_like(found, now), recorded) == printed


@given(st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)), st.sampled_from(STAMPS))
def test_a_printed_time_reads_back(now: datetime, pair: tuple[bytes, bytes]) -> None:
    line = stand_in.STAMP.sub(lambda found: stand_in.stamp_like(found, now), pair[0])
    found = stand_in.STAMP.search(line)
    assert found
    seconds = stand_in.recorded_seconds(found.group())
    assert 0 <= (now - datetime(2026, 1, 1)).total_seconds() + 86400 - seconds < 1


def launch(text: str) -> stand_in.Launch:
    return stand_in.Launch(text.split())


def test_flags_in_all_their_forms() -> None:
    one = launch(
        "my/model --max-model-len 4096 -tp 2 --gpu-memory-utilization=0.9 "
        "--no-enable-prefix-caching --headless"
    )
    assert one.model == "my/model"
    assert one.flags == {
        "max_model_len": 4096,
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.9,
        "enable_prefix_caching": False,
        "headless": True,
    }
    assert launch("other --served-model-name short alias --port 1").served == "short"
    dotted = launch("m -cc.mode=none --attention-config.backend FLASH_ATTN --max_model_len auto").flags
    assert dotted == {
        "compilation_config.mode": "none",
        "attention_config.backend": "FLASH_ATTN",
        "max_model_len": "auto",
    }


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("m --enforce-eager", []),
        ("m --enable-prefix-cacheing", ["--enable-prefix-cacheing"]),
        ("m --nope value --port 1", ["--nope", "value"]),
        ("m --no-headless", ["--no-headless"]),
        ("m another", ["another"]),
    ],
)
def test_unknown_words_of_a_launch(text: str, unknown: list[str]) -> None:
    assert launch(text).unknown == unknown


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("--enforce-eager", True),
        ("--max-num-seqs=8", True),
        ("--max-num-seqs=9", False),
        ("--enable-prefix-caching", False),
        ("NCCL_IB_DISABLE=1", True),
        ("NCCL_IB_DISABLE=0", False),
        ("NCCL_SOCKET_IFNAME", False),
    ],
)
def test_conditions(condition: str, holds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_IB_DISABLE", "1")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME", raising=False)
    one = launch("m --enforce-eager --max-num-seqs 8 --no-enable-prefix-caching")
    assert one.has(condition) is holds


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_a_replay_keeps_the_recorded_distances(
    factor: float, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    clock = [100.0]
    monkeypatch.setenv("LAB_TIME_FACTOR", str(factor))
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    log = stand_in.Log(launch("m"), [])
    log.replay([b"INFO 11-30 20:34:39 [a.py:1] a\n", b"no time\n", b"INFO 11-30 20:35:41 [a.py:1] b\n"])
    assert clock[0] - 100.0 == pytest.approx(62 * factor)
    assert capfdbinary.readouterr().err == b"no time\n"


def test_a_recording_is_cut_where_the_server_is_ready(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = [b"one\r\n", b"\rbar 10%\rbar 100%\n", b"INFO:     Application startup complete.\n"]
    rest = [b'INFO:     127.0.0.1:5 - "GET /health HTTP/1.1" 200 OK\n', b"the end\n"]
    path.write_bytes(b"#| end: exit 3\n#| source: a: b\n" + b"".join(lines + rest))
    got = stand_in.Recording(path)
    assert (got.start, got.serving, got.after) == (lines, rest[:1], rest[1:])
    assert (got.end, got.header["source"], got.serves) == ("exit 3", "a: b", True)


@given(st.text(max_size=300))
def test_tokens_are_the_text(text: str) -> None:
    assert "".join(stand_in.tokens_of(text)).split() == text.split()
