# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in engine as a process: what it prints is recorded, what it answers has vLLM's shape."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab.engine import stand_in

PROGRAM = Path(stand_in.__file__).resolve()
RECORDINGS = {path.stem: path for path in sorted((PROGRAM.parent / "recordings").glob("*.log"))}
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Engine:
    """One `vllm serve` of the stand-in, its output in a file."""

    def __init__(self, folder: Path, *flags: str, model: str = "my/model", **settings: str) -> None:
        self.port = free_port()
        self.output = folder / f"{self.port}.log"
        env = {**os.environ, "LAB_TIME_FACTOR": "0", **settings}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), "serve", model, "--port", str(self.port), *flags],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
            )

    def log(self) -> bytes:
        return self.output.read_bytes()

    def until(self, what: Callable[[], bool]) -> None:
        for _try in range(600):
            if what():
                return
            time.sleep(0.05)
        pytest.fail(f"waited 30 s for the stand-in; its last lines: {self.log()[-600:]!r}")

    def ready(self) -> Engine:
        self.until(lambda: self.process.poll() is not None or self.ask("/health")[0] == 200)
        return self

    def ask(self, path: str, body: Any = None, timeout: float = 20) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read().decode()
                status = answer.status
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError:
            return 0, None
        return status, json.loads(text) if text[:1] == "{" else text

    def metric(self, line: str) -> float:
        found = re.search(rf"^vllm:{line} (\S+)$", self.ask("/metrics")[1], re.M)
        assert found, f"no metric vllm:{line}"
        return float(found.group(1))

    def exit_code(self) -> int:
        return self.process.wait(30)

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    started: list[Engine] = []

    def start(*flags: str, **settings: str) -> Engine:
        started.append(Engine(tmp_path, *flags, **settings))
        return started[-1]

    yield start
    for one in started:
        one.end()


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
    run.until(lambda: len(run.log().split(b"\n")) >= wanted.count(b"\n"))
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
    known = "source version nccl nccl-debug model port head host stage class part after end"
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


def test_the_processes_have_vllms_titles_and_end_with_it(engine: Callable[..., Engine]) -> None:
    run = engine("--tensor-parallel-size", "2").ready()
    pids = {int(pid) for pid in re.findall(r"\((?:EngineCore|Worker_TP\d) pid=(\d+)\)", run.log().decode())}
    titles = {Path(f"/proc/{pid}/cmdline").read_bytes().strip(b"\0") for pid in pids}
    assert titles == {b"VLLM::EngineCore", b"VLLM::Worker_TP0", b"VLLM::Worker_TP1"}
    names = {"VLLM::EngineCor", "VLLM::Worker_TP"}
    run.until(lambda: {Path(f"/proc/{pid}/comm").read_text("utf-8").strip() for pid in pids} == names)
    run.end()
    run.until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids))


