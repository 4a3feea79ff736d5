# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA driver: as loaded, as it lies on disk, as new processes load it (private to the collection).

Three views that should be equal: the loaded kernel module, the module that the next load gives, and the user
libraries. https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

# Where the user libraries may lie and not be in the loader's cache: virtual machines that mount the driver,
# managed Kubernetes nodes, the GPU operator's driver container, and the distributions' own directories.
LIBRARY_DIRECTORIES = (
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/home/kubernetes/bin/nvidia/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "/run/nvidia/driver/usr/lib64",
)

# The libraries that every CUDA process loads, and those by which a half-done upgrade shows.
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1")

# Modules that decide about GPUs and the network between them; others are left to the record of all modules.
MODULES = (
    "nvidia",
    "nvidia_uvm",
    "nvidia_modeset",
    "nvidia_drm",
    "nvidia_peermem",
    "nvidia_cspmu",
    "gdrdrv",
    "nouveau",
    "amdgpu",
    "vfio_pci",
    "ib_core",
    "ib_umad",
    "ib_uverbs",
    "rdma_cm",
    "mlx5_core",
    "mlx5_ib",
)

_NVRM = re.compile(r"NVRM version:\s*(.*?Kernel Module.*?)\s+(\d+(?:\.\d+)+)(?:\s|$)")
_LDCONFIG = re.compile(r"^\s+(\S+) \(([^)]*)\) => (\S+)\s*$")
_SUFFIX = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
_MODULE_FILE = re.compile(r"/nvidia\.ko(?:\.[a-z0-9]+)?$")


def parse_proc_version(text: str) -> Dict[str, Optional[str]]:
    """Version and flavour in /proc/driver/nvidia/version."""
    match = _NVRM.search(text)
    if not match:
        return {"version": None, "flavour": None}
    flavour = "open" if "Open Kernel Module" in match.group(1) else "proprietary"
    return {"version": match.group(2), "flavour": flavour}


def parse_modinfo(text: str) -> Dict[str, str]:
    """The fields of modinfo that stand once."""
    wanted = ("filename", "version", "license", "srcversion", "vermagic")
    found: Dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() in wanted:
            found.setdefault(key.strip(), value.strip())
    return found


def parse_ldconfig(text: str, machine: str) -> List[Dict[str, str]]:
    """The loader's cache, for the libraries of interest and this processor, in the loader's own order."""
    flavour = {"x86_64": "x86-64", "aarch64": "AArch64"}.get(machine, "")
    rows = []
    for line in text.splitlines():
        match = _LDCONFIG.match(line)
        if match and match.group(1) in LIBRARIES and flavour in match.group(2):
            rows.append({"name": match.group(1), "path": match.group(3)})
    return rows


def library_version(path: str) -> Optional[str]:
    """580.159.04 in the name of libcuda.so.580.159.04."""
    match = _SUFFIX.search(path)
    return match.group(1) if match else None


def find_libraries(
    cache: Sequence[Mapping[str, str]], directories: Sequence[str] = LIBRARY_DIRECTORIES
) -> List[Dict[str, Any]]:
    """The driver's user libraries: first those in the loader's cache, then those that lie elsewhere.

    ``first`` marks the one that a process without LD_LIBRARY_PATH loads.
    """
    rows: List[Dict[str, Any]] = []
    candidates = [(row["name"], row["path"], True) for row in cache]
    candidates += [(name, os.path.join(place, name), False) for place in directories for name in LIBRARIES]
    seen = set()
    for name, path, listed in candidates:
        if not os.path.exists(path):
            continue
        real = os.path.realpath(path)
        if (name, real) in seen:
            continue
        seen.add((name, real))
        first = not any(row["name"] == name for row in rows)
        rows.append(
            {
                "name": name,
                "path": path,
                "file": real,
                "version": library_version(real),
                "in_loader_cache": listed,
                "first": first,
            }
        )
    return rows


def read_modules(root: str = "/") -> Dict[str, Dict[str, Optional[str]]]:
    """The loaded modules among MODULES with their version and source checksum."""
    found: Dict[str, Dict[str, Optional[str]]] = {}
    base = os.path.join(root, "sys/module")
    for name in MODULES:
        if os.path.isdir(os.path.join(base, name)):
            found[name] = {
                "version": read_line(os.path.join(base, name, "version")),
                "srcversion": read_line(os.path.join(base, name, "srcversion")),
                "users": read_line(os.path.join(base, name, "refcnt")),
            }
    return found


