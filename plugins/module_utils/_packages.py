# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed packages, read from what the package tools list (pure; private to the collection).

Only queries that take no lock and change nothing: dpkg-query -W and rpm -qa.
https://man7.org/linux/man-pages/man1/dpkg-query.1.html https://rpm.org/docs/latest/man/rpm.8
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Sequence

DPKG = (
    "dpkg-query",
    "-W",
    "-f",
    "${Package}\t${Version}\t${Architecture}\t${db:Status-Status}\t${db:Status-Want}\n",
)
RPM = ("rpm", "-qa", "--qf", "%{NAME}\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\t%{ARCH}\t%{INSTALLTIME}\n")

# rpm as root creates an empty database where there is none, so it is asked only where one lies.
RPM_DATABASES = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")

# Packages by which a GPU host differs from another one; the record holds the whole list.
_RELEVANT = re.compile(
    r"nvidia|cuda|cudnn|^libnv|^nvlsm|nccl|nvshmem|gdrcopy|gdrdrv|dcgm|imex|fabricmanager|doca|mlnx|ofed|rdma|"
    r"ibverbs|infiniband|^ucx|openmpi|docker|containerd|^runc$|^crun$|podman|^kube|cri-o|enroot|pyxis|slurm|"
    r"^linux-image|^kernel|^linux-modules|^dkms$|^libc6$|^glibc$|rocm|amdgpu"
)


def parse_dpkg(text: str) -> List[Dict[str, Any]]:
    """The rows of DPKG that stand for a package which is at least half installed."""
    packages = []
    for line in text.splitlines():
        parts = line.split("\t")
        if len(parts) != 5 or parts[3] in ("not-installed", "config-files"):
            continue
        name, version, architecture, status, want = parts
        row = {"name": name, "version": version, "architecture": architecture, "status": status}
        packages.append({**row, "held": want == "hold", "installed": None})
    return packages


def parse_rpm(text: str) -> List[Dict[str, Any]]:
    """The rows of RPM; an epoch of zero is not written, as the tools themselves do."""
    packages = []
    for line in text.splitlines():
        parts = line.split("\t")
        if len(parts) != 4:
            continue
        name, version, architecture, installed = parts
        row = {
            "name": name,
            "version": version[2:] if version.startswith("0:") else version,
            "architecture": architecture,
            "status": "installed",
            "held": False,
            "installed": float(installed) if installed.isdigit() else None,
        }
        packages.append(row)
    return packages


def relevant(packages: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The packages that concern GPUs, their network, containers and the kernel, by name."""
    return sorted(
        (package for package in packages if _RELEVANT.search(package["name"])),
        key=lambda package: (package["name"], package["version"]),
    )


def unfinished(packages: Sequence[Dict[str, Any]]) -> List[str]:
    """Packages that an interrupted upgrade left between two states."""
    return sorted(package["name"] for package in packages if package["status"] != "installed")
