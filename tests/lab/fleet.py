# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet: N hosts on a network of their own, and the inventory that leads to them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import image
from .docker_cli import DockerError, docker, names
from .node import Node

CHECKOUT = Path(__file__).resolve().parents[2]
# --privileged would ask for CAP_SYS_RESOURCE, which not every machine may give; a host must not set the
# machine's clock, load its modules or reboot it.
NODE_OPTIONS = (
    "--cap-add=ALL --cap-drop=SYS_RESOURCE --cap-drop=SYS_TIME --cap-drop=SYS_MODULE --cap-drop=SYS_BOOT "
    "--security-opt=seccomp=unconfined --security-opt=apparmor=unconfined "
    "--security-opt=systempaths=unconfined"
).split()
INVENTORY_HEADER = "# Written by tests/lab; the hosts go away with the lab.\n---\n"


@dataclass
class Lab:
    """A running fleet. Its name, by default LAB_NAME, keeps several labs on one machine apart."""

    name: str
    nodes: list[Node] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        """What the names of everything that belongs to this lab begin with."""
        return "gpufleet-lab" + (f"-{self.name}" if self.name else "")

    @property
    def label(self) -> str:
        """What everything that belongs to this lab carries; only that is ever removed."""
        return f"gpufleet.lab={self.prefix}"

    @property
    def inventory(self) -> Path:
        """The generated inventory."""
        folder = CHECKOUT / "inventories/lab" if not self.name else image.CACHE / self.name
        return folder / "hosts.yml"

    @classmethod
    def up(
        cls,
        nodes: int = 2,
        state: str = "gb300",
        *,
        name: str | None = None,
        docker_in_nodes: bool = True,
        mounts: Sequence[Path] = (),
    ) -> Lab:
        """Start the hosts that are missing, put all into the state, write the inventory.

        A new host shows the mounts, folders of this machine, read-only at their own paths.
        """
        lab = cls(os.environ.get("LAB_NAME", "") if name is None else name)
        image.ensure()
        fresh = not names("container", lab.label)
        try:
            network = lab._network()
            lab.nodes = [
                lab._start(number, network, docker_in_nodes, mounts) for number in range(1, nodes + 1)
            ]
            key = _key()
            for node in lab.nodes:
                node.peers = [other.address for other in lab.nodes]
                node.wait()
                _let_in(node, key)
                node.set_state(state)
        except BaseException:
            if fresh:
                lab.down()
            raise
        lab._write_inventory(key)
        return lab

    @classmethod
    def attach(cls, name: str | None = None) -> Lab:
        """The lab that runs already, without touching it."""
        lab = cls(os.environ.get("LAB_NAME", "") if name is None else name)
        for container in sorted(names("container", lab.label), key=lambda text: int(text.rsplit("-n", 1)[1])):
            form = "{{range .NetworkSettings.Networks}}{{.IPAMConfig.IPv4Address}}{{end}}"
            address = docker("inspect", "-f", form, container).strip()
            lab.nodes.append(Node(container, int(container.rsplit("-n", 1)[1]), address, lab.prefix))
        for node in lab.nodes:
            node.peers = [other.address for other in lab.nodes]
        return lab

    def down(self) -> None:
        """Remove every container, volume and network of this lab, and its inventory."""
        containers = names("container", self.label)
        if containers:
            docker("rm", "--force", "--volumes", *containers)
        for kind in ("volume", "network"):
            for name in names(kind, self.label):
                docker(kind, "rm", name)
        image.forget_older()
        self.inventory.unlink(missing_ok=True)
        folder = self.inventory.parent
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        self.nodes = []

    def _network(self) -> str:
        """First three bytes of the lab's addresses; a free range is taken when the network is made."""
        if self.prefix not in names("network", self.label):
            for third in range(256):
                try:
                    docker(
                        "network",
                        "create",
                        "--label",
                        self.label,
                        "--subnet",
                        f"172.30.{third}.0/24",
                        self.prefix,
                    )
                    break
                except DockerError as problem:
                    if "overlaps" not in str(problem):
                        raise
        subnet = docker("network", "inspect", "-f", "{{(index .IPAM.Config 0).Subnet}}", self.prefix).strip()
        return subnet.rsplit(".", 1)[0]

    def _start(self, number: int, network: str, has_docker: bool, mounts: Sequence[Path]) -> Node:
        node = Node(f"{self.prefix}-n{number}", number, f"{network}.{10 + number}", self.prefix)
        if node.container in names("container", self.label):
            current = docker("image", "inspect", "-f", "{{.Id}}", image.NODE)
            if docker("inspect", "-f", "{{.Image}}", node.container) == current:
                docker("start", node.container)
                return node
            docker("rm", "--force", node.container)
        docker("volume", "create", "--label", self.label, node.container)
        options = [
            *NODE_OPTIONS,
            "--device-cgroup-rule",
            "a *:* rwm",
            "--label",
            self.label,
            "--name",
            node.container,
        ]
        options += ["--hostname", node.name, "--network", node.network, "--ip", node.address]
        options += [
            "-v",
            f"{node.container}:/var/lib/docker",
            "-e",
            f"LAB_DOCKER={'yes' if has_docker else 'no'}",
        ]
        options += [word for folder in mounts for word in ("-v", f"{folder}:{folder}:ro")]
        docker("run", "-d", *options, image.NODE)
        return node

    def _write_inventory(self, key: Path) -> None:
        lines = [INVENTORY_HEADER, "all:\n  children:\n    lab:\n      hosts:\n"]
        lines += [f"        {node.name}:\n          ansible_host: {node.address}\n" for node in self.nodes]
        options = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5"
        variables = {
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(key),
            "ansible_ssh_common_args": options,
        }
        lines += ["      vars:\n", *(f"        {key}: {value}\n" for key, value in variables.items())]
        self.inventory.parent.mkdir(parents=True, exist_ok=True)
        self.inventory.write_text("".join(lines))


def _let_in(node: Node, key: Path) -> None:
    """Root and the user ops may log in with the lab's key."""
    node.sh("mkdir -p -m 700 /root/.ssh /home/ops/.ssh; chown ops: /home/ops/.ssh")
    for home in ("/root", "/home/ops"):
        node.put(f"{home}/.ssh/authorized_keys", key.with_suffix(".pub").read_text())


def _key() -> Path:
    """The key that opens every host of every lab of this checkout; made once."""
    key = image.CACHE / "id_ed25519"
    with image.exclusive():
        if not key.exists():
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpufleet-lab", "-f", str(key)],
                check=True,
            )
    return key
