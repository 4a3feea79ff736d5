# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that hold a GPU: who they are, since when, in which cgroup (private to the collection).

Found from the host's own list of processes and from the driver, each of which sees some that the other one
does not: a worker that outlived its container is in no list of the container engine. Nothing is killed here.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ansible_collections.gpufleet.baseline.plugins.module_utils import _host, _process
from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import read_line
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    DENIED,
    OK,
    Emit,
    Reading,
    outcome_of,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import container_ids
from ansible_collections.gpufleet.baseline.plugins.module_utils._services import DAEMONS
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import utc

SOURCE = "/proc/PID/fd"

_GPU_DEVICE = re.compile(r"^/dev/(nvidia(\d+|-uvm|ctl)|kfd|dri/renderD\d+)$")
_GPU_MINOR = re.compile(r"^/dev/nvidia(\d+)$")


def read_holders(emit: Emit, root: str = "/") -> Reading:
    """Every process with an open GPU device. Command lines come last: they may wait for a stuck process."""
    proc = os.path.join(root, "proc")
    parents = _parents(proc)
    ours = _descendants(parents, os.getppid() if root == "/" else -1)
    users, booted = _users(root), _host.boot_time(root)
    # Where the host itself is a container, its own identifier stands in every cgroup.
    around = container_ids(read_line(os.path.join(proc, "self/cgroup"), 65536) or "")
    rows: List[Dict[str, Any]] = []
    refused = 0
    for pid in sorted(parents):
        if pid in ours:
            continue
        try:
            devices = _open_devices(os.path.join(proc, str(pid), "fd"))
        except OSError as error:
            refused += outcome_of(error) == DENIED
            continue
        if any(_holds(device) for device in devices):
            rows.append({**_describe(proc, pid, parents[pid], users, booted, around), **_devices(devices)})
    reading = _reading(rows, refused, len(parents))
    emit(reading)
    for row in rows:
        emit(Reading(message="command line of process %d" % row["pid"]))
        row["argv"] = _arguments(proc, row["pid"])
        emit(reading)
    return reading


def _reading(rows: List[Dict[str, Any]], refused: int, seen: int) -> Reading:
    outcome, message = OK, ""
    if refused:
        outcome = DENIED
        # Even root may not look into every process, such as one of an outer user namespace (proc(5)).
        whom = "cannot be read, not even by root" if os.geteuid() == 0 else "may be read by root only"
        message = "the open files of %d of %d processes %s" % (refused, seen, whom)
    return Reading(rows, outcome=outcome, message=message, source=SOURCE)


def _holds(device: str) -> bool:
    """Whether an open device means work on a GPU; the control device alone does not."""
    return device != "/dev/nvidiactl"


def _parents(proc: str) -> Dict[int, int]:
    """Every process with its parent; one that ends meanwhile is left out."""
    found = {}
    for name in os.listdir(proc):
        if name.isdigit():
            text = read_line(os.path.join(proc, name, "stat"), 4096)
            if text:
                found[int(name)] = _process.parse_stat(text).parent
    return found


def _descendants(parents: Mapping[int, int], top: int) -> Set[int]:
    """A process with all that it has started: our own probes open the devices as well."""
    found = {top}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
        if not more:
            return found
        found |= more


def _open_devices(directory: str) -> List[str]:
    devices = set()
    for name in os.listdir(directory):
        try:
            target = os.readlink(os.path.join(directory, name))
        except FileNotFoundError:  # closed meanwhile
            continue
        if _GPU_DEVICE.match(target):
            devices.add(target)
    return sorted(devices)


def _describe(
    proc: str,
    pid: int,
    parent: int,
    users: Mapping[int, str],
    booted: Optional[float],
    around: Sequence[str],
) -> Dict[str, Any]:
    place = os.path.join(proc, str(pid))
    line = _process.parse_stat(
        read_line(os.path.join(place, "stat"), 4096) or "%d (?) ? 0%s" % (pid, " 0" * 20)
    )
    status = _process.parse_status(read_line(os.path.join(place, "status"), 65536) or "")
    uid = int((status.get("Uid") or "-1").split()[0])
    cgroup = read_line(os.path.join(place, "cgroup"), 65536) or ""
    return {
        "pid": pid,
        "parent": parent,
        "parent_command": read_line(os.path.join(proc, str(parent), "comm")),
        "command": line.command,
        "argv": None,
        "state": line.state,
        "uid": uid,
        "user": users.get(uid),
        "started": utc(None if booted is None else booted + line.start_ticks / os.sysconf("SC_CLK_TCK")),
        "start_ticks": line.start_ticks,
        "cgroup": cgroup.splitlines(),
        "container_ids": [name for name in dict.fromkeys(container_ids(cgroup)) if name not in around],
        "daemon": DAEMONS.get(line.command),
    }