def shape(value: Any) -> Any:
    """The keys and types of a body, without its values."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


RECORDED = json.loads((PROGRAM.parent / "recordings" / "http.json").read_text("utf-8"))
QUESTIONS: dict[str, tuple[str, Any, int]] = {
    "models": ("/v1/models", None, 200),
    "chat": ("/v1/chat/completions", CHAT, 200),
    "completion": ("/v1/completions", {"prompt": "Hello", "max_tokens": 4}, 200),
    "wrong_model": ("/v1/chat/completions", {**CHAT, "model": "nope"}, 404),
    "too_many_tokens": ("/v1/chat/completions", {**CHAT, "max_tokens": 5000}, 400),
    "prompt_too_long": ("/v1/completions", {"prompt": "word " * 3000}, 400),
    "bad_json": ("/v1/chat/completions", b"{nope", 400),
    "no_messages": ("/v1/chat/completions", {"model": "my/model"}, 400),
    "not_found": ("/v1/nope", None, 404),
    "method_not_allowed": ("/v1/chat/completions", None, 405),
}


def test_bodies_have_vllms_shape(engine: Callable[..., Engine]) -> None:
    run = engine("--max-model-len", "2048").ready()
    for name, (path, body, status) in QUESTIONS.items():
        got = run.ask(path, body)
        assert (got[0], shape(got[1])) == (status, shape(RECORDED[name])), name
    message = run.ask("/v1/completions", {"prompt": "word " * 3000})[1]["error"]["message"]
    assert message.startswith(
        "This model's maximum context length is 2048 tokens. However, your prompt contains"
    )


def test_an_answer_counts_its_tokens(engine: Callable[..., Engine]) -> None:
    run = engine().ready()
    _status, body = run.ask("/v1/chat/completions", CHAT)
    assert body["usage"]["completion_tokens"] == 8
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"].startswith("The capital of")
    _status, body = run.ask("/v1/chat/completions", {**CHAT, "max_tokens": 1000})
    assert body["choices"][0]["finish_reason"] == "stop"
    status, text = run.ask("/v1/chat/completions", {**CHAT, "stream": True})
    events = [json.loads(part[6:]) for part in text.split("\n\n") if part.startswith("data: {")]
    assert status == 200
    assert text.endswith("data: [DONE]\n\n")
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events).startswith(
        "The capital of"
    )


def test_the_prefix_cache_counts_shared_prefixes(engine: Callable[..., Engine]) -> None:
    run = engine().ready()
    shared, other = "one two three four five six seven. " * 20, "something else. " * 20
    given = [run.ask("/v1/completions", {"prompt": text})[1] for text in (shared + "a", shared + "b", other)]
    tokens = [body["usage"]["prompt_tokens"] for body in given]
    hits = run.metric(r"prefix_cache_hits_total\{.*\}")
    assert run.metric(r"prefix_cache_queries_total\{.*\}") == sum(tokens)
    assert hits == (tokens[0] - 1) // 16 * 16 > 0
    assert run.metric(r"prompt_tokens_total\{.*\}") == sum(tokens)
    assert run.metric(r'request_success_total\{.*finished_reason="length".*\}') == 3
    assert 'model_name="my/model"' in run.ask("/metrics")[1]


def test_without_prefix_caching_nothing_is_looked_up(engine: Callable[..., Engine]) -> None:
    run = engine("--no-enable-prefix-caching").ready()
    for _again in range(2):
        run.ask("/v1/completions", {"prompt": "one two three four five six seven. " * 20})
    assert run.metric(r"prefix_cache_queries_total\{.*\}") == 0


def test_wrong_content_is_one_token_repeated(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO="wrong-content").ready()
    status, body = run.ask("/v1/chat/completions", CHAT)
    assert (status, body["choices"][0]["message"]["content"]) == (200, "!" * 8)


def test_ready_but_never_answering(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO="never-answers").ready()
    assert run.ask("/v1/chat/completions", CHAT, timeout=1) == (0, None)
    assert run.ask("/health") == (200, "")
    assert run.metric(r"num_requests_running\{.*\}") == 1


@pytest.mark.parametrize("name", stand_in.HANGS)
def test_a_hang_stops_at_its_stage(name: str, engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO=name)
    marker = stand_in.HANGS[name]
    run.until(lambda: marker in run.log())
    assert run.log().rstrip(b"\n").rpartition(b"\n")[2].count(marker) == (1 if marker else 0) or not marker
    assert run.process.poll() is None
    assert run.ask("/health", timeout=1) == (0, None)


def test_a_start_can_fail_only_with_one_flag(engine: Callable[..., Engine]) -> None:
    rule = {"LAB_SCENARIO_IF": "--enable-prefix-caching engine-kv-no-memory; --max-num-seqs=9 weights-oom"}
    assert engine("--max-num-seqs", "8", **rule).ready().ask("/health") == (200, "")
    first = engine("--enable-prefix-caching", **rule)
    assert first.exit_code() == 1
    assert b"No available memory for the cache blocks" in first.log()
    second = engine("--max-num-seqs=9", **rule)
    assert second.exit_code() == 1
    assert b"CUDA out of memory" in second.log()


def test_a_port_in_use_is_found_before_the_engine_starts(engine: Callable[..., Engine]) -> None:
    first = engine().ready()
    second = engine("--port", str(first.port))
    assert second.exit_code() == 1
    assert second.log().rstrip().endswith(b"OSError: [Errno 98] Address already in use")
    assert b"EngineCore" not in second.log()


def test_death_while_serving(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO="runtime-illegal-memory", LAB_FAULT="requests:2").ready()
    assert run.ask("/v1/chat/completions", CHAT)[0] == 200
    status, body = run.ask("/v1/chat/completions", CHAT)
    assert (status, shape(body)) == (500, shape(RECORDED["engine_dead"]))
    assert run.exit_code() == 1
    assert b"an illegal memory access was encountered" in run.log()
    assert b'"POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error' in run.log()


def test_a_fault_that_needs_two_requests_at_once(engine: Callable[..., Engine]) -> None:
    run = engine(
        LAB_SCENARIO="runtime-illegal-memory", LAB_FAULT="parallel:2", LAB_TOKEN_SECONDS="0.3"
    ).ready()
    assert run.ask("/v1/chat/completions", CHAT)[0] == 200
    body = json.dumps(CHAT).encode()
    with socket.create_connection(("127.0.0.1", run.port)) as other:
        other.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        run.until(lambda: run.metric(r"num_requests_running\{.*\}") == 1)
        assert run.ask("/v1/chat/completions", CHAT)[0] == 500
    assert run.exit_code() == 1


def test_an_ordered_stop_prints_the_recorded_end(engine: Callable[..., Engine]) -> None:
    run = engine().ready()
    run.process.terminate()
    assert run.exit_code() == 0
    assert b"[shutdown] API server: shutdown triggered" in run.log()


def test_many_bytes_of_log(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_LOG_BYTES="3000000").ready()
    run.until(lambda: run.output.stat().st_size > 3_000_000)
    tail = run.log()[-3000:].splitlines()[1:-1]
    assert all(b"HTTP/1.1" in line or b"throughput" in line for line in tail)


def test_a_killed_process_of_the_engine_ends_it_with_exit_code_0(engine: Callable[..., Engine]) -> None:
    run = engine().ready()
    found = re.search(r"\(EngineCore pid=(\d+)\)", run.log().decode())
    assert found
    os.kill(int(found.group(1)), signal.SIGKILL)
    assert run.exit_code() == 0
    assert b"MPClient: engine core exited unexpectedly" in run.log()


def test_a_stop_during_the_start_is_not_heard(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO="slow-weights", LAB_TIME_FACTOR="0.02", LAB_SHARDS="20")
    run.until(lambda: b"Completed | 2/20 [00:04<00:36,  2.00s/it]" in run.log())
    run.process.terminate()
    assert run.ready().ask("/health") == (200, "")
    assert run.log().count(b"Loading safetensors checkpoint shards") == 21


def two_nodes(engine: Callable[..., Engine], world: int = 2, **settings: str) -> tuple[Engine, Engine]:
    flags = ["-tp", str(world), "--nnodes", "2", "--master-addr", "127.0.0.1"]
    flags += ["--master-port", str(free_port())]
    head = engine(*flags, "--node-rank", "0", **settings)
    return head, engine(*flags, "--node-rank", "1", "--headless", **settings)


@pytest.mark.parametrize("scenario", ["healthy", "healthy-v032"])
def test_two_nodes_serve_together(scenario: str, engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO=scenario)
    head.ready()
    assert head.ask("/v1/chat/completions", CHAT)[0] == 200
    assert follower.process.poll() is None
    assert b"headless multiproc executor, with head node address 127.0.0.1:" in follower.log()
    assert b"APIServer" not in follower.log()
    follower.process.terminate()
    assert follower.exit_code() == 0


def test_every_rank_of_a_wider_launch_speaks(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, world=8)
    head.ready()
    for run, ranks in ((head, range(4)), (follower, range(4, 8))):
        log = run.log().decode()
        met = re.findall(r"pid=(\d+)\) .*world_size=(\d+) rank=(\d+) local_rank=(\d+)", log)
        assert [(int(world), int(rank), int(local)) for _pid, world, rank, local in met] == [
            (8, rank, rank - ranks[0]) for rank in ranks
        ]
        assert len({pid for pid, *_rest in met}) == 4
        assert {int(rank) for rank in re.findall(r"\(Worker_TP(\d) pid=", log)} == set(ranks)


def test_a_head_waits_for_the_absent_node(engine: Callable[..., Engine]) -> None:
    head = engine("-tp", "2", "--nnodes", "2", "--master-port", str(free_port()), "--node-rank", "0")
    head.until(lambda: b"rank=0" in head.log())
    assert head.ask("/health", timeout=1) == (0, None)
    assert head.process.poll() is None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_nccl_does_not_notice_that_a_follower_is_gone(
    how: signal.Signals, engine: Callable[..., Engine]
) -> None:
    head, follower = two_nodes(engine, LAB_TIME_FACTOR="0.005", VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS="1")
    head.ready()
    follower.process.send_signal(how)
    assert head.ask("/health") == (200, "")
    assert head.ask("/v1/chat/completions", CHAT)[0] == 500
    assert head.exit_code() == 0
    assert head.log().count(b"No available shared memory broadcast block found in 60 seconds") > 1
    assert b"TimeoutError: RPC call to sample_tokens timed out." in head.log()


def test_gloo_notices_that_a_follower_is_gone(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO="healthy-v032")
    head.ready()
    follower.process.kill()
    follower.process.wait()
    assert head.ask("/health") == (200, "")
    assert head.ask("/v1/chat/completions", CHAT)[0] == 500
    assert head.exit_code() == 0
    assert b"Connection closed by peer" in head.log()


def test_a_follower_stays_and_complains_when_the_head_is_gone(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine)
    head.ready()
    head.process.kill()
    follower.until(lambda: b"recvValue failed" in follower.log())
    assert follower.process.poll() is None


def test_a_follower_on_gloo_speaks_of_it_only_when_it_computed(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO="healthy-v032")
    head.ready()
    follower.process.send_signal(signal.SIGSTOP)
    assert head.ask("/v1/chat/completions", CHAT, timeout=1) == (0, None)
    head.process.kill()
    head.process.wait()
    follower.process.send_signal(signal.SIGCONT)
    follower.until(lambda: b"Connection closed by peer" in follower.log())
    assert follower.process.poll() is None


def test_an_unknown_scenario_names_the_known_ones(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO="nope")
    assert run.exit_code() == 1
    assert b"no recording for scenario 'nope'" in run.log()
    assert b"weights-truncated-shard" in run.log()


def test_it_runs_on_the_oldest_python_of_a_host() -> None:
    ast.parse(PROGRAM.read_text("utf-8"), feature_version=(3, 9))
