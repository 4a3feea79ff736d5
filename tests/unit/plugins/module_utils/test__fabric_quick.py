# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _fabric_quick
from hypothesis import given
from hypothesis import strategies as st


def write(root: Path, files: Dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return str(root)


def test_an_rdma_device_with_its_port_and_the_gids_that_are_set(tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci0000:00/0000:5e:00.0"
    base = "sys/class/infiniband/mlx5_0/"
    write(
        tmp_path,
        {
            base + "hca_type": "MT4129",
            base + "fw_ver": "28.39.1002",
            base + "ports/1/state": "4: ACTIVE",
            base + "ports/1/phys_state": "5: LinkUp",
            base + "ports/1/link_layer": "Ethernet",
            base + "ports/1/rate": "400 Gb/sec (4X NDR)",
            base + "ports/1/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001",
            base + "ports/1/gids/1": "0000:0000:0000:0000:0000:0000:0000:0000",
            base + "ports/1/gids/10": "0000:0000:0000:0000:0000:ffff:0a00:0001",
            base + "ports/1/gid_attrs/types/10": "RoCE v2",
            base + "ports/1/gid_attrs/ndevs/10": "ens1f0",
            "sys/devices/pci0000:00/0000:5e:00.0/numa_node": "1",
            "sys/devices/pci0000:00/0000:5e:00.0/net/ens1f0/operstate": "up",
            "sys/devices/pci0000:00/0000:5e:00.0/net/ens1f0/mtu": "9000",
        },
    )
    (tmp_path / base / "device").symlink_to(device)
    [found] = _fabric_quick.read_infiniband(str(tmp_path))
    assert (found["name"], found["type"], found["firmware"], found["numa_node"]) == (
        "mlx5_0",
        "MT4129",
        "28.39.1002",
        1,
    )
    assert found["pci_address"] == "0000:5e:00.0"
    assert found["interfaces"] == [{"name": "ens1f0", "state": "up", "mtu": 9000, "speed_mbps": None}]
    [port] = found["ports"]
    assert (port["state"], port["physical_state"], port["link_layer"]) == ("active", "linkup", "Ethernet")
    assert [(gid["index"], gid["type"], gid["interface"]) for gid in port["gids"]] == [
        (0, None, None),
        (10, "RoCE v2", "ens1f0"),
    ]


def test_a_host_without_rdma_has_none(tmp_path: Path) -> None:
    assert _fabric_quick.read_infiniband(str(tmp_path)) == []


def test_imex_as_it_is_configured(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "etc/nvidia-imex/nodes_config.cfg": "# our trays\n10.0.0.1\n\n10.0.0.2",
            "etc/nvidia-imex/config.cfg": "# port\nSERVER_PORT=50000\nIMEX_NODE_CONFIG_FILE=/etc/x=y",
        },
    )
    assert _fabric_quick.read_imex(root) == {
        "nodes": ["10.0.0.1", "10.0.0.2"],
        "config": {"SERVER_PORT": "50000", "IMEX_NODE_CONFIG_FILE": "/etc/x=y"},
    }
    assert _fabric_quick.read_imex(str(tmp_path / "none")) == {"nodes": None, "config": None}


def test_imex_channels_are_told_from_other_nodes() -> None:
    nodes = [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia-caps-imex-channels/channel0"}]
    assert _fabric_quick.imex_channels(nodes) == ["/dev/nvidia-caps-imex-channels/channel0"]


def test_the_status_of_imex() -> None:
    assert _fabric_quick.parse_imex_status('{"status": "UP"}') == {"status": "UP"}
    for text in ("", "[]", "Connection to IMEX failed"):
        with pytest.raises(ValueError):  # noqa: PT011 - the words are json's own
            _fabric_quick.parse_imex_status(text)


@pytest.mark.parametrize("parse", [_fabric_quick.parse_imex_nodes, _fabric_quick.parse_imex_config])
@given(text=st.one_of(st.text(), st.text(alphabet="a=#\n ")))
def test_any_text_is_read_without_an_error(parse: Callable[[str], object], text: str) -> None:
    parse(text)
