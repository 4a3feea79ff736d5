# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What /proc tells about a process (private to the collection).

Files: https://man7.org/linux/man-pages/man5/proc.5.html and the pages it names. Reading cmdline, environ or
maps waits for the process's memory lock, which a process stuck in the driver may hold for ever: callers read
each process in a probe of its own.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Protocol, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OK,
    ProbeFailure,
    Reading,
    outcome_of,
    read_file,
)

_LIBRARY = re.compile(
    r"/(?P<kind>libcuda|libcudart|libnccl|libnvidia-ml|libnvidia-ptxjitcompiler|libnvrtc|libcublas|libcudnn|"
    r"libtorch_cuda|libnvshmem_host|libibverbs|libucp|libnixl)(?:-[0-9a-f]+)?\.so(?P<version>[0-9.]*)"
)
_DEVICE = re.compile(r"^/dev/(nvidia|infiniband/|dri/|gdrdrv|kfd|shm/)")
_LOG_DESCRIPTORS = (1, 2)


@dataclass(frozen=True)
class ProcessLine:
    """One line of the list of processes: what can be read without the process's memory lock, and its argv."""

    pid: int
    parent: int
    command: str
    state: str
    start_ticks: int
    cgroup: str = ""
    pid_namespace: str = ""
    argv: List[str] = field(default_factory=list)


class InTree(Protocol):
    """A process with its parent."""

    @property
    def pid(self) -> int: ...

    @property
    def parent(self) -> int: ...


def stat_fields(text: str) -> Tuple[int, str, List[str]]:
    """/proc/PID/stat as pid, command, and the fields from the state on (proc_pid_stat(5)).

    The command stands in parentheses and may itself contain some.
    """
    head, _parenthesis, tail = text.rpartition(")")
    pid, _space, command = head.partition(" (")
    return int(pid), command, tail.split()


def parse_stat(text: str) -> ProcessLine:
    """/proc/PID/stat."""
    pid, command, fields = stat_fields(text)
    return ProcessLine(pid, int(fields[1]), command, fields[0], int(fields[19]))


def parse_arguments(content: bytes) -> List[str]:
    """/proc/PID/cmdline or environ: items that end with a zero byte. A title may lack it and be padded."""
    items = content.split(b"\0")
    while items and not items[-1]:
        items.pop()
    return [item.decode("utf-8", "backslashreplace") for item in items]


def parse_maps(text: str) -> Dict[str, Any]:
    """/proc/PID/maps: libraries of the driver and of CUDA, mapped devices, deleted libraries."""
    files: Dict[str, bool] = {}
    for line in text.splitlines():
        parts = line.split(None, 5)
        if len(parts) == 6 and parts[5].startswith("/"):
            path = parts[5]
            deleted = path.endswith(" (deleted)")
            files[path[: -len(" (deleted)")] if deleted else path] = deleted
    libraries = []
    for path in sorted(files):
        match = _LIBRARY.search(path)
        if match:
            compat = bool(re.search(r"/(cuda[^/]*/)?compat/", path))
            version = match.group("version").lstrip(".")
            libraries.append(
                {
                    "kind": match.group("kind"),
                    "path": path,
                    "version": version,
                    "deleted": files[path],
                    "compat": compat,
                }
            )
    return {
        "libraries": libraries,
        "devices": sorted(path for path in files if _DEVICE.match(path) and not path.startswith("/dev/shm/")),
        "deleted": sorted(
            path for path, deleted in files.items() if deleted and ".so" in os.path.basename(path)
        ),
    }


def parse_limits(text: str) -> Dict[str, Dict[str, str]]:
    """/proc/PID/limits, by the kernel's own names; columns are cut by width, since names have spaces."""
    limits = {}
    for line in text.splitlines()[1:]:
        match = re.match(r"^(?P<name>.{25}) (?P<soft>\S+)\s+(?P<hard>\S+)\s*(?P<unit>\S*)", line)
        if match:
            limits[match.group("name").strip()] = {"soft": match.group("soft"), "hard": match.group("hard")}
    return limits


