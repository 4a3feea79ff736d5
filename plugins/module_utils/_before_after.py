# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was on a host before and after a freeze: containers, images, processes, files (private to the collection).

The list stands in every record, so that "nothing was changed" can be checked and not only believed. A host that
serves changes by itself meanwhile; such changes are listed too, without a claim about who made them.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OK,
    Emit,
    Probe,
    ProbeSpec,
    Reading,
)

SCHEMA = "gpufleet.baseline/before-after/1"
KINDS = ("containers", "images", "processes", "files")
# Where tools leave things behind; one level deep.
PLACES = (
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "~",
    "~/.ansible",
    "~/.ansible/tmp",
    "~/.cache",
    "~/.docker",
    "/root",
)
FILE_LIMIT = 5000

Listing = Dict[str, str]


def list_processes(without: int = 0, proc: str = "/proc") -> Listing:
    """Every process as ``pid started-tick`` with its name; ``without`` and what it started are left out."""
    found: Dict[int, Tuple[int, str, str]] = {}
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            with open(os.path.join(proc, entry, "stat"), "rb") as stream:
                content = stream.read().decode("utf-8", "backslashreplace")
        except OSError:
            continue  # it ended while the list was read
        # Field 2 is the name in parentheses and may hold any byte; 4 is the parent, 22 the start (proc_pid_stat(5)).
        name, _unused, rest = content.partition(" (")[2].rpartition(") ")
        fields = rest.split()
        found[int(entry)] = (int(fields[1]), fields[19], name)
    return {
        "%d %s" % (pid, started): name
        for pid, (_parent, started, name) in found.items()
        if not without or not _is_below(pid, without, found)
    }


def _is_below(pid: int, top: int, found: Mapping[int, Tuple[int, str, str]]) -> bool:
    seen = set()
    while pid in found and pid not in seen:
        if pid == top:
            return True
        seen.add(pid)
        pid = found[pid][0]
    return False


def list_files(places: Sequence[str] = PLACES) -> Listing:
    """Entries of the places with type, size in bytes and time of change."""
    found: Listing = {}
    for place in places:
        try:
            entries = list(os.scandir(os.path.expanduser(place)))
        except OSError:
            continue  # an absent or closed place holds nothing that we could have left there
        for entry in entries:
            if len(found) >= FILE_LIMIT:
                return found
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it was removed while the list was read
            if entry.is_dir(follow_symlinks=False):
                found[entry.path] = "directory"
            else:
                found[entry.path] = "%d bytes, changed %d" % (info.st_size, info.st_mtime)
    return found


def probes(
    docker_listing: Callable[[str], Listing], when: str, docker_deadline: float = 30.0
) -> List[ProbeSpec]:
    """The four lists as probes; ``docker_listing`` gives those of containers and images."""

    def reading(function: Callable[[], Listing], source: str) -> Callable[[Emit], Reading]:
        return lambda emit: Reading(function(), source=source)

    return [
        ProbeSpec(
            "%s.containers" % when,
            reading(lambda: docker_listing("containers"), "Docker Engine"),
            docker_deadline,
            "docker",
        ),
        ProbeSpec(
            "%s.images" % when,
            reading(lambda: docker_listing("images"), "Docker Engine"),
            docker_deadline,
            "docker",
        ),
        # A probe is a child of the module's process: what that one started is ours and no change of the host.
        ProbeSpec("%s.processes" % when, reading(lambda: list_processes(os.getppid()), "/proc"), 15.0),
        ProbeSpec("%s.files" % when, reading(list_files, ", ".join(PLACES)), 15.0),
    ]


def compare(before: Mapping[str, Probe], after: Mapping[str, Probe], own: Sequence[str]) -> Dict[str, Any]:
    """The document: both lists, and what differs. Entries that name one of ``own`` (staging, our pids) are left out."""
    document: Dict[str, Any] = {"schema": SCHEMA, "differences": {}, "before": {}, "after": {}}
    for kind in KINDS:
        first, second = before["before.%s" % kind], after["after.%s" % kind]
        document["before"][kind] = first.value if first.outcome == OK else {"not measured": first.message}
        document["after"][kind] = second.value if second.outcome == OK else {"not measured": second.message}
        if first.outcome == OK and second.outcome == OK:
            document["differences"][kind] = differences(first.value, second.value, own)
        else:
            document["differences"][kind] = {"not measured": first.message or second.message}
    return document


def differences(before: Listing, after: Listing, own: Sequence[str]) -> Dict[str, List[str]]:
    """What was added, removed or changed between two lists."""

    def foreign(key: str) -> bool:
        return not any(key == name or key.startswith((name + "/", name + " ")) for name in own)

    return {
        "added": sorted(key for key in after if key not in before and foreign(key)),
        "removed": sorted(key for key in before if key not in after and foreign(key)),
        "changed": sorted(
            key for key in after if key in before and after[key] != before[key] and foreign(key)
        ),
    }
