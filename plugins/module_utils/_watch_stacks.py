# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python stacks of a rank that is about to be stopped (private to the collection).

Nothing reads another process's Python stacks without a tool on the host. What there is without one: a Python that
was started with PYTHONFAULTHANDLER=1 writes the stacks of all threads to its standard error, which is the rank's log,
when it gets SIGABRT, and ends (https://docs.python.org/3/library/faulthandler.html). So this is for our own rank
alone, right before it is stopped in any case, and only for processes that catch that signal: the others would end
without a word. A core dump of a process with a terabyte mapped is prevented first: a limit of one byte writes no
file and starts no handler (core(5), fs/coredump.c of Linux).
"""

from __future__ import annotations

import os
import resource
import signal
import time
from typing import Any, Dict, List, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._process import parse_status
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import (
    Rank,
    is_alive,
    members,
    process_table,
    read_row,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_wait import Watch

SCHEMA = "gpufleet.baseline/python-stacks/1"
# What faulthandler writes is short; a process stuck in the driver does not get so far.
WAIT_SECONDS = 5.0
_LOOK_SECONDS = 0.1
# Of all handlers that catch SIGABRT, faulthandler's catches these as well (Modules/faulthandler.c of CPython).
_FATAL = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)


def write_stacks(ranks: Sequence[Rank], socket: str, wait_seconds: float = WAIT_SECONDS) -> Dict[str, Any]:
    """Let the ranks' Python processes write their stacks to the log and end; what was asked and what became of it."""
    states = Watch(ranks, socket, {}).states()
    table = process_table()
    asked: Dict[int, int] = {}
    document: Dict[str, Any] = {"schema": SCHEMA, "ranks": {}}
    for rank in ranks:
        leader = states[rank.number]["pid"] if states[rank.number]["running"] else 0
        rows: List[Dict[str, Any]] = []
        # The workers first: the engine ends its workers when it ends.
        for pid in reversed(members(table, leader) if leader else []):
            ticks = table[pid].start_ticks
            result = _ask(pid, ticks)
            rows.append({"pid": pid, "command": table[pid].command, "result": result})
            if result == "asked":
                asked[pid] = ticks
        document["ranks"][str(rank.number)] = rows
    end = time.monotonic() + wait_seconds
    while time.monotonic() < end and any(is_alive(read_row(pid), ticks) for pid, ticks in asked.items()):
        time.sleep(_LOOK_SECONDS)
    for rows in document["ranks"].values():
        for row in rows:
            if row["result"] == "asked":
                alive = is_alive(read_row(row["pid"]), asked[row["pid"]])
                row["result"] = "asked, and did not end" if alive else "written"
    return document


def _ask(pid: int, start_ticks: int) -> str:
    """Send the signal to a process that is still the one that was looked at and writes its stacks on it."""
    try:
        with open("/proc/%d/status" % pid, encoding="utf-8", errors="backslashreplace") as stream:
            status = parse_status(stream.read())
    except OSError:
        return "over already"
    if not catches(status.get("SigCgt", ""), _FATAL):
        return "not asked: no fault handler (PYTHONFAULTHANDLER=1 was not set)"
    try:
        _limit_core(pid)
        if not is_alive(read_row(pid), start_ticks):
            return "over already"
        os.kill(pid, signal.SIGABRT)
    except ProcessLookupError:
        return "over already"
    except OSError as error:
        return "not asked: %s" % error.strerror
    return "asked"


def catches(mask: str, numbers: Sequence[int]) -> bool:
    """Whether a process catches all these signals, by SigCgt of /proc/PID/status."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return False
    return all(bits & (1 << (number - 1)) for number in numbers)


def _limit_core(pid: int) -> None:
    """No core dump of this process, whatever the host does with them."""
    _soft, hard = resource.prlimit(pid, resource.RLIMIT_CORE)
    # Zero would keep a file from being written and still start a handler that the host has set up.
    soft = 1 if hard == resource.RLIM_INFINITY or hard >= 1 else 0
    resource.prlimit(pid, resource.RLIMIT_CORE, (soft, hard))
