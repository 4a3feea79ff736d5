# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One host of the lab: a machine with simulated GPUs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from . import state as states
from .docker_cli import docker
from .faults import Faults
from .machine import archive, wait_for

HOST = Path(__file__).parent / "host"
# Runs holder.py under another name: argv is the name, then the holder's.
RENAMED = (
    "import os, sys; name = sys.argv[1]; "
    "os.execv('/usr/bin/python3', [name, '/usr/local/lib/holder.py', *sys.argv[2:], name])"
)


@dataclass
class Node(Faults):
    """One host with GPUs; `peers` are the addresses of all hosts of its lab."""

    peers: list[str] = field(default_factory=list)

    def set_state(self, name: str, changes: dict[str, str] | None = None) -> None:
        """Put the host into a ready-made state, with some keys changed; an empty value takes a key away."""
        state = {**states.load(name, self.number), **(changes or {})}
        self.apply({key: value for key, value in state.items() if value})

    def apply(self, state: states.State) -> None:
        """Make the host show this state, and start the processes that hold its GPUs."""
        architecture, machine = self.sh("dpkg --print-architecture; uname -m").out.split()
        files = states.host_files(state, architecture, machine)
        environment = {
            "VERSION": state.get("library_version", ""),
            "DEVICES": " ".join(states.devices(state)),
            "DAEMONS": " ".join(states.daemons(state)),
            "PEERS": " ".join(self.peers) if "service.nvidia-imex" in state else "",
        }
        packed = archive({path: text.encode() for path, text in files.items()})
        variables = [f"{key}={value}" for key, value in environment.items()]
        self.run(["env", *variables, "sh", "-c", (HOST / "apply.sh").read_text()], stdin=packed)
        for holder in states.numbered(state, "holder"):
            self.hold(*holder.split())

    def hold(self, gpu: str, mib: str, user: str, title: str) -> int:
        """Start a process that holds GPU memory, and return its PID.

        A title that ends in .py is a script under its shell; any other is the bare name of an orphan.
        """
        script = f"/home/{user}/{title}" if title.endswith(".py") else "/usr/local/lib/holder.py"
        self.put(script, (HOST / "holder.py").read_text())
        if title.endswith(".py"):
            start = f"(python3 {script} {gpu} {mib} python3; true) &"
        else:
            start = f'(setsid python3 -c "{RENAMED}" {title} {gpu} {mib} &)'
        before = set(self.holders())
        self.run(["sh", "-c", f"exec </dev/null >/dev/null 2>&1\ncd /tmp\n{start}\n"], user=user)
        wait_for(lambda: bool(set(self.holders()) - before), f"a process that holds GPU {gpu} on {self.name}")
        pid = (set(self.holders()) - before).pop()
        self.sh(f"echo {pid} >>/run/simulated-gpu/started")
        return pid

    def holders(self) -> list[int]:
        """PIDs that hold GPU memory on the host, by the simulated driver's own books."""
        out = self.run(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], check=False).out
        return [int(line) for line in out.split() if line.isdigit()]

    def reboot(self) -> None:
        """Kill everything at once and start again: processes are gone, docker restarts what it must, and the
        driver that is loaded is the one on disk."""
        text = self.run(["cat", "/run/simulated-gpu/state"]).out
        state = dict(line.split(" = ", 1) for line in text.splitlines())
        if "module_version" in state:
            state["driver_version"] = state["library_version"] = state["module_version"]
        docker("kill", self.container)
        docker("start", self.container)
        self.wait()
        self.apply({key: value for key, value in state.items() if not key.startswith("holder.")})
