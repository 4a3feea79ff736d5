# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every ready-made state of the lab gives its rule and its host."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Node, state

# Runs the gate; see conftest.py.
Gate = Callable[..., Any]

# state: hardware of the boundary, verdict of the whole, and what must be found: rule, verdict, host.
EXPECTED: dict[str, tuple[str, str, set[tuple[str, str, str]]]] = {
    "gb300": ("gb300", "warn", set()),
    "b300": ("b300", "warn", set()),
    "container-without-devices": (
        "gb300",
        "warn",
        set(),
    ),  # nothing is wrong until a container asks: see below
    "h200": ("h200", "fail", {("gpu.count", "fail", "n1"), ("gpu.memory", "fail", "")}),
    "driver-575": ("gb300", "fail", {("driver.branch", "fail", "n1"), ("driver.cuda", "fail", "n1")}),
    "driver-upgraded": ("gb300", "fail", {("driver.agreement", "fail", "n1"), ("gpu.lost", "fail", "n1")}),
    "gpu-lost": (
        "gb300",
        "fail",
        {("gpu.lost", "fail", "n1"), ("gpu.count", "fail", "n1"), ("gpu.xid", "fail", "n1")},
    ),
    "seven-of-eight": ("b300", "fail", {("gpu.lost", "fail", "n1")}),
    "fabric-not-completed": ("gb300", "fail", {("fabric.state", "fail", "n2")}),
    "clique-apart": ("gb300", "fail", {("fabric.domain", "fail", "n2")}),
    "cluster-apart": ("gb300", "fail", {("fabric.domain", "fail", "n2")}),
    "mig-on": ("h200", "fail", {("gpu.mig", "fail", "n1")}),
    "foreign-process": ("gb300", "fail", {("gpu.holders", "fail", "n1")}),
    "orphan": ("gb300", "fail", {("gpu.holders", "fail", "n1")}),
    "nvml-hangs": ("gb300", "fail", {("gpu.lost", "undecided", "n1"), ("gpu.model", "undecided", "n1")}),
    "xid": (
        "gb300",
        "fail",
        {("gpu.remap", "fail", "n1"), ("gpu.recovery", "fail", "n1"), ("gpu.xid", "warn", "n1")},
    ),
    "no-gpu": ("gb300", "fail", {("gpu.model", "fail", "n1"), ("gpu.count", "fail", "n1")}),
}


def test_every_state_has_an_expectation() -> None:
    assert set(EXPECTED) == set(state.names())


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_state(nodes: list[Node], gate: Gate, name: str) -> None:
    hardware, verdict, found = EXPECTED[name]
    for node in nodes:
        node.set_state(name)
    judged = gate(gate_hardware=hardware)
    assert judged.gate["verdict"] == verdict, judged.output
    assert (judged.code == 0) == (verdict in ("pass", "warn"))
    assert found <= judged.bad()
    if not found:
        assert judged.bad() == set()


def test_a_run_of_the_gate_is_whole(nodes: list[Node], gate: Gate) -> None:
    judged = gate()
    run = judged.reproduction / "run-001"
    assert judged.code == 0, judged.output
    names = {path.name for path in run.iterdir()}
    assert {"run.json", "gate.json", "gate.xml", "gate.txt", "report.html", "facts", "SHA256SUMS"} <= names
    assert {path.name for path in (run / "facts").iterdir()} == {"n1.json", "n2.json"}
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=run, check=True)
    assert ElementTree.parse(run / "gate.xml").getroot().tag == "testsuites"
    table = (run / "gate.txt").read_text()
    assert max(len(line) for line in table.splitlines() if "/" not in line) <= 100
    assert "Gate run-001: PASS with warnings" in judged.output


def test_a_run_of_the_gate_can_be_judged_again_offline(nodes: list[Node], gate: Gate) -> None:
    live = gate()
    again = gate("-i", "localhost,", gate_run=str(live.reproduction / "run-001"))
    assert again.code == 0, again.output
    assert (again.reproduction / "run-002" / "gate.json").is_file()
    assert again.gate["judged"].endswith("run-001")
    assert set(again.gate["hosts"]) == {"n1", "n2"}


# A container image made on the host from its own files, without the driver's.
IMAGE = "lab/engine:latest"
MAKE_IMAGE = f"""
docker image inspect {IMAGE} >/dev/null 2>&1 && exit 0
cd / && tar -c --exclude='*nvidia*' --exclude='libcuda*' bin lib lib64 usr/lib64 usr/lib/$(uname -m)-linux-gnu \\
  usr/bin/sh usr/bin/dash usr/bin/sleep usr/bin/python3* usr/lib/python3* | docker import - {IMAGE} >/dev/null
"""


def test_t34_a_container_without_devices(nodes: list[Node], gate: Gate) -> None:
    """The host has its GPUs, the container that asked for all of them has none."""
    nodes[1].set_state("container-without-devices")
    for node in nodes:
        node.sh(MAKE_IMAGE)
        node.docker(
            "run", "-d", "--name", "engine", "--gpus", "all", "--network", "host", IMAGE, "sleep", "900"
        )
    judged = gate()
    assert ("container.devices", "fail", "n2") in judged.bad(), judged.output
    assert ("container.devices", "fail", "n1") not in judged.bad()
    failed = [
        finding["reason"]
        for finding in judged.gate["findings"]
        if finding["rule"] == "container.devices" and finding["verdict"] == "fail"
    ]
    assert "the host is not broken" in failed[0]


def test_probes_that_start_something_are_recorded_and_leave_nothing(nodes: list[Node], gate: Gate) -> None:
    for node in nodes:
        node.sh(MAKE_IMAGE)
    before = [node.docker("ps", "-aq").out for node in nodes]
    judged = gate(gate_probe_container=True, gate_probe_cuda=True, gate_probe_image=IMAGE)
    assert [item["what"] for item in judged.gate["exceptions"]] == ["container"] * 4, judged.output
    assert all(item["removed"] for item in judged.gate["exceptions"])
    assert [node.docker("ps", "-aq").out for node in nodes] == before
    seen = [item for item in judged.gate["findings"] if item["rule"] == "probe.container"]
    assert [(item["verdict"], item["hosts"]) for item in seen] == [("pass", ["n1", "n2"])]


def test_a_probe_is_refused_on_a_gpu_that_is_held(nodes: list[Node], gate: Gate) -> None:
    nodes[0].set_state("foreign-process")
    judged = gate(gate_probe_cuda=True)
    assert ("probe.cuda", "undecided", "n1") in judged.bad()
    assert {item["host"] for item in judged.gate["exceptions"]} == {"n2"}


def test_t30_cuda_of_the_image_is_judged_before_there_is_a_container(nodes: list[Node], gate: Gate) -> None:
    """The model's image was pulled, nothing was created from it yet: its own variables tell the CUDA in it."""
    name = "vllm/vllm-openai:kimi-k3"
    nodes[1].sh(f"tar -c -T /dev/null | docker import --change 'ENV CUDA_VERSION=14.0.0' - {name}")
    try:
        judged = gate()
    finally:
        nodes[1].sh(f"docker rmi {name}")
    assert judged.code != 0
    assert ("image.cuda", "fail", "n2") in judged.bad(), judged.output
    assert not [item for item in judged.bad() if item[0] == "image.cuda" and item[2] == "n1"]