def parse_status(text: str) -> Dict[str, str]:
    """/proc/PID/status as it stands."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, value in pairs}


def root_mount(mountinfo: str) -> str:
    """The last line of /proc/PID/mountinfo that mounts "/"; a later mount covers an earlier one."""
    lines = [line for line in mountinfo.splitlines() if len(line.split()) > 4 and line.split()[4] == "/"]
    return lines[-1] if lines else ""


def mount_of(mountinfo: str, path: str) -> Dict[str, str]:
    """The mount that a path lies on, without touching the path: a dead server cannot hold this up."""
    best: Tuple[int, Dict[str, str]] = (-1, {})
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if not separator or len(fields) < 6 or len(tail) < 2:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), fields[4])
        covers = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is on top.
        if covers and len(point) >= best[0]:
            best = (len(point), {"point": point, "type": tail[0], "source": tail[1], "options": fields[5]})
    return best[1]


def start_time(start_ticks: int, proc_stat: str, ticks_per_second: int) -> Optional[float]:
    """When a process started, in seconds since 1970: the boot time plus its start in clock ticks."""
    match = re.search(r"^btime (\d+)$", proc_stat, re.MULTILINE)
    return int(match.group(1)) + start_ticks / ticks_per_second if match else None


def list_processes(
    proc: str = "/proc", emit: Optional[Callable[[List[ProcessLine]], None]] = None
) -> List[ProcessLine]:
    """Every process; those in uninterruptible sleep are asked for their argv last."""
    lines = []
    for name in os.listdir(proc):
        if name.isdigit():
            line = _safe_line(proc, int(name))
            if line is not None:
                lines.append(line)
    lines.sort(key=lambda line: (line.state == "D", line.pid))
    for index, line in enumerate(lines):
        if emit is not None and line.state == "D":
            emit(lines)
        lines[index] = ProcessLine(
            **{**vars(line), "argv": parse_arguments(_bytes(proc, line.pid, "cmdline"))}
        )
    return sorted(lines, key=lambda line: line.pid)


def _safe_line(proc: str, pid: int) -> Optional[ProcessLine]:
    stat = _bytes(proc, pid, "stat").decode("utf-8", "backslashreplace")
    if not stat:
        return None
    cgroup = _bytes(proc, pid, "cgroup").decode("utf-8", "backslashreplace")
    return ProcessLine(
        **{**vars(parse_stat(stat)), "cgroup": cgroup, "pid_namespace": _link(proc, pid, "ns/pid")}
    )


def _bytes(proc: str, pid: int, name: str, limit: int = 4 * 1024 * 1024) -> bytes:
    """A file of a process; empty when the process is gone or refuses."""
    try:
        with open("%s/%d/%s" % (proc, pid, name), "rb") as stream:
            return stream.read(limit)
    except OSError:
        return b""


def _link(proc: str, pid: int, name: str) -> str:
    try:
        return os.readlink("%s/%d/%s" % (proc, pid, name))
    except OSError:
        return ""


def ancestors(lines: Sequence[ProcessLine], pid: int) -> List[ProcessLine]:
    """From the parent to init."""
    by_pid = {line.pid: line for line in lines}
    found: List[ProcessLine] = []
    current = by_pid.get(pid)
    while current is not None and current.parent in by_pid and len(found) < 64:
        current = by_pid[current.parent]
        found.append(current)
    return found


def descendants(lines: Iterable[InTree], roots: Iterable[int]) -> List[int]:
    """The given processes and everything below them."""
    children: Dict[int, List[int]] = {}
    for line in lines:
        children.setdefault(line.parent, []).append(line.pid)
    found: Dict[int, None] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found[pid] = None
            waiting += children.get(pid, [])
    return sorted(found)


def read_process(pid: int, emit: Callable[[Reading], None], proc: str = "/proc") -> Reading:
    """Everything about one process. What can hang is read last, and what is there before is emitted."""
    stat = parse_stat(str(read_file("%s/%d/stat" % (proc, pid)).value))
    refused: Dict[str, str] = {}
    facts: Dict[str, Any] = {
        "pid": pid,
        "parent": stat.parent,
        "command": stat.command,
        "state": stat.state,
        "start_ticks": stat.start_ticks,
        "started": start_time(
            stat.start_ticks, str(read_file(proc + "/stat").value), os.sysconf("SC_CLK_TCK")
        ),
    }
    parsers: Mapping[str, Callable[[str], Any]] = {
        "status": parse_status,
        "cgroup": str,
        "limits": parse_limits,
        "mountinfo": str,
        "wchan": str,
        "oom_score_adj": str.strip,
    }
    for name, parse in parsers.items():
        _collect(facts, refused, name, partial(_parsed, proc, pid, name, parse))
    for key, name in (("exe", "exe"), ("cwd", "cwd"), ("root", "root"), ("pid_namespace", "ns/pid")):
        _collect(facts, refused, key, partial(os.readlink, "%s/%d/%s" % (proc, pid, name)))
    _collect(facts, refused, "open", lambda: open_files("%s/%d/fd" % (proc, pid)))
    facts["refused"] = refused
    source = "%s/%d" % (proc, pid)
    emit(Reading(dict(facts), source=source))
    _collect(facts, refused, "argv", lambda: parse_arguments(_raw(proc, pid, "cmdline")))
    _collect(facts, refused, "environ", lambda: parse_arguments(_raw(proc, pid, "environ")))
    return Reading(facts, outcome=OK, source=source)


def _raw(proc: str, pid: int, name: str) -> bytes:
    return read_file("%s/%d/%s" % (proc, pid, name)).raw


def _parsed(proc: str, pid: int, name: str, parse: Callable[[str], Any]) -> Any:
    return parse(str(read_file("%s/%d/%s" % (proc, pid, name)).value))


def _collect(facts: Dict[str, Any], refused: Dict[str, str], key: str, read: Callable[[], Any]) -> None:
    """One piece of a process; a refused piece is named and the others stay."""
    try:
        facts[key] = read()
    except ProbeFailure as failure:
        facts[key], refused[key] = None, failure.reading.outcome
    except OSError as error:
        facts[key], refused[key] = None, outcome_of(error)


def open_files(directory: str) -> Dict[str, Any]:
    """Open devices with how often, and where standard output and error go: that is where the log is."""
    devices: Dict[str, int] = {}
    outputs: Dict[str, str] = {}
    for name in os.listdir(directory):
        try:
            target = os.readlink(os.path.join(directory, name))
        except OSError:
            continue  # closed meanwhile
        if _DEVICE.match(target) and not target.startswith("/dev/shm/"):
            devices[target] = devices.get(target, 0) + 1
        if name.isdigit() and int(name) in _LOG_DESCRIPTORS:
            outputs[name] = target
    return {"devices": dict(sorted(devices.items())), "outputs": dict(sorted(outputs.items()))}


def log_kind(target: str) -> str:
    """What an output descriptor's target is: file, journal or other socket, pipe, terminal, nowhere."""
    if target.startswith(("/dev/pts/", "/dev/tty")):
        return "terminal"
    if target == "/dev/null":
        return "nowhere"
    for kind in ("pipe", "socket"):
        if target.startswith(kind + ":"):
            return kind
    return "file" if target.startswith("/") else "other"


def identity(facts: Mapping[str, Any]) -> str:
    """What tells this process from a later one with the same number."""
    return "%s@%s" % (facts.get("pid"), facts.get("start_ticks"))
