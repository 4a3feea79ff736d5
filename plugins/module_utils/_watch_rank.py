# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank that is watched: which container or process it is, where its log is, who its processes are (private
to the collection).

The handle is what the module launch gave when it started the rank.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import descendants, stat_fields

LEASE = "lease"


@dataclass(frozen=True)
class Rank:
    """One started rank of this host. A container has no ``pid`` here: its first process is read when asked."""

    number: int
    container: str = ""
    name: str = ""
    pid: int = 0
    start_ticks: int = 0
    log: str = ""
    state_directory: str = ""
    api_port: Optional[int] = None
    # UUIDs of its GPUs; empty: all of the host
    gpus: Tuple[str, ...] = ()

    @classmethod
    def from_handle(cls, handle: Mapping[str, Any]) -> Rank:
        """Raises BaselineError for what is no handle."""
        container, process = handle.get("container") or {}, handle.get("process") or {}
        log = handle.get("log") or {}
        if not container.get("id") and not process.get("pid"):
            raise BaselineError(
                "ranks: expected a rank with a container's id or a process's pid, found %s; give what "
                "gpufleet.baseline.launch returned" % (", ".join(sorted(handle)) or "nothing")
            )
        if not container.get("id") and not log.get("path"):
            raise BaselineError("ranks: expected the log's path for process %s, found none" % process["pid"])
        port = handle.get("api_port")
        return cls(
            int(handle.get("rank") or 0),
            str(container.get("id") or ""),
            str(container.get("name") or ""),
            int(process.get("pid") or 0),
            int(process.get("start_ticks") or 0),
            str(log.get("path") or ""),
            str((handle.get("lease") or {}).get("directory") or ""),
            None if port is None else int(port),
            tuple(str(gpu) for gpu in handle.get("gpus") or () if gpu != "all"),
        )

    def describe(self) -> str:
        """For people."""
        if self.container:
            return "container %s" % (self.name or self.container[:12])
        return "process %d" % self.pid

    def renew_lease(self) -> Optional[bool]:
        """Tell the rank's lease that somebody still watches; None without one, False when it is gone."""
        if not self.state_directory:
            return None
        try:
            os.utime(os.path.join(self.state_directory, LEASE))
        except OSError:
            return False
        return True


@dataclass(frozen=True)
class Row:
    """One process, from /proc/PID/stat alone: reading it waits for nothing (proc_pid_stat(5))."""

    pid: int
    parent: int
    session: int
    command: str
    state: str
    start_ticks: int
    cpu_ticks: int
    threads: int
    resident_pages: int


def parse_row(text: str) -> Row:
    """A line of /proc/PID/stat; raises ValueError or IndexError for anything else."""
    pid, command, fields = stat_fields(text)
    return Row(
        pid,
        int(fields[1]),
        int(fields[3]),
        command,
        fields[0],
        int(fields[19]),
        int(fields[11]) + int(fields[12]),
        int(fields[17]),
        int(fields[21]),
    )


def read_row(pid: int, proc: str = "/proc") -> Optional[Row]:
    """A process; None when it is gone."""
    try:
        with open("%s/%d/stat" % (proc, pid), encoding="utf-8", errors="backslashreplace") as stream:
            return parse_row(stream.read())
    except (OSError, ValueError, IndexError):
        return None


def process_table(proc: str = "/proc") -> Dict[int, Row]:
    """Every process of the host."""
    rows = (read_row(int(name), proc) for name in os.listdir(proc) if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def members(table: Mapping[int, Row], leader: int) -> List[int]:
    """The processes of a rank: all below its first one, and all of that one's session.

    In a container an orphan gets the container's first process as its parent; on the host it keeps the session.
    """
    roots = [leader] if leader in table else []
    return descendants(table.values(), roots + [row.pid for row in table.values() if row.session == leader])


def is_alive(row: Optional[Row], start_ticks: int) -> bool:
    """Whether the process is the one that was started, and not over."""
    if row is None or row.state in ("Z", "X"):
        return False
    return not start_ticks or row.start_ticks == start_ticks
