# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a rank's server answers GET /health, and whether it is the rank's own (private to the collection).

On a host network a server that was there before answers on the same port, and would make the start look ready.
"""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._listening import socket_inodes
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Emit, Probe, Reading
from ansible_collections.gpufleet.baseline.plugins.module_utils._request._http import exchange

HEALTH_SECONDS = 2.0


def read_health(port: int, _emit: Emit) -> Reading:
    """The status of /health, and who listens on the port when it is well."""
    reply = exchange("http://127.0.0.1:%d" % port, "/health", timeout=HEALTH_SECONDS)
    answered = reply.status == 200
    return Reading({"status": reply.status, "listeners": listeners(port) if answered else None})


def listeners(port: int, root: str = "/") -> Optional[List[int]]:
    """Processes that have the listening socket of a port open; None when that cannot be told."""
    try:
        inodes = {"socket:[%s]" % inode for inode in socket_inodes(port, root)}
    except OSError:
        return None
    found = []
    for name in os.listdir(os.path.join(root, "proc")) if inodes else ():
        if not name.isdigit():
            continue
        directory = os.path.join(root, "proc", name, "fd")
        try:
            targets = {os.readlink(os.path.join(directory, each)) for each in os.listdir(directory)}
        except OSError:
            continue
        if targets & inodes:
            found.append(int(name))
    return found or None


def health_status(probe: Optional[Probe], sample: Optional[Mapping[str, Any]]) -> Optional[int]:
    """The status of /health; None also when another program than the rank listens on the port."""
    if probe is None or probe.value is None:
        return None
    found, pids = probe.value["listeners"], (sample or {}).get("pids")
    if found and pids and not set(found) & set(pids):
        return None
    status = probe.value["status"]
    return None if status is None else int(status)
