# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs as the kernel shows them, without asking the driver's tools (private to the collection).

The PCI bus, /proc/driver/nvidia and /dev answer also when nvidia-smi hangs.
https://docs.kernel.org/PCI/sysfs-pci.html
"""

from __future__ import annotations

import os
import re
import stat
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import read_line
from ansible_collections.gpufleet.baseline.plugins.module_utils._smi import pci_address

NVIDIA, AMD, INTEL = "0x10de", "0x1002", "0x8086"
VENDORS = {NVIDIA: "nvidia", AMD: "amd", INTEL: "intel"}

# PCI class codes (https://pcisig.com, "PCI Code and ID Assignment Specification"): VGA, 3D and other display
# controllers, and processing accelerators. A host's own display chip has none of the three vendors.
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
BRIDGE_CLASS = "0x0680"  # an NVSwitch shows itself as one

# A function bound to one of these was given to a virtual machine and is not this host's to use.
PASSED_ON = ("vfio-pci", "vfio_pci", "nvgrace_gpu_vfio_pci", "pci-stub", "xen-pciback")

DEVICE_NODES = re.compile(r"^(nvidia.*|kfd|gdrdrv)$")
GPU_NODE = re.compile(r"^nvidia(\d+)$")


def read_pci(root: str = "/") -> List[Dict[str, Any]]:
    """Every GPU and NVSwitch function on the PCI bus, of any vendor."""
    base = os.path.join(root, "sys/bus/pci/devices")
    found = []
    for address in sorted(os.listdir(base)):
        place = os.path.join(base, address)
        vendor = read_line(os.path.join(place, "vendor"))
        code = (read_line(os.path.join(place, "class")) or "")[:6]
        if vendor not in VENDORS or code not in GPU_CLASSES + (BRIDGE_CLASS,):
            continue
        if code == BRIDGE_CLASS and vendor != NVIDIA:
            continue
        found.append(_read_function(place, address, vendor, code))
    return found


def _read_function(place: str, address: str, vendor: str, code: str) -> Dict[str, Any]:
    def text(name: str) -> Optional[str]:
        return read_line(os.path.join(place, name))

    node = text("numa_node")
    return {
        "pci_address": pci_address(address),
        "vendor": VENDORS[vendor],
        "kind": "nvswitch" if code == BRIDGE_CLASS else "gpu",
        "vendor_id": vendor,
        "device_id": text("device"),
        "subsystem_id": text("subsystem_device"),
        "class": text("class"),
        "revision": text("revision"),
        "driver": _link_name(os.path.join(place, "driver")),
        "numa_node": int(node) if node and node.lstrip("-").isdigit() else None,
        "iommu_group": _link_name(os.path.join(place, "iommu_group")),
        "virtual_function": os.path.exists(os.path.join(place, "physfn")),
        "enabled": text("enable"),
        "link_speed": text("current_link_speed"),
        "link_speed_max": text("max_link_speed"),
        "link_width": text("current_link_width"),
        "link_width_max": text("max_link_width"),
    }


def _link_name(path: str) -> Optional[str]:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return None


def expected(functions: Sequence[Mapping[str, Any]]) -> List[str]:
    """The addresses of the NVIDIA GPUs that the driver's tools should list."""
    return [
        function["pci_address"]
        for function in functions
        if function["vendor"] == "nvidia"
        and function["kind"] == "gpu"
        and function["driver"] not in PASSED_ON
    ]


def vendors(functions: Sequence[Mapping[str, Any]]) -> List[str]:
    """The makers of the GPUs on the bus."""
    return sorted({function["vendor"] for function in functions if function["kind"] == "gpu"})


def parse_information(text: str) -> Dict[str, Any]:
    """One GPU's information file below /proc/driver/nvidia/gpus."""
    fields: Dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields[key.strip().lower()] = value.strip()
    minor = fields.get("device minor", "")
    uuid = fields.get("gpu uuid", "")
    excluded = fields.get("gpu excluded")
    return {
        "name": fields.get("model"),
        # a GPU that was never opened shows question marks in place of its UUID
        "uuid": uuid if uuid and "?" not in uuid else None,
        "vbios": _unless_unknown(fields.get("video bios")),
        "firmware": _unless_unknown(fields.get("gpu firmware")),
        "pci_address": pci_address(fields["bus location"]) if "bus location" in fields else None,
        "minor": int(minor) if minor.isdigit() else None,
        "excluded": None if excluded is None else excluded.lower() == "yes",
    }


def _unless_unknown(value: Optional[str]) -> Optional[str]:
    return None if value is None or "?" in value or value in ("N/A", "") else value


def read_proc_gpus(each: Callable[[List[Dict[str, Any]]], None], root: str = "/") -> List[Dict[str, Any]]:
    """The GPUs that the loaded module knows; ``each`` is given what is known so far after every one."""
    base = os.path.join(root, "proc/driver/nvidia/gpus")
    gpus: List[Dict[str, Any]] = []
    for address in sorted(os.listdir(base)):
        with open(
            os.path.join(base, address, "information"), encoding="utf-8", errors="backslashreplace"
        ) as stream:
            text = stream.read(65536)
        gpus.append({**parse_information(text), "pci_address": pci_address(address), "text": text})
        each(gpus)
    return gpus


def read_device_nodes(root: str = "/") -> List[Dict[str, Any]]:
    """The device nodes of GPUs, of IMEX channels and of InfiniBand, with owner and mode."""
    base = os.path.join(root, "dev")
    nodes: List[Dict[str, Any]] = []
    for name in sorted(os.listdir(base)):
        if DEVICE_NODES.match(name) or name == "infiniband":
            nodes += _nodes_at(base, name)
    return nodes


def _nodes_at(base: str, name: str) -> List[Dict[str, Any]]:
    path = os.path.join(base, name)
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode):
        return [
            node for child in sorted(os.listdir(path)) for node in _nodes_at(base, os.path.join(name, child))
        ]
    if not stat.S_ISCHR(status.st_mode):
        return []
    match = GPU_NODE.match(name)
    return [
        {
            "path": "/dev/" + name,
            "major": os.major(status.st_rdev),
            "minor": os.minor(status.st_rdev),
            "mode": "%04o" % stat.S_IMODE(status.st_mode),
            "uid": status.st_uid,
            "gid": status.st_gid,
            "gpu_minor": int(match.group(1)) if match else None,
        }
    ]
