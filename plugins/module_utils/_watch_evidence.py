# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the threads of a hung rank are, read from /proc and changing nothing (private to the collection).

For each thread: its state, the kernel function that it waits in, its system call, its kernel stack (root only) and
the share of a processor that it used during the look. A thread that spins in user space, as one of NCCL waiting for
a peer does, runs and uses all of one; a thread that waits for a lock or a socket sleeps and says where.
Files: https://man7.org/linux/man-pages/man5/proc.5.html and the pages it names.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    Emit,
    Probe,
    ProbeSpec,
    Reading,
    outcome_of,
    run_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import parse_status
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import (
    Rank,
    members,
    parse_row,
    process_table,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_wait import Watch

SCHEMA = "gpufleet.baseline/hang-evidence/1"
LOOK_SECONDS, DEADLINE = 1.0, 20.0
# vLLM's processes have some hundred threads each, most of which sleep in the same place.
THREADS_AT_MOST, PROCESSES_AT_MOST = 2048, 256
_NAMES_AT_MOST = 16
_STATUS = (
    "State",
    "Threads",
    "VmRSS",
    "VmSwap",
    "SigCgt",
    "voluntary_ctxt_switches",
    "nonvoluntary_ctxt_switches",
)


def collect(ranks: Sequence[Rank], socket: str) -> Dict[str, Any]:
    """The evidence of all ranks of this host, by rank number."""
    leaders = {number: state["pid"] for number, state in Watch(ranks, socket, {}).states().items()}
    table = process_table()
    specs: List[ProbeSpec] = []
    processes: Dict[int, List[int]] = {}
    for rank in ranks:
        processes[rank.number] = members(table, leaders[rank.number])[:PROCESSES_AT_MOST]
        # Each by itself: what hangs in the driver may hold up even a look at it.
        specs += [
            ProbeSpec("process.%d" % pid, partial(read_threads, pid), DEADLINE)
            for pid in processes[rank.number]
        ]
    answers = run_probes(specs, 32)
    return {
        "schema": SCHEMA,
        "ranks": {
            str(number): [_process(answers["process.%d" % pid], pid) for pid in pids]
            for number, pids in processes.items()
        },
    }


def _process(probe: Probe, pid: int) -> Dict[str, Any]:
    return {**(probe.value or {"pid": pid}), "outcome": probe.outcome, "message": probe.message}


def read_threads(pid: int, emit: Emit, proc: str = "/proc", look_seconds: float = LOOK_SECONDS) -> Reading:
    """One process with its threads, those that are in the same place together."""
    place = "%s/%d" % (proc, pid)
    row = parse_row(_text(place, "stat"))
    status = parse_status(_text(place, "status"))
    value: Dict[str, Any] = {
        "pid": pid,
        "parent": row.parent,
        "command": row.command,
        "state": row.state,
        "start_ticks": row.start_ticks,
        "status": {name: status[name] for name in _STATUS if name in status},
        "cgroup": _tried(place, "cgroup")[0],
        "threads": [],
    }
    emit(Reading(dict(value), source=place))
    names = sorted((name for name in os.listdir(place + "/task") if name.isdigit()), key=int)
    before = {name: _cpu_ticks(place, name) for name in names[:THREADS_AT_MOST]}
    began = time.monotonic()
    time.sleep(look_seconds)
    threads = []
    for name in names[:THREADS_AT_MOST]:
        thread = _thread(place, name, before[name], time.monotonic() - began)
        if thread is not None:
            threads.append(thread)
    value["threads"] = together(threads)
    value["more_threads"] = max(0, len(names) - THREADS_AT_MOST)
    return Reading(value, source=place)


def _text(place: str, name: str) -> str:
    with open(place + "/" + name, encoding="utf-8", errors="backslashreplace") as stream:
        return stream.read(1024 * 1024)


def _tried(place: str, name: str) -> Tuple[Optional[str], str]:
    """A file's text, or why there is none."""
    try:
        return _text(place, name).strip(), ""
    except OSError as error:
        return None, outcome_of(error)


def _cpu_ticks(place: str, name: str) -> Optional[int]:
    text, _why = _tried(place, "task/%s/stat" % name)
    return parse_row(text).cpu_ticks if text else None


def _thread(place: str, name: str, before: Optional[int], seconds: float) -> Optional[Dict[str, Any]]:
    text, _why = _tried(place, "task/%s/stat" % name)
    if not text:
        return None  # ended meanwhile
    row = parse_row(text)
    used = None if before is None else (row.cpu_ticks - before) / os.sysconf("SC_CLK_TCK") / seconds
    stack, refused = _tried(place, "task/%s/stack" % name)
    wchan, _why = _tried(place, "task/%s/wchan" % name)
    call, _why = _tried(place, "task/%s/syscall" % name)
    return {
        "tid": int(name),
        "name": row.command,
        "state": row.state,
        "wchan": wchan,
        "syscall": None if call is None else call.split(" ")[0],
        "stack": None if stack is None else [line.split("] ", 1)[-1] for line in stack.splitlines()],
        "stack_refused": refused,
        "cpu_percent": None if used is None else round(100 * used),
    }


def together(threads: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Threads that are in the same place as one entry; those that use a processor first."""
    groups: Dict[Tuple[Any, ...], List[Mapping[str, Any]]] = {}
    for thread in threads:
        key = (
            thread["state"],
            thread["wchan"],
            thread["syscall"],
            tuple(thread["stack"] or ()),
            (thread["cpu_percent"] or 0) >= 50,
        )
        groups.setdefault(key, []).append(thread)
    found = []
    for same in groups.values():
        first = same[0]
        found.append(
            {
                "count": len(same),
                "tids": [thread["tid"] for thread in same[:_NAMES_AT_MOST]],
                "names": list(dict.fromkeys(thread["name"] for thread in same))[:_NAMES_AT_MOST],
                "cpu_percent": max((thread["cpu_percent"] or 0) for thread in same),
                **{key: first[key] for key in ("state", "wchan", "syscall", "stack", "stack_refused")},
            }
        )
    return sorted(found, key=lambda group: (-group["cpu_percent"], -group["count"]))
