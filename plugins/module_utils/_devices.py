# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs a process can see, from files alone and without exec (private to the collection).

A GPU of a container is a device file /dev/nvidiaN; N is the minor number that the host's
/proc/driver/nvidia/gpus/*/information gives together with the UUID. A file that is there and can't be opened
is the mark of a device cgroup that was reset (https://github.com/NVIDIA/nvidia-container-toolkit/issues/48):
the list of cgroup version 1 shows it, version 2 keeps it in a program that can't be read.
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Dict, List

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import process_tree
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, ProbeFailure, Reading

_NODE = re.compile(r"^nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)$")
_GPU_NODE = re.compile(r"^nvidia(\d+)$")
_DIRECTORIES = ("/dev", "/dev/nvidia-caps", "/dev/nvidia-caps-imex-channels", "/dev/infiniband", "/dev/dri")


def visible_devices(pid: int, proc: str = "/proc") -> Reading:
    """Device files in a process's /dev, the UUIDs of its GPUs, and the devices its cgroup allows."""
    if not pid:
        raise ProbeFailure(ABSENT, "no process: the container does not run")
    tree = process_tree(pid, proc)
    files: List[str] = []
    for directory in _DIRECTORIES:
        try:
            names = tree.names(directory)
        except ProbeFailure as failure:
            if failure.reading.outcome != ABSENT or directory == "/dev":
                raise
            continue
        for name in names:
            path = directory + "/" + name
            if (directory != "/dev" or _NODE.match(name) or name in ("gdrdrv", "kfd")) and _is_device(
                tree.find(path).status
            ):
                files.append(path)
    minors = sorted(
        int(match.group(1)) for match in map(_GPU_NODE.match, map(os.path.basename, files)) if match
    )
    known = gpus_by_minor(proc + "/driver/nvidia/gpus")
    value = {
        "files": files,
        "minors": minors,
        "uuids": sorted(known[minor] for minor in minors if minor in known),
        "unknown_minors": [minor for minor in minors if minor not in known],
        "cgroup": _cgroup_devices(pid, proc),
    }
    return Reading(value, source="%s/%d/root/dev" % (proc, pid))


def _is_device(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode)


def gpus_by_minor(directory: str) -> Dict[int, str]:
    """UUID by device minor, from the driver's own files; empty without a driver."""
    found: Dict[int, str] = {}
    try:
        names = os.listdir(directory)
    except OSError:
        return found
    for name in names:
        try:
            with open(
                os.path.join(directory, name, "information"), encoding="utf-8", errors="replace"
            ) as stream:
                fields = parse_information(stream.read(16384))
        except OSError:
            continue
        if fields.get("Device Minor", "").isdigit() and fields.get("GPU UUID"):
            found[int(fields["Device Minor"])] = fields["GPU UUID"]
    return found


def parse_information(text: str) -> Dict[str, str]:
    """/proc/driver/nvidia/gpus/ADDRESS/information: one ``Name: value`` a line."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def _cgroup_devices(pid: int, proc: str) -> Dict[str, Any]:
    """What the device cgroup allows, where it can be read."""
    try:
        with open("%s/%d/cgroup" % (proc, pid), encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except OSError as error:
        return {"allowed": None, "why": str(error.strerror)}
    for line in lines:
        _number, controllers, path = line.split(":", 2)
        if "devices" in controllers.split(","):
            try:
                with open("/sys/fs/cgroup/devices%s/devices.list" % path, encoding="utf-8") as stream:
                    return {"allowed": stream.read().splitlines(), "why": ""}
            except OSError as error:
                return {"allowed": None, "why": str(error.strerror)}
    return {"allowed": None, "why": "cgroup version 2 keeps it in a program that cannot be read"}
