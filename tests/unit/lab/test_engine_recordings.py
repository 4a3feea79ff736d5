# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-in engine prints stands in a recording."""

from __future__ import annotations

import ast
import re
import socket
from collections.abc import Callable

import pytest
from ansible_collections.gpufleet.baseline.tests.lab.engine import stand_in
from ansible_collections.gpufleet.baseline.tests.unit.lab._engine import (
    PROGRAM,
    RECORDINGS,
    Engine,
)


def masked(line: bytes) -> bytes:
    """A line without what a replay must change."""
    line = stand_in.STAMP.sub(b"TIME", line)
    line = stand_in.PID.sub(rb"\1PID", line)
    line = re.sub(rb"non-default args: \{.*\}", b"ARGS", line)
    return re.sub(rb"http://0\.0\.0\.0:\d+", b"URL", line)


def expected(recording: stand_in.Recording) -> list[bytes]:
    model = recording.header.get("model", "").encode() or b"\0"
    host = recording.header.get("host", "").encode() or b"\0"
    lines = (line.replace(model, b"my/model") for line in recording.start)
    return [masked(line.replace(host, socket.gethostname().encode())) for line in lines]


@pytest.mark.parametrize("name", [name for name in RECORDINGS if ".node" not in name])
def test_a_replay_is_the_recording(name: str, engine: Callable[..., Engine]) -> None:
    recording = stand_in.Recording(RECORDINGS[name])
    run = engine(LAB_SCENARIO=name, NCCL_DEBUG="INFO")
    if recording.header.get("part") == "tail":
        recording.start = stand_in.Recording(RECORDINGS["healthy"]).start
    wanted = b"".join(expected(recording))
    run.until(lambda: run.log().count(b"\n") >= wanted.count(b"\n"))
    got = b"".join(masked(line + b"\n") for line in run.log().split(b"\n"))
    assert got[: len(wanted)] == wanted
    kind, _space, code = recording.end.partition(" ")
    if recording.serves:
        assert run.ready().ask("/health") == (200, "")
    elif kind == "exit":
        assert run.exit_code() == int(code)
    else:
        assert run.process.poll() is None


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_says_what_it_is(name: str) -> None:
    header = stand_in.Recording(RECORDINGS[name]).header
    known = "source version nccl nccl-debug model port head host flag world gpus free wanted stage class part after end"
    assert set(header) <= set(known.split())
    assert header["source"].startswith(("real start", "composed in the message formats"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", header["version"])
    assert header["stage"] in {"none", "container", "devices", "weights", "engine", "api", "runtime"}
    assert re.fullmatch(r"serve|hang|exit \d+", header["end"])
    assert not re.search(rb"/(work|root/\.pyenv)/", RECORDINGS[name].read_bytes())


def test_what_must_differ_is_put_in(engine: Callable[..., Engine]) -> None:
    run = engine("--max-model-len", "4096", "--kv-cache-dtype", "fp8", "--no-enable-prefix-caching").ready()
    log = run.log().decode()
    assert f"(APIServer pid={run.process.pid})" in log
    assert f"Started server process [{run.process.pid}]" in log
    assert f"Starting vLLM server on http://0.0.0.0:{run.port}" in log
    assert "Using max model len 4096" in log
    args = ast.literal_eval(re.findall(r"non-default args: (\{.*\})", log)[0])
    wanted = {
        "model": "my/model",
        "max_model_len": 4096,
        "kv_cache_dtype": "fp8",
        "enable_prefix_caching": False,
    }
    assert wanted.items() <= args.items()
    config = re.findall(r"LLM engine \(v.*\) with config: .*", log)[0]
    for part in (
        "model='my/model'",
        "kv_cache_dtype=fp8,",
        "enable_prefix_caching=False,",
        "max_seq_len=4096,",
    ):
        assert part in config


@pytest.mark.parametrize("name", stand_in.HANGS)
def test_a_hang_stops_at_its_stage(name: str, engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO=name)
    marker = stand_in.HANGS[name]
    run.until(lambda: marker in run.log())
    assert run.log().rstrip(b"\n").rpartition(b"\n")[2].count(marker) == (1 if marker else 0) or not marker
    assert run.process.poll() is None
    assert run.ask("/health", timeout=1) == (0, None)


def test_it_runs_on_the_oldest_python_of_a_host() -> None:
    ast.parse(PROGRAM.read_text("utf-8"), feature_version=(3, 9))
