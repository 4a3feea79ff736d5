# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank's processes do, as numbers that grow while they work: bytes read, GPU memory, CPU time; and who
else holds a GPU (private to the collection).

Bytes are counted two ways. ``bytes_read`` is what the processes asked to read; ``bytes_from_disk`` is what was
fetched from storage for them, which also counts pages of mapped files, the usual way to load safetensors
(proc_pid_io(5)). Both need root or the processes' own user.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_memory, _nvml, _nvml_calls
from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import read_line
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_holders import read_holders
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Emit, Reading
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import container_ids
from ansible_collections.gpufleet.baseline.plugins.module_utils._services import DAEMONS
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import (
    Row,
    members,
    process_table,
    read_row,
)

_PROCESS_CALLS = [call for call in _nvml_calls.GPU if call.fact.endswith("_processes")]


def read_processes(leaders: Mapping[int, int], proc: str = "/proc") -> Reading:
    """For each rank, by the pid of its first process, what its processes have done so far."""
    table = process_table(proc)
    return Reading(
        {number: process_sample(table, members(table, leader), proc) for number, leader in leaders.items()},
        source=proc,
    )


def process_sample(table: Mapping[int, Row], pids: Sequence[int], proc: str = "/proc") -> Dict[str, Any]:
    """The sums over some processes; None for what may not be read of any of them."""
    rows = [table[pid] for pid in pids]
    counters = [counter for counter in (_io(pid, proc) for pid in pids) if counter is not None]
    return {
        "pids": list(pids),
        "bytes_read": sum(counter["rchar"] for counter in counters) if counters else None,
        "bytes_from_disk": sum(counter["read_bytes"] for counter in counters) if counters else None,
        "cpu_seconds": round(sum(row.cpu_ticks for row in rows) / os.sysconf("SC_CLK_TCK"), 2),
        "threads": sum(row.threads for row in rows),
        "resident_bytes": sum(row.resident_pages for row in rows) * os.sysconf("SC_PAGE_SIZE"),
    }


def _io(pid: int, proc: str) -> Optional[Dict[str, int]]:
    try:
        with open("%s/%d/io" % (proc, pid), encoding="ascii", errors="replace") as stream:
            pairs = [line.split(":") for line in stream if ":" in line]
    except OSError:
        return None
    found = {name: int(value) for name, value in pairs}
    return found if {"rchar", "read_bytes"} <= set(found) else None


def read_gpus(emit: Emit) -> Reading:
    """Memory in use on each GPU, and the processes that the driver knows of on it."""
    emit(Reading(message="NVML"))
    with _gpu_memory.opened() as used:
        memory = used()
        nvml = _nvml.import_library()
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                uuid, minor = str(nvml.nvmlDeviceGetUUID(handle)), int(nvml.nvmlDeviceGetMinorNumber(handle))
            except nvml.NVMLError:
                continue  # a GPU that fell off the bus; its memory is None already
            gpus.append({"uuid": uuid, "minor": minor, "processes": _processes_of(nvml, handle)})
    return Reading({"memory": memory, "gpus": gpus}, source="NVML")


def _processes_of(nvml: Any, handle: Any) -> List[Dict[str, Any]]:
    found: Dict[int, Dict[str, Any]] = {}
    for call in _PROCESS_CALLS:
        try:
            for process in call.ask(nvml, handle):
                found.setdefault(process["pid"], {**process, "kind": call.fact.rpartition("_")[0]})
        except nvml.NVMLError:
            continue  # MPS, for instance, is not supported everywhere
    return list(found.values())


def read_all_holders(emit: Emit) -> Reading:
    """Every process with an open GPU device, in /proc."""
    return read_holders(emit)


def rank_memory(gpus: Sequence[Mapping[str, Any]], pids: Sequence[int]) -> Optional[Dict[str, int]]:
    """GPU memory of a rank's own processes, by UUID; None where the driver tells of none of them."""
    ours: Dict[str, int] = {}
    for gpu in gpus:
        sizes = [entry["memory_used"] for entry in gpu["processes"] if entry["pid"] in set(pids)]
        known = [int(size) for size in sizes if size is not None]
        if known:
            ours[str(gpu["uuid"])] = sum(known)
    return ours or None


def completed(holder: Dict[str, Any], proc: str = "/proc") -> Dict[str, Any]:
    """A holder that only the driver named so far, with what /proc says of it."""
    if holder["in_proc"]:
        return holder
    row = read_row(holder["pid"], proc)
    if row is not None:
        parent = read_row(row.parent, proc)
        cgroup = read_line("%s/%d/cgroup" % (proc, row.pid), 65536) or ""
        holder.update(
            command=row.command,
            start_ticks=row.start_ticks,
            parent_command=None if parent is None else parent.command,
            container_ids=list(dict.fromkeys(container_ids(cgroup))),
            daemon=DAEMONS.get(row.command),
        )
    return holder


def strangers(
    holders: Sequence[Mapping[str, Any]],
    ours: Set[int],
    containers: Set[str],
    watched: Set[str],
) -> List[Dict[str, Any]]:
    """Holders that are no process of a rank or of its container, and no daemon of the system.

    ``watched`` are UUIDs of the ranks' GPUs; empty: any GPU counts. A holder of an unknown GPU counts.
    """
    found = []
    for holder in holders:
        gpus = {entry["uuid"] for entry in holder["gpus"]}
        elsewhere = bool(watched) and bool(gpus) and not gpus & watched
        inside = holder["pid"] in ours or set(holder["container_ids"]) & containers
        if inside or holder["daemon"] or elsewhere:
            continue
        sizes = [entry["memory_used"] for entry in holder["gpus"] if entry["memory_used"] is not None]
        found.append(
            {
                "pid": holder["pid"],
                "identity": identity(holder),
                "command": holder["command"],
                "parent_command": holder["parent_command"],
                "user": holder["user"],
                "started": holder["started"],
                "container_ids": list(holder["container_ids"]),
                "gpus": sorted(gpus),
                "bytes": sum(sizes) if sizes else None,
            }
        )
    return found


def identity(holder: Mapping[str, Any]) -> str:
    """What tells a holder from a later process with its number."""
    return "%s@%s" % (holder["pid"], holder["start_ticks"])
