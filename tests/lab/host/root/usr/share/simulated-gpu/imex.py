#!/usr/bin/python3 -IS
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-imex and nvidia-imex-ctl: a daemon that listens, and the domain as seen by who connects to whom.

The answer of -N -j has the shape of the real one: nodes, each with its connections, and the domain's status.
https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/cmdservice.html
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

PORT = 50000
NODES = "/etc/nvidia-imex/nodes_config.cfg"


def daemon() -> int:
    server = socket.create_server(("", PORT))
    while True:
        connection, _address = server.accept()
        connection.close()


def reachable(host: str) -> bool:
    try:
        socket.create_connection((host, PORT), timeout=1).close()
    except OSError:
        return False
    return True


def control(options: list[str]) -> int:
    with open(NODES, encoding="ascii") as file:
        hosts = file.read().split()
    up = {host: reachable(host) for host in hosts}
    here = reachable("127.0.0.1")
    if "-q" in options:
        print("READY" if here else "UNAVAILABLE")
        return 0 if here else 1
    with open("/run/simulated-gpu/state", encoding="ascii") as file:
        version = dict(line.rstrip("\n").split(" = ", 1) for line in file)["driver_version"]
    nodes = {}
    for number, host in enumerate(hosts):
        linked = {
            str(n): {
                "host": other,
                "status": "CONNECTED" if up[host] and up[other] else "INVALID",
                "changed": False,
            }
            for n, other in enumerate(hosts)
        }
        nodes[str(number)] = {
            "status": "READY" if up[host] else "UNAVAILABLE",
            "host": host,
            "connections": linked,
            "changed": False,
            "version": version if up[host] else "",
        }
    status = "UP" if all(up.values()) else "DEGRADED" if here else "DOWN"
    answer = {"nodes": nodes, "timestamp": time.strftime("%m/%d/%Y %H:%M:%S"), "status": status}
    if "-j" in options:
        print(json.dumps(answer, indent=4))
    else:
        print(
            "\n".join(f"Node #{n} - {v['host']} - {v['status']}" for n, v in nodes.items())
            + f"\nDomain State: {status}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(daemon() if os.path.basename(sys.argv[0]) == "nvidia-imex" else control(sys.argv[1:]))
