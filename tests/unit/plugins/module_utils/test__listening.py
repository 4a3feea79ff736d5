# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import socket
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._listening import (
    parse_table,
    read_listening,
    socket_inodes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure
from hypothesis import given
from hypothesis import strategies as st

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:0277 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0B1E1EAC:1F41 0C1E1EAC:D431 01 00000000:00000000 00:00000000 00000000     0        0 3 1
"""
TABLE6 = """\
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 0A
   1: 00000000000000000000000000000000:0277 00000000000000000000000000000000:0000 0A
"""


def test_ports_of_both_tables(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(TABLE)
    (tmp_path / "proc/net/tcp6").write_text(TABLE6)
    assert read_listening(str(tmp_path)) == [
        {"port": 22, "loopback_only": True},
        {"port": 631, "loopback_only": False},  # for IPv6 on every address
        {"port": 8000, "loopback_only": False},
    ]


def test_the_sockets_of_a_port(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(TABLE)
    assert socket_inodes(8000, str(tmp_path)) == {"1"}
    # A connection of the port is no socket that listens.
    assert socket_inodes(8001, str(tmp_path)) == set()


def test_no_table_is_absent_and_not_no_port(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailure) as caught:
        read_listening(str(tmp_path))
    assert caught.value.reading.outcome == "absent"


def test_a_real_socket_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert {"port": port, "loopback_only": True} in read_listening()


@given(st.lists(st.tuples(st.integers(0, 65535), st.booleans()), max_size=20, unique=True))
def test_every_listening_port_is_read(ports: list) -> None:
    lines = ["header"]
    for port, loopback in ports:
        lines.append(" 0: %s:%04X 00000000:0000 0A x" % ("0100007F" if loopback else "00000000", port))
    assert parse_table("\n".join(lines)) == set(ports)
