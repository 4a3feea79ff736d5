# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM on the CPU serves on one node and on two, and the stand-in answers as it does.

Minutes on two cores; LAB_REAL=0 leaves it out.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node, image
from ansible_collections.gpufleet.baseline.tests.lab.docker_cli import DockerError, docker
from ansible_collections.gpufleet.baseline.tests.lab.engine import images, real, stand_in

RECORDED = Path(stand_in.__file__).parent / "recordings"
READY_WITHIN = 400
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}


class Rank:
    """One engine container on one node of the lab."""

    def __init__(self, node: Node, engine: real.RealEngine, *flags: str) -> None:
        self.node = node
        node.docker("rm", "--force", "engine", check=False)
        node.docker(*engine.container(images.REAL, "engine", flags))

    def state(self) -> str:
        return self.node.docker(
            "inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", "engine"
        ).out.strip()

    def log(self) -> str:
        """What vLLM's own logging wrote (its standard output)."""
        return self.node.docker("logs", "engine").out

    def ask(self, path: str, body: Any = None, timeout: float = 60) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        request = urllib.request.Request(f"http://{self.node.address}:8000{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, json.loads(text) if text[:1] == "{" else text

    def ready(self) -> None:
        for _second in range(READY_WITHIN):
            state = self.state()
            assert state.startswith("running"), f"the engine is {state}: {self.log()[-2000:]}"
            try:
                if self.ask("/health", timeout=5)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(1)
        pytest.fail(f"not ready within {READY_WITHIN} s: {self.log()[-2000:]}")


@pytest.fixture(scope="module")
def engine() -> real.RealEngine:
    try:
        return real.prepare()
    except real.RealEngineMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def nodes(engine: real.RealEngine) -> Iterator[list[Node]]:
    """Two hosts with the engine's image."""
    try:
        docker("info")
    except (DockerError, FileNotFoundError) as problem:
        pytest.skip(f"real vLLM: no Docker Engine for a lab on this machine: {str(problem).splitlines()[0]}")
    try:
        images.build_real()
    except image.ToolMissing as missing:
        pytest.skip(f"real vLLM: no lab on this machine: {missing}")
    lab = Lab.up(2, "h200", name=f"real-{os.getpid()}", mounts=engine.folders)
    try:
        for node in lab.nodes:
            node.load_image(images.REAL)
        yield lab.nodes
    finally:
        lab.down()


def shape(value: Any) -> Any:
    """The keys and types of a body, without its values."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def metric_names(text: str) -> set[str]:
    return set(re.findall(r"^(vllm:\w+)", text, re.M))


def messages(log: str) -> set[str]:
    """Source file and first word of each record: what makes two starts the same without their values."""
    return set(re.findall(r" INFO \S+ \S+ (\[\w+\.py):\d+\] ", log))


QUESTIONS: dict[str, tuple[str, Any, int]] = {
    "models": ("/v1/models", None, 200),
    "chat": ("/v1/chat/completions", CHAT, 200),
    "completion": ("/v1/completions", {"prompt": "Hello", "max_tokens": 4}, 200),
    "wrong_model": ("/v1/chat/completions", {**CHAT, "model": "nope"}, 404),
    "too_many_tokens": ("/v1/chat/completions", {**CHAT, "max_tokens": 5000}, 400),
    "prompt_too_long": ("/v1/completions", {"prompt": "word " * 800, "max_tokens": 8}, 400),
    "bad_json": ("/v1/chat/completions", b"{nope", 400),
    "no_messages": ("/v1/chat/completions", {"model": None}, 400),
    "not_found": ("/v1/nope", None, 404),
    "method_not_allowed": ("/v1/chat/completions", None, 405),
}


def test_a_model_that_cannot_be_made_is_a_fault_and_no_reason_to_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAB_REAL", raising=False)
    python = tmp_path / "vllm-cpu" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (tmp_path / "vllm-cpu" / ".complete").touch()
    python.write_text("#!/bin/sh\necho the tokenizer is broken >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(
        image.CannotBuild, match="could not make the tiny model on this machine: the tokenizer is broken"
    ):
        real.prepare(tmp_path)


def test_one_node_serves_and_the_recorded_bodies_and_metrics_are_still_its_own(
    nodes: list[Node], engine: real.RealEngine
) -> None:
    rank = Rank(nodes[0], engine, "--port", "8000")
    rank.ready()
    bodies = json.loads((RECORDED / "http.json").read_text("utf-8"))
    for name, (path, body, status) in QUESTIONS.items():
        got = rank.ask(path, body)
        assert (got[0], shape(got[1])) == (status, shape(bodies[name])), name

    # Blocks have 128 tokens on the CPU: the second of two equal prompts finds all that end before its last.
    prompt = {"prompt": "the answer of a tiny model " * 40, "max_tokens": 1}
    used = [rank.ask("/v1/completions", prompt)[1]["usage"]["prompt_tokens"] for _twice in range(2)]
    text = rank.ask("/metrics")[1]
    assert metric_names(text) == metric_names((RECORDED / "metrics.txt").read_text("utf-8"))
    hits = re.search(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", text, re.M)
    assert hits
    assert float(hits.group(1)) == (used[0] - 1) // 128 * 128 > 0

    start = b"".join(stand_in.Recording(RECORDED / "healthy-v032.log").start).decode()
    missing = messages(start) - messages(rank.log())
    assert missing <= {"[weight_utils.py"}, "only the record that names the file system may differ"
    rank.node.docker("stop", "--time", "60", "engine")
    assert rank.state() == "exited 0"
    assert "[shutdown] API server: shutdown triggered" in rank.log()


def test_two_nodes_serve_together_until_one_is_killed(nodes: list[Node], engine: real.RealEngine) -> None:
    master = nodes[0].address
    head = Rank(nodes[0], engine, "--load-format", "dummy", *real.rank_flags(0, 2, master))
    follower = Rank(nodes[1], engine, "--load-format", "dummy", *real.rank_flags(1, 2, master))
    head.ready()
    status, body = head.ask("/v1/chat/completions", CHAT)
    assert (status, body["usage"]["completion_tokens"]) == (200, 8)
    assert "world_size=2 rank=0" in head.log()
    assert "world_size=2 rank=1" in follower.log()

    follower.node.docker("kill", "engine")
    assert head.ask("/health")[0] == 200
    assert head.ask("/v1/chat/completions", CHAT)[0] == 500
    head.node.docker("wait", "engine")
    assert head.state() == "exited 0"
    assert follower.state() == "exited 137"
