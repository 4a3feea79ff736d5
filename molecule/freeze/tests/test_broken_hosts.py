# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts that are broken, and a controller that is killed: each costs its own piece and no other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for
from conftest import HUNG_SMI, Frozen, Record, docker_diff, left_on, variables

Freeze = Callable[..., Frozen]

# What a login and the system's own bookkeeping may leave: last logins, the message of the day.
BOOKKEEPING = {"/var/log/wtmp", "/var/log/lastlog", "/var/log/btmp", "/run/motd.dynamic", "/run/utmp"}
PARENTS = {"/run", "/var", "/var/log"}


def test_two_healthy_hosts_and_nothing_left_on_them(nodes: list[Node], freeze: Freeze) -> None:
    """T8, T15, T17: all of it works on a host that has Python only, and docker diff shows bookkeeping at most."""
    before = [docker_diff(node) for node in nodes]
    for login in ([], ["-u", "ops", "-b", *variables(ansible_user="ops")]):
        result = freeze(*login)
        assert result.code == 0, result.output
        for node, known in zip(nodes, before, strict=True):
            new = {line.split(" ", 1)[1] for line in docker_diff(node) - known}
            assert new - BOOKKEEPING - PARENTS == set()
            assert left_on(node) == []
        assert all(
            len(line) <= 100
            for line in result.screen
            if not line.startswith(("Run", "Summary", "Next", "Verify"))
        )
        assert len(result.screen) <= 25
        record = result.record("n2")
        assert "4 x NVIDIA GB300" in record.facts["gpu"]["summary"]
        assert record.json("before-after.json")["differences"]["containers"] == {
            "added": [],
            "changed": [],
            "removed": [],
        }
    checked = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=result.run, check=False)
    assert checked.returncode == 0


def test_without_root_what_only_root_may_read_is_denied(node: Node, freeze: Freeze) -> None:
    result = freeze("-l", "n1", *variables(ansible_user="ops"))
    assert result.code == 0, result.output
    record = result.record()
    assert record.outcome("kernel.dmesg") == "denied"
    assert "4 x NVIDIA GB300" in record.facts["gpu"]["summary"]
    assert left_on(node) == []


def test_t7_an_unreachable_host_makes_the_run_partial(lab: Lab, nodes: list[Node], freeze: Freeze) -> None:
    nodes[1].cut()
    try:
        result = freeze()
    finally:
        nodes[1].heal()
    assert result.code != 0
    assert result.document["state"] == "partial"
    assert result.document["hosts"]["n1"]["state"] == "frozen"
    assert result.document["hosts"]["n2"]["state"] == "unreachable"
    assert result.document["hosts"]["n2"]["reason"]
    assert "1 of 2 hosts frozen (partial)" in result.output
    assert not (result.run / "hosts" / "n2.tar.gz").exists()


def test_t2_t3_t4_a_hung_nvidia_smi_costs_its_deadline_once(node: Node, freeze: Freeze) -> None:
    node.put("/usr/local/bin/nvidia-smi", HUNG_SMI, mode=0o755)
    try:
        result = freeze("-l", "n1", *variables(freeze_smi_deadline=3))
        assert node.run(["pgrep", "-f", "sleep 1000"], check=False).out == ""
    finally:
        node.run(["rm", "/usr/local/bin/nvidia-smi"])
    assert result.code == 0, result.output
    record = result.record()
    outcomes = [record.outcome(name) for name in record.manifest["probes"] if name.startswith("gpu.smi.")]
    assert outcomes.count("timeout") == 1
    assert set(outcomes) == {"timeout", "skipped"}
    assert any(
        b"half an answer" in content
        for name, content in record.files.items()
        if name.startswith("gpu/nvidia-smi")
    )
    # The rest was asked all the same, and no number of GPUs was made up.
    assert record.outcome("gpu.nvml") == "ok"
    assert record.outcome("gpu.driver.loaded") == "ok"
    assert record.facts["gpu"]["counts"]["nvidia_smi_list"]["value"] is None


def test_nvml_that_never_answers(node: Node, freeze: Freeze) -> None:
    node.set_state("nvml-hangs")
    result = freeze("-l", "n1", *variables(freeze_smi_deadline=3, freeze_nvml_deadline=3))
    assert result.code == 0, result.output
    record = result.record()
    assert record.outcome("gpu.nvml") == "timeout"
    assert record.outcome("gpu.pci") == "ok"
    assert "Xid" in record.text("host/dmesg.txt")
    assert [event["code"] for event in record.facts["gpu"]["xid"]["value"]] == [119]


