# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process's GPUs are known from its device files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._devices import (
    gpus_by_minor,
    parse_information,
    visible_devices,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure

INFORMATION = """\
Model: \t\t NVIDIA GB300
IRQ:   \t\t 45
GPU UUID: \t GPU-a0000000-0000-4000-8000-00000000000{number}
Video BIOS: \t 97.10.3c.00.04
Bus Type: \t PCIe
Bus Location: \t 0008:0{number}:00.0
Device Minor: \t {number}
GPU Firmware: \t 580.159.04
"""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with two GPUs of the host, and a process that has device files of three."""
    for number in (0, 1):
        directory = tmp_path / f"driver/nvidia/gpus/0008:0{number}:00.0"
        directory.mkdir(parents=True)
        (directory / "information").write_text(INFORMATION.format(number=number))
    dev = tmp_path / "7" / "root" / "dev"
    dev.mkdir(parents=True)
    (tmp_path / "7" / "cgroup").write_text("0::/docker/x\n")
    return tmp_path


def test_information_of_the_driver() -> None:
    fields = parse_information(INFORMATION.format(number=3))
    assert fields["Device Minor"] == "3"
    assert fields["Bus Location"] == "0008:03:00.0"


def test_uuids_by_minor(proc: Path) -> None:
    assert gpus_by_minor(str(proc / "driver/nvidia/gpus")) == {
        0: "GPU-a0000000-0000-4000-8000-000000000000",
        1: "GPU-a0000000-0000-4000-8000-000000000001",
    }
    assert gpus_by_minor(str(proc / "none")) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="device files can be made by root alone")
def test_t34_gpus_of_a_container_by_uuid(proc: Path) -> None:
    for name, minor in (("nvidia1", 1), ("nvidia7", 7), ("nvidiactl", 255), ("null", 3)):
        os.mknod(proc / "7/root/dev" / name, stat.S_IFCHR | 0o666, os.makedev(195, minor))
    (proc / "7/root/dev/nvidia0").write_text("no device")
    value = visible_devices(7, str(proc)).value
    assert value["files"] == ["/dev/nvidia1", "/dev/nvidia7", "/dev/nvidiactl"]
    assert value["uuids"] == ["GPU-a0000000-0000-4000-8000-000000000001"]
    assert value["unknown_minors"] == [7]
    assert "version 2" in value["cgroup"]["why"]


def test_t34_a_container_without_devices_is_not_one_that_was_not_read(proc: Path) -> None:
    assert visible_devices(7, str(proc)).value["files"] == []
    with pytest.raises(ProbeFailure) as caught:
        visible_devices(0, str(proc))
    assert caught.value.reading.outcome == "absent"
    (proc / "7/root/dev").rmdir()
    with pytest.raises(ProbeFailure):
        visible_devices(7, str(proc))
