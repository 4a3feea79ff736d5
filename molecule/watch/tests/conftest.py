# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the watch share: the running lab, engines in its containers, and one watch with what came of it."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node
from ansible_collections.gpufleet.baseline.tests.lab.controller import Controller
from ansible_collections.gpufleet.baseline.tests.lab.engine import images

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
PROJECT = Path(__file__).resolve().parents[3]
NAME = "watched"
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - gpufleet.baseline.run_dir:
        reproduction: "{{ reproduction }}"
        kind: watch
      register: opened
      run_once: true
      delegate_to: localhost
    - ansible.builtin.copy:
        content: "{{ {'ranks': launched} | to_json }}"
        dest: "{{ opened.path }}/launch.json"
        mode: "0600"
      run_once: true
      delegate_to: localhost
    - gpufleet.baseline.launch_watch:
        ranks: "{{ handles[inventory_hostname] }}"
        run: "{{ opened.path }}"
        deadline: "{{ deadline }}"
        stage_limits: "{{ limits }}"
        unreachable_seconds: 10
        linger_seconds: 20
      register: watched
    - ansible.builtin.copy:
        content: "{{ watched | to_json }}"
        dest: "{{ opened.path }}/{{ inventory_hostname }}.json"
        mode: "0600"
      delegate_to: localhost
"""


@dataclass
class Engine:
    """One started container, as the module launch would describe it."""

    node: Node
    rank: int
    identifier: str
    port: int | None = 8000

    @property
    def handle(self) -> dict[str, Any]:
        return {"rank": self.rank, "engine": "docker", "container": {"id": self.identifier, "name": NAME}}

    @property
    def launched(self) -> dict[str, Any]:
        return {"host": self.node.name, "node_rank": self.rank, "api_port": self.port, "container": {}}

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.node.docker("inspect", self.identifier).out)[0]["State"]
        return found


@dataclass
class Watched:
    """One watch, running or over."""

    controller: Controller
    run: Path
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def finish(self, seconds: float = 240) -> Watched:
        self.controller.process.wait(seconds)
        for path in self.run.glob("n*.json"):
            self.results[path.stem] = json.loads(path.read_text())
        return self

    @property
    def output(self) -> str:
        return self.controller.output

    def events(self, host: str, rank: int) -> list[dict[str, Any]]:
        path = self.run / "watch" / f"{host}-{rank}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def log(self, host: str, rank: int) -> str:
        return gzip.decompress((self.run / "logs" / f"{host}-{rank}.log.gz").read_bytes()).decode()


Start = Callable[..., Engine]
Watch = Callable[..., Watched]


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The two hosts that the scenario started, with the stand-in's image."""
    running = Lab.attach()
    assert [node.name for node in running.nodes] == ["n1", "n2"]
    images.build_stand_in()
    for node in running.nodes:
        node.load_image(images.STAND_IN)
    return running


@pytest.fixture
def nodes(lab: Lab) -> Iterator[list[Node]]:
    """Both hosts without containers before and after the test."""
    for node in lab.nodes:
        node.sh("docker ps -aq | xargs -r docker rm -f")
    yield lab.nodes
    for node in lab.nodes:
        node.sh("docker ps -aq | xargs -r docker rm -f")


@pytest.fixture
def start(nodes: list[Node]) -> Start:
    """Start an engine: a scenario of the stand-in, or a Python program in its place."""

    def run(
        node: Node, scenario: str = "healthy", *flags: str, rank: int = 0, program: str = "",
        port: int | None = 8000, env: dict[str, str] | None = None,
    ) -> Engine:  # fmt: skip
        variables = {"LAB_SCENARIO": scenario, **(env or {})}
        words = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
        options = ["run", "-d", "--name", NAME, "--network", "host", "--gpus", "all", *words]
        if program:
            argv = [*options, "--entrypoint", "python3", images.STAND_IN, "-u", "-c", program]
        else:
            argv = [*options, images.STAND_IN, "my/model", "--port", "8000", *flags]
        return Engine(node, rank, node.docker(*argv).out.strip(), port)

    return run


@pytest.fixture
def watch(lab: Lab, tmp_path: Path) -> Iterator[Watch]:
    """Begin to watch engines; ``finish`` waits for the end of the play."""
    controllers: list[Controller] = []

    def begin(*engines: Engine, deadline: float = 200, **limits: float) -> Watched:
        play = tmp_path / "watch.yml"
        play.write_text(PLAY)
        handles: dict[str, list[dict[str, Any]]] = {}
        for engine in engines:
            handles.setdefault(engine.node.name, []).append(engine.handle)
        given = {
            "reproduction": str(tmp_path / "repro"), "handles": handles, "deadline": deadline, "limits": limits,
            "launched": [engine.launched for engine in engines],
        }  # fmt: skip
        command = [PLAYBOOK, str(play), "-i", str(lab.inventory.parent), "-l", ",".join(handles)]
        env = {
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOST_KEY_CHECKING": "False",
            "ANSIBLE_COLLECTIONS_PATH": str(PROJECT / ".cache" / "tree"),
            "PATH": os.environ["PATH"],
        }
        controller = Controller([*command, "-e", json.dumps(given)], cwd=tmp_path, env=env)
        controllers.append(controller)
        return Watched(controller, tmp_path / "repro" / "run-001")

    yield begin
    for controller in controllers:
        controller.__exit__(None, None, None)