def _devices(devices: Sequence[str]) -> Dict[str, Any]:
    minors = sorted(int(found.group(1)) for found in map(_GPU_MINOR.match, devices) if found)
    return {"devices": list(devices), "gpu_minors": minors}


def _arguments(proc: str, pid: int) -> Optional[List[str]]:
    try:
        with open(os.path.join(proc, str(pid), "cmdline"), "rb") as stream:
            return _process.parse_arguments(stream.read(1024 * 1024))
    except OSError:
        return None


def _users(root: str) -> Dict[int, str]:
    """User names from the local file: a directory service that is away would hold us up."""
    names: Dict[int, str] = {}
    for line in (read_line(os.path.join(root, "etc/passwd"), 1024 * 1024) or "").splitlines():
        parts = line.split(":")
        if len(parts) > 2 and parts[2].isdigit():
            names.setdefault(int(parts[2]), parts[0])
    return names


def combine(rows: Sequence[Mapping[str, Any]], gpus: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """One entry for each process, from /proc and from what the driver says of each GPU.

    ``gpus`` have uuid, minor and processes (pid, kind, memory_used); a memory that the driver does not tell
    is None, which is not 0.
    """
    holders: Dict[int, Dict[str, Any]] = {
        row["pid"]: {**row, "in_proc": True, "in_driver": False, "gpus": []} for row in rows
    }
    for gpu in gpus:
        for process in gpu["processes"]:
            pid = process["pid"]
            holder = holders.setdefault(pid, _only_in_driver(pid, process.get("name")))
            holder["in_driver"] = True
            entry = {"uuid": gpu["uuid"], "minor": gpu["minor"], "kind": process["kind"]}
            holder["gpus"].append({**entry, "memory_used": process["memory_used"]})
    for holder in holders.values():
        told = {entry["minor"] for entry in holder["gpus"]}
        for gpu in gpus:
            if gpu["minor"] in holder["gpu_minors"] and gpu["minor"] not in told:
                entry = {"uuid": gpu["uuid"], "minor": gpu["minor"], "kind": "open device"}
                holder["gpus"].append({**entry, "memory_used": None})
    return [holders[pid] for pid in sorted(holders)]


def _only_in_driver(pid: int, name: Optional[str]) -> Dict[str, Any]:
    """A process that the driver names and the host's list lacks."""
    unknown = dict.fromkeys(
        (
            "parent",
            "parent_command",
            "argv",
            "state",
            "uid",
            "user",
            "started",
            "start_ticks",
            "daemon",
        )
    )
    return {
        **unknown,
        "pid": pid,
        "command": name,
        "cgroup": [],
        "container_ids": [],
        "devices": [],
        "gpu_minors": [],
        "in_proc": False,
        "in_driver": True,
        "gpus": [],
    }


def stale_reasons(
    holder: Mapping[str, Any],
    running_containers: Optional[Sequence[str]],
    listed_containers: Optional[Sequence[str]] = None,
) -> List[str]:
    """What speaks for a left-over: words for a person to judge, never a decision to kill.

    ``running_containers`` are the engine's full ids, ``listed_containers`` those in every state; None when they
    could not be read.
    """
    if holder["daemon"]:
        return []
    reasons = []
    if not holder["in_proc"]:
        reasons.append("the driver names it, but the host has no such process")
    if holder["state"] in ("Z", "X"):
        reasons.append("it has ended and nobody has waited for it")
    if holder["state"] == "D":
        reasons.append("it sits in uninterruptible sleep")
    containers = holder["container_ids"]
    if containers and running_containers is not None and not set(containers) & set(running_containers):
        gone = listed_containers is not None and not set(containers) & set(listed_containers)
        reasons.append(
            "its container %s %s" % (containers[0][:12], "was removed" if gone else "is not running")
        )
    if not containers and holder["parent"] == 1:
        reasons.append("its parent has ended (adopted by process 1)")
    return reasons
