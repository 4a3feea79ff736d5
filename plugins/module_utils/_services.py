# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that a GPU host depends on, in systemd's view and as daemons (private to the collection).

A host without systemd still shows its daemons as processes.
https://www.freedesktop.org/software/systemd/man/latest/systemctl.html
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import read_line

UNITS = (
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "nvidia-imex.service",
    "nvlsm.service",
    "nvidia-dcgm.service",
    "nvidia-cdi-refresh.service",
    "nvidia-cdi-refresh.path",
    "docker.service",
    "docker.socket",
    "containerd.service",
    "podman.socket",
    "crio.service",
    "kubelet.service",
    "slurmd.service",
    "openibd.service",
    "opensm.service",
    "chronyd.service",
    "chrony.service",
    "systemd-timesyncd.service",
    "ntpsec.service",
    "unattended-upgrades.service",
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "firewalld.service",
)

PROPERTIES = (
    "Id",
    "Description",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "Result",
    "MainPID",
    "NRestarts",
    "ExecMainStatus",
    "ActiveEnterTimestamp",
    "InactiveEnterTimestamp",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
)

# What the kernel calls the daemons, cut at 15 characters: https://man7.org/linux/man-pages/man5/proc_pid_comm.5.html
DAEMONS = {
    "nvidia-persiste": "nvidia-persistenced",
    "nv-fabricmanage": "nvidia-fabricmanager",
    "nvidia-imex": "nvidia-imex",
    "nvlsm": "nvlsm",
    "nv-hostengine": "nvidia-dcgm",
    "dcgm-exporter": "dcgm-exporter",
    "dockerd": "docker",
    "containerd": "containerd",
    "crio": "crio",
    "kubelet": "kubelet",
    "slurmd": "slurmd",
    "opensm": "opensm",
    "chronyd": "chronyd",
    "ntpd": "ntpd",
}


def show_command(units: Sequence[str] = ()) -> List[str]:
    """The one question to systemd for all units; units that do not exist are answered as such."""
    return ["systemctl", "show", "--no-pager", "--property", ",".join(PROPERTIES), "--", *UNITS, *units]


def parse_show(text: str) -> List[Dict[str, Any]]:
    """The units that exist, one block of properties each."""
    units = []
    for block in text.split("\n\n"):
        pairs = (line.partition("=") for line in block.splitlines() if "=" in line)
        fields = {key: value for key, _equals, value in pairs}
        if fields.get("Id") and fields.get("LoadState") not in (None, "", "not-found"):
            units.append(_unit(fields))
    return units


def _unit(fields: Dict[str, str]) -> Dict[str, Any]:
    return {
        "name": fields["Id"],
        "description": fields.get("Description", ""),
        "load": fields.get("LoadState"),
        "active": fields.get("ActiveState"),
        "sub": fields.get("SubState"),
        "enabled": fields.get("UnitFileState") or None,
        "result": fields.get("Result"),
        "pid": _positive(fields.get("MainPID")),
        "restarts": _number(fields.get("NRestarts")),
        "exit_status": _number(fields.get("ExecMainStatus")),
        "since": fields.get("ActiveEnterTimestamp") or None,
        "stopped": fields.get("InactiveEnterTimestamp") or None,
        "file": fields.get("FragmentPath") or None,
        "drop_ins": (fields.get("DropInPaths") or "").split(),
        "needs_daemon_reload": fields.get("NeedDaemonReload") == "yes",
    }


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text and text.isdigit() else None


def _positive(text: Optional[str]) -> Optional[int]:
    return _number(text) or None


def find_daemons(root: str = "/") -> List[Dict[str, Any]]:
    """The daemons of DAEMONS that run, found among the host's processes."""
    base = os.path.join(root, "proc")
    found = []
    for name in os.listdir(base):
        if name.isdigit():
            daemon = DAEMONS.get(read_line(os.path.join(base, name, "comm")) or "")
            if daemon:
                found.append({"name": daemon, "pid": int(name)})
    return sorted(found, key=lambda row: (row["name"], row["pid"]))
