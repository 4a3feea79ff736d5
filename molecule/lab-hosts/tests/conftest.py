# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the lab's hosts share: the running lab, put back into the healthy state for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node, state

# A container image made on the host from its own Python, without the driver's files.
IMAGE = "lab/python:latest"
MAKE_IMAGE = f"""
docker image inspect {IMAGE} >/dev/null 2>&1 && exit 0
cd /
set -- bin lib lib64 usr/lib64 usr/lib/$(uname -m)-linux-gnu usr/lib/python3* usr/bin/python3* etc/ld.so.conf*
set -- "$@" usr/bin/sh usr/bin/dash usr/bin/sleep usr/bin/ls usr/bin/cat usr/bin/true
tar -c --exclude='*nvidia*' --exclude='libcuda*' "$@" | docker import - {IMAGE} >/dev/null
"""


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The two hosts that the scenario started."""
    running = Lab.attach()
    assert [node.name for node in running.nodes] == ["n1", "n2"]
    return running


def heal(node: Node) -> None:
    """Healthy GPUs, no process that holds them, no containers, no full disk."""
    node.sh("docker ps -aq | xargs -r docker rm -f")
    node.sh("awk '$1 == \"lab-full\" {print $2}' /proc/mounts | xargs -r umount -l")
    if node.run(["cat", "/run/simulated-gpu/state"]).out != state.render(state.load("gb300", node.number)):
        node.set_state("gb300")


@pytest.fixture
def nodes(lab: Lab) -> Iterator[list[Node]]:
    """Both hosts, healthy before each test and after the last."""
    yield lab.nodes
    for node in lab.nodes:
        heal(node)


@pytest.fixture
def node(nodes: list[Node]) -> Node:
    """The first host."""
    return nodes[0]


@pytest.fixture
def image(node: Node) -> str:
    """A small image with Python on the first host."""
    node.sh(MAKE_IMAGE)
    return IMAGE
