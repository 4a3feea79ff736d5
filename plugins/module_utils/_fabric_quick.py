# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network between GPUs as files tell it: InfiniBand and RoCE devices, IMEX (private to the collection).

https://docs.kernel.org/infiniband/sysfs.html
https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/config.html
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import read_line
from ansible_collections.gpufleet.baseline.plugins.module_utils._smi import pci_address

IMEX_NODES = "etc/nvidia-imex/nodes_config.cfg"
IMEX_CONFIG = "etc/nvidia-imex/config.cfg"
IMEX_CHANNELS = "/dev/nvidia-caps-imex-channels/"

MOST_GIDS = 16


def read_infiniband(root: str = "/") -> List[Dict[str, Any]]:
    """Every RDMA device with its ports."""
    base = os.path.join(root, "sys/class/infiniband")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    return [_read_device(os.path.join(base, name), name) for name in names]


def _read_device(place: str, name: str) -> Dict[str, Any]:
    device = os.path.join(place, "device")
    node = read_line(os.path.join(device, "numa_node"))
    ports = os.path.join(place, "ports")
    net = os.path.join(device, "net")
    return {
        "name": name,
        "type": read_line(os.path.join(place, "hca_type")),
        "firmware": read_line(os.path.join(place, "fw_ver")),
        "board": read_line(os.path.join(place, "board_id")),
        "node_guid": read_line(os.path.join(place, "node_guid")),
        "pci_address": _pci_of(device),
        "numa_node": int(node) if node and node.lstrip("-").isdigit() else None,
        "interfaces": _read_interfaces(net),
        "ports": [_read_port(os.path.join(ports, port), port) for port in _sorted(ports)],
    }


def _sorted(directory: str) -> List[str]:
    return (
        sorted(os.listdir(directory), key=lambda name: (len(name), name)) if os.path.isdir(directory) else []
    )


def _pci_of(device: str) -> Optional[str]:
    name = os.path.basename(os.path.realpath(device))
    return pci_address(name) if name.count(":") == 2 else None


def _read_interfaces(net: str) -> List[Dict[str, Any]]:
    return [
        {
            "name": name,
            "state": read_line(os.path.join(net, name, "operstate")),
            "mtu": _number(read_line(os.path.join(net, name, "mtu"))),
            "speed_mbps": _number(read_line(os.path.join(net, name, "speed"))),
        }
        for name in _sorted(net)
    ]


def _read_port(place: str, port: str) -> Dict[str, Any]:
    return {
        "port": _number(port),
        "state": _word(read_line(os.path.join(place, "state"))),
        "physical_state": _word(read_line(os.path.join(place, "phys_state"))),
        "link_layer": read_line(os.path.join(place, "link_layer")),
        "rate": read_line(os.path.join(place, "rate")),
        "lid": read_line(os.path.join(place, "lid")),
        "gids": _read_gids(place),
    }


def _read_gids(place: str) -> List[Dict[str, Any]]:
    """The port's addresses that are set; which one a RoCE peer reaches is a matter of type and index."""
    found: List[Dict[str, Any]] = []
    for index in _sorted(os.path.join(place, "gids")):
        gid = read_line(os.path.join(place, "gids", index))
        if gid and gid.replace(":", "").strip("0") and len(found) < MOST_GIDS:
            kind = read_line(os.path.join(place, "gid_attrs/types", index))
            interface = read_line(os.path.join(place, "gid_attrs/ndevs", index))
            found.append({"index": _number(index), "gid": gid, "type": kind, "interface": interface})
    return found


def _word(text: Optional[str]) -> Optional[str]:
    """``4: ACTIVE`` as ``active``."""
    return None if text is None else text.partition(":")[2].strip().lower() or text.lower()


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text and text.lstrip("-").isdigit() else None


def parse_imex_nodes(text: str) -> List[str]:
    """The addresses in nodes_config.cfg, one a line."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def parse_imex_config(text: str) -> Dict[str, str]:
    """The settings in config.cfg."""
    pairs = (line.strip().partition("=") for line in text.splitlines() if not line.strip().startswith("#"))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def read_imex(root: str = "/") -> Dict[str, Any]:
    """The IMEX service's own configuration; None where the file is not there."""
    nodes = read_line(os.path.join(root, IMEX_NODES), 65536)
    config = read_line(os.path.join(root, IMEX_CONFIG), 65536)
    return {
        "nodes": None if nodes is None else parse_imex_nodes(nodes),
        "config": None if config is None else parse_imex_config(config),
    }


def imex_channels(nodes: Sequence[Mapping[str, Any]]) -> List[str]:
    """The channels among the device nodes; without one no process joins a multi-node NVLink domain."""
    return [node["path"] for node in nodes if node["path"].startswith(IMEX_CHANNELS)]


def parse_imex_status(text: str) -> Dict[str, Any]:
    """What ``nvidia-imex-ctl -N -j`` prints; raises ValueError when it is something else."""
    status = json.loads(text)
    if not isinstance(status, dict):
        raise ValueError("expected an object from nvidia-imex-ctl, found %s" % type(status).__name__)
    return status
