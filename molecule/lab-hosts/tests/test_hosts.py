# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows, and how it breaks and is mended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node
from ansible_collections.gpufleet.baseline.tests.lab.controller import Controller
from ansible_collections.gpufleet.baseline.tests.lab.docker_cli import docker
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for

ANSIBLE = str(Path(sys.executable).with_name("ansible"))


def ansible(lab: Lab, pattern: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A connection of its own each time: a shared one to a paused host never ends.
    options = ["-i", str(lab.inventory), "-e", "ansible_ssh_args=-oControlMaster=no"]
    command = [ANSIBLE, *options, pattern, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_both_hosts_answer_ansible(lab: Lab, nodes: list[Node]) -> None:
    done = ansible(lab, "all", "-m", "ping")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count('"ping": "pong"') == len(nodes)
    unprivileged = ansible(lab, "all", "-m", "command", "-a", "id -un", "-e", "ansible_user=ops", "--become")
    assert unprivileged.stdout.count(">>\nroot\n") == len(nodes)


@pytest.mark.parametrize("module", ["docker", "requests", "pynvml", "yaml"])
def test_hosts_have_python_and_none_of_its_libraries(node: Node, module: str) -> None:
    assert "No module named" in node.run(["python3", "-c", f"import {module}"], check=False).err


def test_a_driver_upgraded_without_reboot_and_then_rebooted(node: Node) -> None:
    node.set_state("driver-upgraded")
    library = "readlink $(ldconfig -p | sed -n 's/.*nvidia-ml.*> //p')"
    versions = f"cat /sys/module/nvidia/version; modinfo -F version nvidia; {library}"
    assert node.sh(versions).out.split() == ["580.126.09", "580.173.02", "libnvidia-ml.so.580.173.02"]
    assert "580.126.09" in node.run(["cat", "/proc/driver/nvidia/version"]).out
    assert (
        node.run(["dpkg-query", "-W", "-f", "${Version}", "libnvidia-compute-580"]).out
        == "580.173.02-0ubuntu1"
    )
    assert node.run(["nvidia-smi"], check=False).rc == 18
    node.reboot()
    assert node.sh(versions).out.split()[0] == "580.173.02"
    assert node.run(["nvidia-smi", "-L"]).out.count("GB300") == 4


def test_services_kernel_log_and_fabric_of_the_host(nodes: list[Node]) -> None:
    first, second = nodes
    assert first.run(["systemctl", "is-active", "nvidia-imex", "nvidia-fabricmanager"]).out.split() == [
        "active",
        "inactive",
    ]
    assert json.loads(first.run(["nvidia-imex-ctl", "-N", "-j"]).out)["status"] == "UP"
    assert first.run(["cat", "/sys/class/infiniband/mlx5_0/ports/1/state"]).out == "4: ACTIVE\n"
    first.set_state("xid")
    assert "Xid (PCI:0019:06:00): 94" in first.run(["dmesg"]).out
    assert "kernel: NVRM: Xid" in first.run(["journalctl", "-k", "-o", "short-iso", "--no-pager"]).out
    assert first.run(["dmesg"], user="ops", check=False).rc == 1
    second.set_state("fabric-not-completed")
    assert json.loads(first.run(["nvidia-imex-ctl", "-N", "-j"]).out)["status"] == "DEGRADED"


def test_cut_off_and_healed(lab: Lab, nodes: list[Node]) -> None:
    nodes[0].cut()
    try:
        cut = ansible(lab, "all", "-m", "ping", "-T", "5")
    finally:
        nodes[0].heal()
    assert "n1 | UNREACHABLE!" in cut.stdout
    assert "n2 | SUCCESS" in cut.stdout
    assert ansible(lab, "n1", "-m", "ping").returncode == 0


def test_cut_off_from_each_other_only(lab: Lab, nodes: list[Node]) -> None:
    first, second = nodes
    reach = ["timeout", "2", "bash", "-c", f"echo >/dev/tcp/{second.address}/22"]
    first.cut_from(second)
    assert first.run(reach, check=False).rc == 124
    assert ansible(lab, "all", "-m", "ping").returncode == 0
    first.heal_from(second)
    assert first.run(reach, check=False).rc == 0


def test_paused_and_resumed(lab: Lab, node: Node) -> None:
    node.pause()
    try:
        assert "n1 | UNREACHABLE!" in ansible(lab, "n1", "-m", "ping", "-T", "3").stdout
    finally:
        node.resume()
    assert ansible(lab, "n1", "-m", "ping").returncode == 0


def test_dockerd_killed_and_started(node: Node, image: str) -> None:
    node.docker("run", "-d", "--name", "lives", image, "sleep", "60")
    pid = node.docker("inspect", "-f", "{{.State.Pid}}", "lives").out.strip()
    node.kill_dockerd()
    wait_for(lambda: node.docker("info", check=False).rc != 0, "dockerd to be gone")
    assert node.run(["kill", "-0", pid], check=False).rc == 0
    node.start_dockerd()
    assert node.docker("inspect", "-f", "{{.State.Running}}", "lives").out.strip() == "false"


def test_dockerd_that_hangs(node: Node) -> None:
    node.hang_dockerd()
    try:
        assert node.run(["timeout", "2", "docker", "info"], check=False).rc == 124
    finally:
        node.wake_dockerd()
    assert node.docker("info").rc == 0


def test_a_full_disk(node: Node) -> None:
    node.fill_disk("/var/tmp", "/home/ops")
    write = ["sh", "-c", "dd if=/dev/zero of=/var/tmp/more bs=64k count=1"]
    assert "No space left on device" in node.run(write, check=False).err
    assert node.run(["stat", "-c", "%a %U", "/home/ops", "/var/tmp"]).out.split("\n")[:2] == [
        "755 ops",
        "1777 root",
    ]
    node.free_disk("/var/tmp", "/home/ops")
    assert node.run(write).rc == 0
    node.fill_disk("/var/tmp", free_kib=128)
    assert node.run(write, check=False).rc == 0
    node.free_disk("/var/tmp")
    node.run(["rm", "-f", "/var/tmp/more"])


def test_a_clock_that_is_off(lab: Lab, node: Node) -> None:
    def off(*options: str) -> float:
        """Seconds that a task on the host is behind the machine."""
        seen = ansible(lab, "n1", "-m", "command", "-a", "date +%s", *options)
        return time.time() - int(seen.stdout.split(">>\n")[1])

    node.skew_clock(-3600)
    try:
        assert 3500 < off() < 3700
        assert 3500 < off("-e", "ansible_user=ops", "--become") < 3700
    finally:
        node.right_clock()
    assert off() < 100


def test_a_slow_network(node: Node) -> None:
    node.slow_network(1000)
    assert "tbf" in node.run(["tc", "qdisc", "show"]).out
    node.full_network()
    assert "tbf" not in node.run(["tc", "qdisc", "show"]).out


def test_a_controller_killed_in_the_middle_of_a_task(lab: Lab, node: Node, tmp_path: Path) -> None:
    command = [
        ANSIBLE,
        "-i",
        str(lab.inventory),
        "n1",
        "-m",
        "command",
        "-a",
        "sh -c 'echo $$ >/tmp/pid; sleep 3'",
    ]
    with Controller(command, cwd=tmp_path) as controller:
        wait_for(lambda: node.run(["test", "-s", "/tmp/pid"], check=False).rc == 0, "the task to run")
        controller.kill()
        assert controller.process.returncode == -9
    node.run(["rm", "/tmp/pid"])


def test_nothing_else_is_removed() -> None:
    other = docker("create", "--label", "gpufleet.lab=gpufleet-lab-other", "gpufleet-lab/node:latest").strip()
    try:
        temporary = Lab.up(1, "no-gpu", name="molecule-brief", docker_in_nodes=False)
        assert temporary.nodes[0].run(["docker", "info"], check=False).rc != 0
        assert temporary.nodes[0].run(["sh", "-c", "command -v nvidia-smi"], check=False).rc != 0
        temporary.down()
        assert docker("ps", "-aq", "--filter", f"label={temporary.label}") == ""
        assert docker("ps", "-aq", "--no-trunc", "--filter", f"id={other}").strip() == other
    finally:
        docker("rm", other)
