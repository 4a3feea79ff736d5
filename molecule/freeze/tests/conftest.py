# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of a freeze share: the running lab, and one freeze with everything that came of it."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node
from ansible_collections.gpufleet.baseline.tests.lab.engine import images

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
PROJECT = Path(__file__).resolve().parents[3]
# nvidia-smi that ignores SIGTERM and keeps the pipe open through a child, after having printed something.
HUNG_SMI = """#!/bin/sh
trap '' TERM
echo 'half an answer'
sleep 1000 &
sleep 1000
"""


class Record:
    """One sealed record, unpacked in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, bytes] = {}
        with tarfile.open(path) as archive:
            for info in archive:
                stream = archive.extractfile(info)
                assert stream is not None
                content = stream.read()
                self.files[info.name] = gzip.decompress(content) if info.name.endswith(".gz") else content

    def text(self, name: str) -> str:
        return self.files[name].decode()

    def json(self, name: str) -> Any:
        return json.loads(self.files[name])

    @cached_property
    def manifest(self) -> Any:
        return self.json("manifest.json")

    @cached_property
    def facts(self) -> Any:
        return self.json("facts.json")

    def outcome(self, probe: str) -> str:
        return str(self.manifest["probes"][probe]["outcome"])

    def container(self, name: str) -> Any:
        return next(item for item in self.facts["engine"]["containers"] if item["name"] == name)

    def verdict(self, name: str) -> Any:
        entries = self.json("first-failure.json")["engines"].values()
        return next(entry for entry in entries if entry["name"] == name)

    @property
    def everything(self) -> bytes:
        """All content and all names, for the search for what must not be there."""
        return b"\n".join(name.encode() + b"\n" + content for name, content in self.files.items())


@dataclass
class Frozen:
    """One run of the playbook."""

    code: int
    output: str
    reproduction: Path

    @property
    def run(self) -> Path:
        return sorted(self.reproduction.glob("run-*"))[-1]

    @property
    def document(self) -> Any:
        return json.loads((self.run / "run.json").read_text())

    def record(self, host: str = "n1") -> Record:
        return Record(self.run / "hosts" / f"{host}.tar.gz")

    @property
    def screen(self) -> list[str]:
        """The screen at the end, without the blank lines round it."""
        lines = self.output.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("Freeze run-"))
        last = max(
            number for number, line in enumerate(lines) if line.startswith(("Run  ", "Summary  ", "Verify  "))
        )
        return lines[first : last + 1]


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The two hosts that the scenario started."""
    running = Lab.attach()
    assert [node.name for node in running.nodes] == ["n1", "n2"]
    return running


@pytest.fixture(scope="session")
def stand_in(lab: Lab) -> str:
    """The stand-in engine's image on both hosts."""
    images.build_stand_in()
    for node in lab.nodes:
        node.load_image(images.STAND_IN)
    return images.STAND_IN


def heal(node: Node) -> None:
    """No containers, no plain engines, healthy GPUs."""
    node.sh("docker ps -aq | xargs -r docker rm -f")
    node.sh("awk '$1 == \"lab-full\" {print $2}' /proc/mounts | xargs -r umount -l")
    # A host that was cut off or rebooted keeps these until a freeze a day later.
    node.sh("rm -rf /var/tmp/.gpufleet-freeze.* /tmp/.gpufleet-freeze.* /dev/shm/.gpufleet-freeze.*")
    node.sh("rm -rf /dev/shm/ansible-tmp-* /dev/shm/ansible_*")
    node.set_state("gb300")


@pytest.fixture
def nodes(lab: Lab) -> Iterator[list[Node]]:
    """Both hosts, healthy again after the test."""
    yield lab.nodes
    for node in lab.nodes:
        heal(node)


@pytest.fixture
def node(nodes: list[Node]) -> Node:
    """The first host."""
    return nodes[0]


def command(lab: Lab, *arguments: str) -> list[str]:
    """The playbook over the lab."""
    # A connection of its own each time: a shared one to a paused or cut host never ends.
    options = ["-i", str(lab.inventory), "-e", "ansible_ssh_args=-oControlMaster=no"]
    return [PLAYBOOK, str(PROJECT / "playbooks" / "freeze.yml"), *options, *arguments]


@pytest.fixture
def freeze(lab: Lab, tmp_path: Path) -> Callable[..., Frozen]:
    """Runs the playbook; the reproduction is one for all freezes of a test."""

    def run(*arguments: str) -> Frozen:
        options = ["-e", json.dumps({"freeze_reproduction": str(tmp_path / "repro")}), *arguments]
        done = subprocess.run(
            command(lab, *options),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=tmp_path,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        )
        return Frozen(done.returncode, done.stdout + done.stderr, tmp_path / "repro")

    return run


def variables(**values: Any) -> list[str]:
    """Role variables for the command line."""
    return ["-e", json.dumps(values)]


def docker_diff(node: Node) -> set[str]:
    """What of the host's own file system differs from its image."""
    done = subprocess.run(["docker", "diff", node.container], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


def tar_of(files: dict[str, bytes]) -> bytes:
    """A tar stream of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def left_on(node: Node) -> list[str]:
    places = "/tmp /var/tmp /dev/shm /root /home/ops /root/.ansible"
    return node.sh(
        f"find {places} -name '*gpufleet*' -o -name 'ansible-tmp*' -o -name '.ansible'", check=False
    ).out.split()
