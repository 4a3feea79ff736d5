# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TCP ports on which somebody listens, from the kernel's own table (private to the collection).

https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Set, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, ProbeFailure

TABLES = ("proc/net/tcp", "proc/net/tcp6")
LISTEN = "0A"


def read_listening(root: str = "/") -> List[Dict[str, Any]]:
    """Every listening port of the host's own network, with whether it is bound to the loopback address only."""
    found: Set[Tuple[int, bool]] = set()
    tables = _texts(root)
    if not tables:
        raise ProbeFailure(ABSENT, "there is no table of TCP sockets", "/proc/net/tcp")
    for text in tables:
        found.update(parse_table(text))
    ports = sorted({port for port, _loopback in found})
    return [{"port": port, "loopback_only": (port, False) not in found} for port in ports]


def parse_table(text: str) -> Set[Tuple[int, bool]]:
    """Ports in state LISTEN of one table, each with whether its address is a loopback one."""
    return {(port, _is_loopback(address)) for address, port, _inode in _listening(text)}


def socket_inodes(port: int, root: str = "/") -> Set[str]:
    """The inodes of the sockets that listen on a port, as the descriptors of their processes name them."""
    found = {inode for text in _texts(root) for _address, other, inode in _listening(text) if other == port}
    return found - {""}


def _texts(root: str) -> List[str]:
    """The tables that are there."""
    tables = [os.path.join(root, table) for table in TABLES]
    texts = []
    for table in tables:
        if os.path.exists(table):
            with open(table, encoding="ascii", errors="replace") as stream:
                texts.append(stream.read())
    return texts


def _listening(text: str) -> Iterator[Tuple[str, int, str]]:
    """Address, port and inode of every socket of a table that listens."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 3 and fields[3] == LISTEN and ":" in fields[1]:
            address, _colon, port = fields[1].rpartition(":")
            yield address, int(port, 16), fields[9] if len(fields) > 9 else ""


def _is_loopback(address: str) -> bool:
    """Words of four bytes, each in the byte order of little-endian machines: 127.x.x.x or ::1."""
    return (address[-2:] == "7F" and len(address) == 8) or address == "0" * 24 + "01000000"