def read_firmware(root: str = "/") -> List[str]:
    """The driver versions for which firmware of the GPU's system processor lies on disk."""
    base = os.path.join(root, "lib/firmware/nvidia")
    try:
        names = os.listdir(base)
    except FileNotFoundError:
        return []
    return sorted(
        name for name in names if re.match(r"\d+\.\d+", name) and os.listdir(os.path.join(base, name))
    )


def read_dkms(root: str = "/") -> List[Dict[str, str]]:
    """The builds of the driver's module that DKMS keeps: driver version and kernel."""
    base = os.path.join(root, "var/lib/dkms/nvidia")
    builds = []
    try:
        versions = sorted(os.listdir(base))
    except (FileNotFoundError, NotADirectoryError):
        return []
    for version in versions:
        place = os.path.join(base, version)
        if not os.path.isdir(place) or os.path.islink(place) or not version[:1].isdigit():
            continue
        kernels = [name for name in sorted(os.listdir(place)) if name not in ("source", "build")]
        builds += [{"version": version, "kernel": name} for name in kernels or [""]]
    return builds


def read_toolkits(root: str = "/") -> List[Dict[str, Optional[str]]]:
    """CUDA toolkits on the host; their version is another one than the driver's and the image's."""
    base = os.path.join(root, "usr/local")
    found = []
    for name in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        path = os.path.join(base, name)
        if name.startswith("cuda") and os.path.isdir(path):
            target = os.path.realpath(path) if os.path.islink(path) else None
            text = read_line(os.path.join(path, "version.json"), 65536) or ""
            match = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([^"]+)"', text)
            found.append({"path": path, "target": target, "version": match.group(1) if match else None})
    return found


def read_line(path: str, limit: int = 256) -> Optional[str]:
    """A small file of /sys or /proc, stripped; None when it is not there or can't be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit).decode("utf-8", "backslashreplace").strip()
    except OSError:
        return None


def why_not_to_ask(root: str = "/", release: Optional[str] = None) -> str:
    """Why nvidia-smi and NVML must not be called on this host, empty when they may.

    As root both of them load the kernel module and create the device nodes when these are missing:
    https://github.com/NVIDIA/nvidia-modprobe. A host that is being frozen stays as it was.
    """
    if os.path.isdir(os.path.join(root, "sys/module/nvidia")):
        if os.path.exists(os.path.join(root, "dev/nvidiactl")):
            return ""
        return "the kernel module is loaded but /dev/nvidiactl is not there, and asking would create it"
    kernel = os.uname().release if release is None else release
    if module_is_on_disk(root, kernel):
        return "the kernel module nvidia is on disk but not loaded, and asking would load it"
    return ""


def module_is_on_disk(root: str, release: str) -> bool:
    """Whether the running kernel could load a module named nvidia."""
    path = os.path.join(root, "lib/modules", release, "modules.dep")
    try:
        with open(path, encoding="utf-8", errors="backslashreplace") as stream:
            return any(_MODULE_FILE.search(line.partition(":")[0]) for line in stream)
    except OSError:
        return False


def agreement(
    loaded: Optional[str], on_disk: Optional[str], libraries: Mapping[str, Optional[str]]
) -> Dict[str, Any]:
    """What the three views say together: a state, what it means, and the views that could not be compared.

    ``libraries`` are the versions that a new process loads, by library name.
    """
    known = {name: version for name, version in libraries.items() if version}
    unmeasured = []
    if not on_disk:
        unmeasured.append("module on disk")
    if not known:
        unmeasured.append("user libraries")
    if not loaded:
        state = "not loaded" if on_disk or known else "no driver"
        return {"state": state, "meaning": _MEANINGS[state], "unmeasured": unmeasured}
    others = {name: version for name, version in known.items() if version != loaded}
    if others:
        state = "user libraries differ"
    elif not known and not on_disk:
        state = "unmeasured"
    elif on_disk and on_disk != loaded:
        state = "module on disk differs"
    else:
        state = "equal" if known else "unmeasured"
    return {"state": state, "meaning": _MEANINGS[state], "unmeasured": unmeasured}


_MEANINGS = {
    "equal": "the loaded module and the user libraries are of one version",
    "no driver": "there is no NVIDIA driver on this host",
    "not loaded": "driver files are there, the kernel module is not loaded",
    "user libraries differ": (
        "new processes load other user libraries than the loaded module's: new starts fail, running ones go "
        "on; finish the upgrade of all driver packages, then reboot"
    ),
    "module on disk differs": "another driver version takes over at the next load of the module or reboot",
    "unmeasured": "the user libraries could not be compared with the loaded module",
}
