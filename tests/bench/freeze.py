# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a freeze costs, as ratios within one run: against ansible -m ping, and against one task for each command.

Everything runs on this machine through the local connection: ``--hosts N`` (100) inventory hosts, forks 50.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).with_name("ansible")
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
FORKS = 50
HUNG_SMI = "#!/bin/sh\ntrap '' TERM\nsleep 1000 &\nsleep 1000\n"
SMI_DEADLINE = 5


@dataclass
class Cost:
    """Wall time and CPU time in seconds of one command with all of its children, and its largest process in MiB."""

    wall: float
    cpu: float
    memory: float


def measure(command: list[str], directory: Path, **environment: str) -> Cost:
    """Run a command to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, after.ru_maxrss / 1024)


def inventory(directory: Path, hosts: int) -> str:
    """Hosts that are all this machine."""
    names = {f"h{number:03d}": None for number in range(hosts)}
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    path = directory / f"inventory-{hosts}.json"
    path.write_text(json.dumps({"all": {"hosts": names, "vars": variables}}))
    return str(path)


def freeze(directory: Path, hosts: int, **variables: Any) -> list[str]:
    """The playbook as a user calls it."""
    values = {"freeze_reproduction": str(directory / "repro"), **variables}
    options = ["-i", inventory(directory, hosts), "-f", str(FORKS), "-e", json.dumps(values)]
    return [str(PLAYBOOK), str(ROOT / "playbooks" / "freeze.yml"), *options]


def manifest(directory: Path) -> Any:
    """The manifest of the newest record."""
    record = max(directory.glob("repro/run-*/hosts/*.tar.gz"), key=lambda path: path.stat().st_mtime)
    with tarfile.open(record) as archive:
        stream = archive.extractfile("manifest.json")
        if stream is None:
            raise SystemExit(f"{record} has no manifest")
        return json.load(stream)


def one_task_for_each_command(directory: Path, probes: dict[str, Any]) -> str:
    """A playbook that asks the same commands and reads the same files, each as a task of its own."""
    tasks = []
    for name, probe in sorted(probes.items()):
        source = str(probe["source"])
        if source.startswith("/"):
            task = {"ansible.builtin.slurp": {"src": source.partition(",")[0].partition(" ")[0]}}
        else:
            task = {"ansible.builtin.command": {"cmd": source or "true"}}
        tasks.append({"name": name, **task, "ignore_errors": True, "changed_when": False})
    path = directory / "one-task-each.json"
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    return str(path)


@contextmanager
def hung_smi(directory: Path) -> Iterator[str]:
    """A PATH on which nvidia-smi never answers."""
    folder = directory / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(HUNG_SMI)
    (folder / "nvidia-smi").chmod(0o755)
    yield f"{folder}:{os.environ['PATH']}"


def row(what: str, value: str, budget: str) -> None:
    print(f"{what:<52}{value:>20}  {budget}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    hosts = parser.parse_args().hosts
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        ping = [str(ANSIBLE), "-i", inventory(directory, 1), "all", "-m", "ping"]
        measure(ping, directory)  # fills the caches of files
        row("freeze", "measured", "budget")
        once = measure(ping, directory)
        alone = measure(freeze(directory, 1), directory)
        probes = manifest(directory)["probes"]
        slowest = max(float(probe["seconds"]) for probe in probes.values())
        row("healthy host: wall / ansible -m ping", f"{alone.wall / once.wall:.1f}", "-")
        row("healthy host: CPU beyond a ping's", f"{alone.cpu - once.cpu:.1f} s", "at most 3 s on the host")
        row(
            "healthy host: wall beyond ping and slowest probe",
            f"{alone.wall - once.wall - slowest:.1f} s",
            "at most 3 s",
        )
        tasks = one_task_for_each_command(directory, probes)
        each = measure([str(PLAYBOOK), "-i", inventory(directory, 1), tasks], directory)
        row(
            f"one task for each of {len(probes)} probes / freeze",
            f"{each.wall / alone.wall:.1f}",
            "more than 1",
        )
        with hung_smi(directory) as path:
            hung = measure(freeze(directory, 1, freeze_smi_deadline=SMI_DEADLINE), directory, PATH=path)
        row(
            "hung nvidia-smi: wall beyond a healthy host's",
            f"{hung.wall - alone.wall:.1f} s",
            f"its deadline, {SMI_DEADLINE} s",
        )
        many = [str(ANSIBLE), "-i", inventory(directory, hosts), "-f", str(FORKS), "all", "-m", "ping"]
        pinged = measure(many, directory)
        frozen = measure(freeze(directory, hosts), directory)
        # What the hosts themselves need is shared here by this machine's processors.
        own = hosts * max(alone.cpu - once.cpu, 0.0) / (os.cpu_count() or 1)
        row(
            f"{hosts} hosts: wall / (2 x ping + hosts' own CPU)",
            f"{frozen.wall / (2 * pinged.wall + own):.2f}",
            "at most 1",
        )
        row(f"{hosts} hosts: largest process", f"{frozen.memory:.0f} MiB", "flat in archive size")


if __name__ == "__main__":
    main()
