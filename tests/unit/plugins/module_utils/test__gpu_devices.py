# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_devices
from hypothesis import given
from hypothesis import strategies as st

INFORMATION = (
    "Model: \t\t NVIDIA GB300\nIRQ:   \t\t 41\nGPU UUID: \t GPU-b3000001-0000-4000-8000-000000000000\n"
    "Video BIOS: \t 97.10.4a.00.1a\nBus Type: \t PCIe\nDMA Size: \t 52 bits\nBus Location: \t 0008:06:00.0\n"
    "Device Minor: \t 0\nGPU Firmware: \t 580.173.02\nGPU Excluded:\t No\n"
)


def function(root: Path, address: str, vendor: str, code: str, **more: str) -> Path:
    place = root / "sys/bus/pci/devices" / address
    place.mkdir(parents=True)
    files = {"vendor": vendor, "class": code, "device": "0x2335", "numa_node": "0", **more}
    for name, text in files.items():
        (place / name).write_text(text + "\n")
    return place


def bind(place: Path, driver: str) -> None:
    target = place.parents[4] / "drivers" / driver
    target.mkdir(parents=True, exist_ok=True)
    (place / "driver").symlink_to(target)


def test_functions_of_the_bus_by_maker_and_kind(tmp_path: Path) -> None:
    bind(function(tmp_path, "0000:3b:00.0", "0x10de", "0x030200"), "nvidia")
    bind(function(tmp_path, "0000:5e:00.0", "0x10de", "0x030200"), "vfio-pci")
    function(tmp_path, "0000:86:00.0", "0x10de", "0x030000")
    function(tmp_path, "0000:c1:00.0", "0x10de", "0x068000")
    function(tmp_path, "0000:c2:00.0", "0x1a03", "0x030000")
    function(tmp_path, "0000:c3:00.0", "0x8086", "0x060400")
    found = _gpu_devices.read_pci(str(tmp_path))
    assert [(row["pci_address"], row["kind"], row["driver"]) for row in found] == [
        ("0000:3b:00.0", "gpu", "nvidia"),
        ("0000:5e:00.0", "gpu", "vfio-pci"),
        ("0000:86:00.0", "gpu", None),
        ("0000:c1:00.0", "nvswitch", None),
    ]
    assert _gpu_devices.expected(found) == ["0000:3b:00.0", "0000:86:00.0"]
    assert _gpu_devices.vendors(found) == ["nvidia"]


@pytest.mark.parametrize("code", ["0x120000", "0x038000", "0x030000"])
def test_an_amd_host_is_named_as_such(tmp_path: Path, code: str) -> None:
    function(tmp_path, "0000:05:00.0", "0x1002", code)
    found = _gpu_devices.read_pci(str(tmp_path))
    assert _gpu_devices.vendors(found) == ["amd"]
    assert _gpu_devices.expected(found) == []


def test_the_information_of_the_loaded_module() -> None:
    assert _gpu_devices.parse_information(INFORMATION) == {
        "name": "NVIDIA GB300",
        "uuid": "GPU-b3000001-0000-4000-8000-000000000000",
        "vbios": "97.10.4a.00.1a",
        "firmware": "580.173.02",
        "pci_address": "0008:06:00.0",
        "minor": 0,
        "excluded": False,
    }


def test_question_marks_of_a_gpu_that_was_never_opened_are_no_values() -> None:
    text = "GPU UUID: \t GPU-????????-????\nVideo BIOS: \t ??.??.??.??.??\nGPU Firmware: \t N/A\n"
    found = _gpu_devices.parse_information(text)
    assert (found["uuid"], found["vbios"], found["firmware"], found["excluded"]) == (None, None, None, None)


def test_t3_the_gpus_of_the_module_are_told_one_by_one(tmp_path: Path) -> None:
    for address in ("0008:06:00.0", "0009:06:00.0"):
        place = tmp_path / "proc/driver/nvidia/gpus" / address
        place.mkdir(parents=True)
        (place / "information").write_text(INFORMATION.replace("0008:06:00.0", address))
    steps: List[int] = []
    gpus = _gpu_devices.read_proc_gpus(lambda known: steps.append(len(known)), str(tmp_path))
    assert steps == [1, 2]
    assert [gpu["pci_address"] for gpu in gpus] == ["0008:06:00.0", "0009:06:00.0"]


def test_device_nodes_of_gpus_and_channels_with_owner_and_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make device nodes")
    dev = tmp_path / "dev"
    (dev / "nvidia-caps-imex-channels").mkdir(parents=True)
    (dev / "infiniband").mkdir()
    nodes: Dict[str, int] = {
        "nvidia0": 0,
        "nvidiactl": 255,
        "nvidia-caps-imex-channels/channel0": 0,
        "infiniband/uverbs0": 1,
    }
    try:
        for name, minor in nodes.items():
            os.mknod(dev / name, 0o020666, os.makedev(195, minor))
    except PermissionError:
        pytest.skip("this machine lets nobody make device nodes")
    (dev / "nvidia1").write_text("a plain file that somebody made by mistake")
    found: List[Any] = _gpu_devices.read_device_nodes(str(tmp_path))
    assert [(node["path"], node["gpu_minor"]) for node in found] == [
        ("/dev/infiniband/uverbs0", None),
        ("/dev/nvidia-caps-imex-channels/channel0", None),
        ("/dev/nvidia0", 0),
        ("/dev/nvidiactl", None),
    ]
    assert (found[2]["major"], found[2]["minor"]) == (195, 0)


@given(st.one_of(st.text(), st.text(alphabet="Device Minor:GPU UUID Bus Location0123.\n\t")))
def test_any_information_is_read_without_an_error(text: str) -> None:
    _gpu_devices.parse_information(text)
