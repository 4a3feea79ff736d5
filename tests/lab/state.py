# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""States of the simulated GPUs: the files in states/, and what a host shows when it is in one."""

from __future__ import annotations

import json
import re
from pathlib import Path

STATES = Path(__file__).parent / "states"
PACKAGE_ENTRY = """Package: {name}
Status: install ok installed
Priority: optional
Section: non-free/libs
Installed-Size: 1
Maintainer: NVIDIA <linux-bugs@nvidia.com>
Architecture: {architecture}
Version: {version}
Description: part of the simulated NVIDIA driver

"""

State = dict[str, str]


def names() -> list[str]:
    """Every ready-made state."""
    return sorted(path.stem for path in STATES.glob("*.state"))


def load(name: str, node: int = 1) -> State:
    """The state of that name as host number `node` (from 1) sees it."""
    if name not in names():
        raise ValueError(f"no state {name!r} in {STATES}; there are {', '.join(names())}")
    state = _read(name, node)
    if "driver_version" in state:
        state.setdefault("library_version", state["driver_version"])
        state.setdefault("module_version", state["library_version"])
    return {key: value for key, value in state.items() if value}


def _read(name: str, node: int) -> State:
    state: State = {}
    for line in (STATES / f"{name}.state").read_text().splitlines():
        if line.startswith("include "):
            state.update(_read(line.split()[1], node))
        elif line and not line.startswith("#"):
            key, _equals, value = line.partition("=")
            key = key.strip()
            other = re.match(r"node\.(\d+)\.(.*)", key)
            if other and int(other[1]) != node:
                continue
            key = other[2] if other else key
            _forget_narrower(state, key)
            state[key] = value.strip().format(node=node, slot=24 + node, tray=14 + node)
    return state


def _forget_narrower(state: State, key: str) -> None:
    """A later line for all GPUs overrules an earlier one for a single GPU."""
    if key.startswith("gpu.*."):
        for narrow in [old for old in state if re.fullmatch(r"gpu\.\d+\." + re.escape(key[6:]), old)]:
            del state[narrow]


def render(state: State) -> str:
    """The text that the simulated driver reads."""
    return "".join(f"{key} = {value}\n" for key, value in sorted(state.items()))


def gpus(state: State) -> list[int]:
    """Numbers of the GPUs that are plugged in, whether NVML sees them or not."""
    return [n for n in range(64) if f"gpu.{n}.uuid" in state]


def of(state: State, gpu: int, key: str) -> str:
    """A GPU's fact: its own, else the one of all GPUs."""
    return state.get(f"gpu.{gpu}.{key}", state.get(f"gpu.*.{key}", ""))


def numbered(state: State, prefix: str) -> list[str]:
    """Values of prefix.1, prefix.2 and so on."""
    return [value for _number, value in sorted((int(n), value) for n, value in named(state, prefix).items())]


def named(state: State, prefix: str) -> dict[str, str]:
    """What follows the prefix in the key, with the value."""
    return {key[len(prefix) + 1 :]: value for key, value in state.items() if key.startswith(prefix + ".")}


def host_files(state: State, architecture: str, machine: str) -> dict[str, str]:
    """Text files by path that a host in this state has in /proc, /sys and the simulated driver's folder."""
    files = {
        "/run/simulated-gpu/state": render(state),
        "/run/simulated-gpu/services.json": json.dumps(named(state, "service")),
        "/run/simulated-gpu/kernel.log": "".join(line + "\n" for line in numbered(state, "kernel")),
        "/run/simulated-gpu/packages": "".join(
            PACKAGE_ENTRY.format(name=name, version=version, architecture=architecture)
            for name, version in named(state, "package").items()
        ),
        "/run/simulated-gpu/cuda.log": "",
    }
    loaded = state.get("driver_version")
    if not loaded:
        return files
    files["/proc/driver/nvidia/version"] = (
        f"NVRM version: NVIDIA UNIX Open Kernel Module for {machine}  {loaded}"
        "  Release Build  (builder@host)  \n"
        "GCC version:  gcc version 15.3.0 (GCC) \n"
    )
    for module in ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"):
        files[f"/sys/module/{module}/version"] = loaded + "\n"
        files[f"/sys/module/{module}/initstate"] = "live\n"
    for port, value in named(state, "infiniband").items():
        files.update(_infiniband_files(port, value))
    for gpu in gpus(state):
        files[f"/run/simulated-gpu/gpu{gpu}"] = ""
        files.update(_gpu_files(state, gpu, loaded))
    return files


def _gpu_files(state: State, gpu: int, loaded: str) -> dict[str, str]:
    domain, bus, slot = of(state, gpu, "pci").split(":")
    address = f"{domain[-4:]}:{bus}:{slot}.0"
    pci = f"/sys/bus/pci/devices/{address}"
    identity = int(of(state, gpu, "pci_device_id"), 16)
    files = {
        f"{pci}/vendor": f"0x{identity & 0xFFFF:04x}\n",
        f"{pci}/device": f"0x{identity >> 16:04x}\n",
        f"{pci}/class": "0x030200\n",
        f"{pci}/numa_node": f"{of(state, gpu, 'numa_affinity').split(',')[0] or '-1'}\n",
    }
    if not of(state, gpu, "missing"):
        files[f"/proc/driver/nvidia/gpus/{address}/information"] = (
            f"Model: \t\t {of(state, gpu, 'name')}\nIRQ:   \t\t {41 + gpu}\n"
            f"GPU UUID: \t {of(state, gpu, 'uuid')}\nVideo BIOS: \t {of(state, gpu, 'vbios').lower()}\n"
            "Bus Type: \t PCIe\nDMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\n"
            f"Bus Location: \t {address}\nDevice Minor: \t {gpu}\n"
            f"GPU Firmware: \t {loaded}\nGPU Excluded:\t No\n"
        )
    return files


def _infiniband_files(port: str, value: str) -> dict[str, str]:
    """infiniband.mlx5_0 = ACTIVE InfiniBand 800 Gb/sec (4X XDR)"""
    status, layer, rate = value.split(" ", 2)
    folder = f"/sys/class/infiniband/{port}"
    number = {"DOWN": "1", "INIT": "2", "ACTIVE": "4"}[status]
    physical = "5: LinkUp" if status == "ACTIVE" else "3: Disabled"
    facts = {"state": f"{number}: {status}", "phys_state": physical, "link_layer": layer, "rate": rate}
    facts["gids/0"] = "fe80:0000:0000:0000:0000:0000:0000:0001"
    files = {f"{folder}/ports/1/{name}": text + "\n" for name, text in facts.items()}
    return {**files, f"{folder}/fw_ver": "40.47.1088\n"}


def devices(state: State) -> list[str]:
    """Device files below /dev that the driver makes."""
    if "driver_version" not in state:
        return []
    present = [f"nvidia{n}" for n in gpus(state) if not of(state, n, "missing")]
    return [*present, "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", *named(state, "device")]


def daemons(state: State) -> list[str]:
    """Programs of the services that run, but for IMEX, which is more than a name."""
    programs = {
        "nvidia-persistenced": "nvidia-persistenced",
        "nvidia-fabricmanager": "nv-fabricmanager",
        "nvlsm": "nvlsm",
    }
    return [program for service, program in programs.items() if state.get(f"service.{service}") == "active"]
