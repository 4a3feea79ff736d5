# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ways to break a host, and to mend it again."""

from __future__ import annotations

import json

from .docker_cli import DockerError, docker
from .machine import Machine, wait_for


class Faults(Machine):
    """A host that can be broken. Each fault has its undoing beside it."""

    def cut(self) -> None:
        """Pull the network cable: established connections stay open on both sides and say nothing more."""
        docker("network", "disconnect", self.network, self.container)

    def heal(self) -> None:
        """Put the cable back; the address is the same, the interface may have another name."""
        docker("network", "connect", "--ip", self.address, self.network, self.container)

    def cut_from(self, other: Machine) -> None:
        """Drop everything between two hosts, both directions; ssh from outside goes on."""
        self.sh(
            f"iptables -A INPUT -s {other.address} -j DROP\niptables -A OUTPUT -d {other.address} -j DROP"
        )

    def heal_from(self, other: Machine) -> None:
        """Undo cut_from."""
        self.sh(
            f"iptables -D INPUT -s {other.address} -j DROP\niptables -D OUTPUT -d {other.address} -j DROP"
        )

    def pause(self) -> None:
        """Stop every process of the host, as a hung kernel would."""
        # Freezing a busy host fails now and then (cgroup v1), so it is tried again.
        wait_for(lambda: _succeeds("pause", self.container), f"{self.name} to be paused")

    def resume(self) -> None:
        """Undo pause."""
        docker("unpause", self.container)

    def kill_engine(self, container: str) -> None:
        """SIGKILL to the first process of a container, past its docker."""
        pid = self.docker("inspect", "-f", "{{.State.Pid}}", container).out.strip()
        self.run(["kill", "-KILL", pid])

    def kill_dockerd(self) -> None:
        """SIGKILL to dockerd; its containers live on without it."""
        self.sh("kill -KILL $(cat /run/docker.pid)")

    def start_dockerd(self) -> None:
        """Start dockerd again, as the system would; it stops the containers that outlived it."""
        self.sh("rm -f /run/docker.pid; setsid dockerd >>/var/log/dockerd.log 2>&1 </dev/null &")
        wait_for(lambda: not self.docker("info", check=False).rc, f"dockerd of {self.name}")

    def hang_dockerd(self) -> None:
        """SIGSTOP to dockerd: its socket still accepts connections, and nothing answers."""
        self.sh("kill -STOP $(cat /run/docker.pid)")

    def wake_dockerd(self) -> None:
        """Undo hang_dockerd."""
        self.sh("kill -CONT $(cat /run/docker.pid)")

    def fill_disk(self, *folders: str, free_kib: int = 0) -> None:
        """Make these folders full file systems of their own (tmpfs); what was in them is hidden."""
        for folder in folders:
            self.sh(
                f"set -e; mkdir -p {folder}; mode=$(stat -c %a {folder}); owner=$(stat -c %u:%g {folder})\n"
                f"mount -t tmpfs -o size=1m,mode=$mode lab-full {folder}; chown $owner {folder}\n"
                f"dd if=/dev/zero of={folder}/.fill bs=4k 2>/dev/null || true\n"
                f"truncate -s -{free_kib}K {folder}/.fill"
            )

    def free_disk(self, *folders: str) -> None:
        """Undo fill_disk."""
        for folder in folders:
            self.run(["umount", "-l", folder])

    def skew_clock(self, seconds: float) -> None:
        """Let whoever logs in from now on, and what he starts, see a clock that is off.

        Real for what links libc (date, Python), also through sudo. dockerd, sshd, the kernel and programs
        inside containers keep the machine's clock, for a container can't have one of its own.
        """
        self.sh(
            "library=$(ls /usr/lib/*/faketime/libfaketime.so.1)\n"
            f"printf 'LD_PRELOAD=%s\\nFAKETIME={seconds:+g}s\\n' $library >/etc/environment"
        )

    def right_clock(self) -> None:
        """Undo skew_clock, for new logins."""
        self.sh(": >/etc/environment")

    def slow_network(self, kbit: int) -> None:
        """Limit what the host sends (token bucket). There is no added latency: the kernel has no netem."""
        self.sh(f"tc qdisc replace dev {self._interface()} root tbf rate {kbit}kbit burst 16kb latency 400ms")

    def full_network(self) -> None:
        """Undo slow_network."""
        self.sh(f"tc qdisc del dev {self._interface()} root")

    def _interface(self) -> str:
        for link in json.loads(self.run(["ip", "-j", "addr"]).out):
            if any(address.get("local") == self.address for address in link["addr_info"]):
                return str(link["ifname"])
        raise DockerError(f"{self.name} has no interface with {self.address}; is it cut off?")


def _succeeds(*args: str) -> bool:
    try:
        docker(*args)
    except DockerError:
        return False
    return True
