# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM on the CPU serves on one node and on two, and the stand-in answers as it does.

Minutes on two cores; LAB_REAL=0 leaves it out.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab.docker_cli import DockerError, docker
from ansible_collections.gpufleet.baseline.tests.lab.engine import images, real, stand_in

RECORDED = Path(stand_in.__file__).parent / "recordings"
READY_WITHIN = 400
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}


class Fleet:
    """Engine containers with an address each on a network of their own."""

    def __init__(self, engine: real.RealEngine) -> None:
        self.engine = engine
        self.name = f"gpufleet-lab-real-{uuid.uuid4().hex[:6]}"
        self.containers: list[str] = []
        docker("network", "create", self.name)

    def start(self, name: str, *flags: str) -> str:
        container = f"{self.name}-{name}"
        self.containers.append(container)
        options = ["--network", self.name, "--hostname", container]
        docker(*self.engine.container(images.REAL, container, options, flags))
        return container

    def address(self, container: str) -> str:
        form = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return docker("inspect", "-f", form, container).strip()

    def state(self, container: str) -> str:
        return docker("inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", container).strip()

    def log(self, container: str) -> str:
        """What vLLM's own logging wrote (its standard output)."""
        return docker("logs", container)

    def ask(self, container: str, path: str, body: Any = None, timeout: float = 60) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        url = f"http://{self.address(container)}:8000{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data, headers), timeout=timeout
            ) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        return status, json.loads(text) if text[:1] == "{" else text

    def ready(self, container: str) -> None:
        for _second in range(READY_WITHIN):
            state = self.state(container)
            assert state.startswith("running"), f"{container} is {state}: {self.log(container)[-2000:]}"
            try:
                if self.ask(container, "/health", timeout=5)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(1)
        pytest.fail(f"not ready within {READY_WITHIN} s: {self.log(container)[-2000:]}")

    def down(self) -> None:
        if self.containers:
            docker("rm", "--force", "--volumes", *self.containers)
        docker("network", "rm", self.name)


@pytest.fixture(scope="module")
def engine() -> real.RealEngine:
    try:
        found = real.prepare()
    except real.RealEngineMissingError as missing:
        pytest.skip(str(missing))
    if not shutil.which("docker"):
        pytest.skip("real vLLM: no docker client on this machine")
    try:
        docker("version")
    except DockerError as problem:
        pytest.skip(f"real vLLM: no Docker Engine answers: {problem}")
    images.build_real()
    return found


@pytest.fixture
def fleet(engine: real.RealEngine) -> Iterator[Fleet]:
    started = Fleet(engine)
    yield started
    started.down()


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


def test_one_node_serves_and_the_recorded_bodies_and_metrics_are_still_its_own(fleet: Fleet) -> None:
    container = fleet.start("one", "--port", "8000")
    fleet.ready(container)
    bodies = json.loads((RECORDED / "http.json").read_text("utf-8"))
    for name, (path, body, status) in QUESTIONS.items():
        got = fleet.ask(container, path, body)
        assert (got[0], shape(got[1])) == (status, shape(bodies[name])), name

    # Blocks have 128 tokens on the CPU: the second of two equal prompts finds all that end before its last.
    prompt = {"prompt": "the answer of a tiny model " * 40, "max_tokens": 1}
    used = [
        fleet.ask(container, "/v1/completions", prompt)[1]["usage"]["prompt_tokens"] for _twice in range(2)
    ]
    text = fleet.ask(container, "/metrics")[1]
    assert metric_names(text) == metric_names((RECORDED / "metrics.txt").read_text("utf-8"))
    hits = re.search(r"^vllm:prefix_cache_hits_total\{.*\} (\S+)$", text, re.M)
    assert hits
    assert float(hits.group(1)) == (used[0] - 1) // 128 * 128 > 0

    start = b"".join(stand_in.Recording(RECORDED / "healthy-v032.log").start).decode()
    missing = messages(start) - messages(fleet.log(container))
    assert missing <= {"[weight_utils.py"}, "only the record that names the file system may differ"
    docker("stop", "--time", "60", container)
    assert fleet.state(container) == "exited 0"
    assert "[shutdown] API server: shutdown triggered" in fleet.log(container)


def test_two_nodes_serve_together_until_one_is_killed(fleet: Fleet) -> None:
    head = f"{fleet.name}-head"
    fleet.start("head", "--load-format", "dummy", *real.rank_flags(0, 2, head))
    follower = fleet.start("follower", "--load-format", "dummy", *real.rank_flags(1, 2, head))
    fleet.ready(head)
    status, body = fleet.ask(head, "/v1/chat/completions", CHAT)
    assert (status, body["usage"]["completion_tokens"]) == (200, 8)
    assert "world_size=2 rank=0" in fleet.log(head)
    assert "world_size=2 rank=1" in fleet.log(follower)

    docker("kill", follower)
    assert fleet.ask(head, "/health")[0] == 200
    assert fleet.ask(head, "/v1/chat/completions", CHAT)[0] == 500
    docker("wait", head)
    assert fleet.state(head) == "exited 0"
    assert fleet.state(follower) == "exited 137"
