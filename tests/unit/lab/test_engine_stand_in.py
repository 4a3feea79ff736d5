# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in engine answers in vLLM's shape, counts, and fails where and when it is told to."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.lab._engine import (
    CHAT,
    PROGRAM,
    Engine,
)


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


def test_a_start_can_fail_only_with_one_flag(engine: Callable[..., Engine]) -> None:
    rule = {"LAB_SCENARIO_IF": "--enable-prefix-caching engine-kv-no-memory; --max-num-seqs=9 weights-oom"}
    assert engine("--max-num-seqs", "8", **rule).ready().ask("/health") == (200, "")
    first = engine("--enable-prefix-caching", **rule)
    assert first.exit_code() == 1
    assert b"No available memory for the cache blocks" in first.log()
    second = engine("--max-num-seqs=9", **rule)
    assert second.exit_code() == 1
    assert b"CUDA out of memory" in second.log()


def test_a_flag_that_vllm_does_not_know(engine: Callable[..., Engine]) -> None:
    run = engine("--enable-prefix-cashing")
    assert run.exit_code() == 2
    assert run.log().rstrip().endswith(b"error: unrecognized arguments: --enable-prefix-cashing")


def seen_gpus(folder: Path, *lines: str) -> dict[str, str]:
    """The environment of a machine whose nvidia-smi says so much of total and free memory."""
    smi = folder / "nvidia-smi"
    smi.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    smi.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        ([], "RuntimeError: No CUDA GPUs are available"),
        (["143771, 143155"], "World size (2) is larger than the number of available GPUs (1) in this node"),
        (
            ["143771, 143155", "143771, 81920"],
            "Free memory on device cuda:1 (80.00/140.4 GiB) on startup is less than desired GPU memory",
        ),
    ],
)
def test_a_launch_needs_its_gpus(
    memory: list[str], says: str, tmp_path: Path, engine: Callable[..., Engine]
) -> None:
    run = engine("-tp", "2", **seen_gpus(tmp_path, *memory))
    assert run.exit_code() == 1
    assert says in run.log().decode()


def test_a_launch_that_has_its_gpus(tmp_path: Path, engine: Callable[..., Engine]) -> None:
    run = engine("-tp", "2", **seen_gpus(tmp_path, *["143771, 143155"] * 2)).ready()
    assert run.ask("/health") == (200, "")


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


def test_an_unknown_scenario_names_the_known_ones(engine: Callable[..., Engine]) -> None:
    run = engine(LAB_SCENARIO="nope")
    assert run.exit_code() == 1
    assert b"no recording for scenario 'nope'" in run.log()
    assert b"weights-truncated-shard" in run.log()