def test_a_host_without_a_gpu(node: Node, freeze: Freeze) -> None:
    node.set_state("no-gpu")
    result = freeze("-l", "n1")
    assert result.code == 0, result.output
    assert result.record().facts["gpu"]["summary"] == "no GPU on the PCI bus"


def test_a_host_without_docker(node: Node, freeze: Freeze) -> None:
    node.kill_dockerd()
    node.run(["mv", "/run/docker.sock", "/run/docker.sock.away"])
    try:
        result = freeze("-l", "n1")
    finally:
        node.run(["rm", "-f", "/run/docker.sock.away"])
        node.start_dockerd()
    assert result.code == 0, result.output
    record = result.record()
    assert record.outcome("docker.version") == "absent"
    assert "4 x NVIDIA GB300" in record.facts["gpu"]["summary"]
    assert "not measured: no process looks like vLLM; containers are not known" in " ".join(
        record.text("five-questions.txt").split()
    )


def test_a_docker_socket_that_never_answers(node: Node, freeze: Freeze) -> None:
    listen = "s = socket.socket(socket.AF_UNIX); s.bind('/run/hung.sock'); s.listen(9)"
    script = f"import socket, signal; {listen}; signal.pause()"
    node.sh(f'setsid python3 -c "{script}" >/dev/null 2>&1 </dev/null &')
    wait_for(lambda: node.run(["test", "-S", "/run/hung.sock"], check=False).rc == 0, "the socket")
    try:
        result = freeze(
            "-l", "n1", *variables(freeze_docker_socket="/run/hung.sock", freeze_docker_deadline=3)
        )
    finally:
        node.sh("pkill -f /run/hung.sock; rm -f /run/hung.sock")
    assert result.code == 0, result.output
    record = result.record()
    outcomes = {record.outcome(name) for name in record.manifest["probes"] if name.startswith("docker.")}
    assert outcomes <= {"timeout", "skipped"}
    # It costs its deadline once, whatever there is to ask.
    asked = [name for name, probe in record.manifest["probes"].items() if probe["outcome"] == "timeout"]
    assert asked == ["before.containers"]
    assert "4 x NVIDIA GB300" in record.facts["gpu"]["summary"]


def test_t12_a_full_disk_on_the_host(node: Node, freeze: Freeze) -> None:
    """The record is made in memory then; with no place at all nothing is written and the host is named."""
    node.fill_disk("/tmp", "/var/tmp", "/home/ops")
    assert freeze("-l", "n1").code == 0
    for free_kib in (0, 512):
        node.free_disk("/tmp")
        node.fill_disk("/tmp", free_kib=free_kib)
        refused = freeze("-l", "n1", *variables(freeze_staging_places=["/tmp"]))
        assert refused.code != 0
        assert "nothing was written" in refused.document["hosts"]["n1"]["reason"]
        assert left_on(node) == []


@pytest.mark.parametrize("size", ["40k", "96k"])
def test_a_full_disk_on_the_controller(
    node: Node, lab: Lab, freeze: Freeze, tmp_path: Path, size: str
) -> None:
    """There is no room for the record, or none for what follows it; never does half a record look whole."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(place)], check=True)
    try:
        result = freeze("-l", "n1", *variables(freeze_reproduction=str(place / "repro")))
        assert result.code != 0
        assert "No space left" in result.output
        assert not list(place.rglob("*.part"))
        run = place / "repro" / "run-001"
        assert json.loads((run / "run.json").read_text())["state"] in ("collecting", "partial")
        for record in run.glob("hosts/*.tar.gz"):
            assert Record(record).manifest["host"] == "n1"
    finally:
        subprocess.run(["umount", str(place)], check=True)
        kept = node.sh("ls -d /var/tmp/.gpufleet-freeze.* /tmp/.gpufleet-freeze.*", check=False).out.split()
        node.run(["rm", "-rf", *kept])
    assert bool(kept) == ("the sealed record is kept on n1 as" in result.output)


def test_check_mode_says_what_would_be_collected_and_writes_nothing(node: Node, freeze: Freeze) -> None:
    before = docker_diff(node)
    result = freeze("-l", "n1", "--check")
    assert result.code == 0, result.output
    assert not result.reproduction.exists()
    assert "gpu.smi.query" in result.output
    new = {line.split(" ", 1)[1] for line in docker_diff(node) - before}
    assert new - BOOKKEEPING - PARENTS == set()
