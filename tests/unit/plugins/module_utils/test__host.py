# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Callable, Dict

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _host
from hypothesis import given
from hypothesis import strategies as st


def write(root: Path, files: Dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_the_operating_system() -> None:
    fields = _host.parse_os_release(
        'NAME="Ubuntu"\nVERSION_ID="24.04"\n# comment\nPRETTY_NAME=\'Ubuntu 24.04\'\nbad line\n'
    )
    assert fields == {"NAME": "Ubuntu", "VERSION_ID": "24.04", "PRETTY_NAME": "Ubuntu 24.04"}


def test_the_boot(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/stat": "cpu 1 2 3\nbtime 1796070315\n",
            "proc/sys/kernel/random/boot_id": "6ab8e2c4-0000-4000-8000-000000000000\n",
            "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1\n",
        },
    )
    assert _host.read_boot(root) == {
        "id": "6ab8e2c4-0000-4000-8000-000000000000",
        "began": "2026-11-30T20:25:15Z",
        "command_line": "BOOT_IMAGE=/vmlinuz root=/dev/sda1",
    }


@pytest.mark.parametrize("text", ["", "btime\n", "btime soon\n"])
def test_a_boot_time_that_is_not_told_is_none(tmp_path: Path, text: str) -> None:
    assert _host.boot_time(write(tmp_path, {"proc/stat": text})) is None


def test_the_zone_is_where_localtime_points(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/localtime").symlink_to("/usr/share/zoneinfo/Europe/Berlin")
    assert _host.zone_name(str(tmp_path)) == "Europe/Berlin"


def test_the_zone_of_an_older_debian(tmp_path: Path) -> None:
    assert _host.zone_name(write(tmp_path, {"etc/timezone": "Etc/UTC\n"})) == "Etc/UTC"


@pytest.mark.parametrize(("status", "synchronized"), [(0x0001, True), (0x0041, False)])
def test_what_the_kernel_knows_of_its_own_clock(status: int, synchronized: bool) -> None:
    content = struct.pack("@Illlli", 0, 0, 0, 16000000, 500, status) + bytes(100)
    assert _host.parse_timex(content, 0) == {
        "state": "ok",
        "synchronized": synchronized,
        "largest_error_seconds": 16.0,
        "estimated_error_seconds": 0.0005,
    }


def test_the_clock_of_this_machine_is_read_without_rights() -> None:
    state = _host.read_clock_state()
    assert isinstance(state["synchronized"], bool)
    assert state["largest_error_seconds"] >= 0


def test_memory_in_bytes() -> None:
    text = "MemTotal:       24680000 kB\nMemFree: 1 kB\nHugePages_Total:       4\nOdd line\n"
    assert _host.parse_meminfo(text) == {"MemTotal": 24680000 * 1024, "HugePages_Total": 4}


def test_processors_of_both_architectures() -> None:
    assert _host.parse_cpuinfo(
        "processor\t: 0\nmodel name\t: Xeon\nprocessor\t: 1\nmodel name\t: Xeon\n"
    ) == {
        "count": 2,
        "model_name": "Xeon",
    }
    arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
    assert _host.parse_cpuinfo(arm) == {"count": 1, "cpu_implementer": "0x41", "cpu_part": "0xd4f"}


def test_mounts_without_the_kernel_s_own() -> None:
    text = "proc /proc proc rw 0 0\ns:/models /mnt/my\\040models nfs4 ro,hard 0 0\n/dev/sda1 / ext4 rw 0 0\n"
    assert _host.parse_mounts(text) == [
        {"device": "s:/models", "path": "/mnt/my models", "type": "nfs4", "options": "ro,hard"},
        {"device": "/dev/sda1", "path": "/", "type": "ext4", "options": "rw"},
    ]
    assert _host.is_network("nfs4")
    assert _host.is_network("fuse.s3fs")
    assert not _host.is_network("ext4")


def test_the_space_of_a_path(tmp_path: Path) -> None:
    space = _host.read_space(str(tmp_path))
    assert space["total"] > 0
    assert space["free"] <= space["total"]
    assert space["read_only"] is False


def test_limits_of_the_login_and_of_the_engine(tmp_path: Path) -> None:
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max stack size            8388608              unlimited            bytes     \n"
        "Max locked memory         unlimited            unlimited            bytes     \n"
        "Max realtime timeout      unlimited            unlimited            us        \n"
    )
    files = {
        "proc/self/limits": limits,
        "proc/77/comm": "dockerd\n",
        "proc/77/limits": limits,
        "proc/78/comm": "sh\n",
    }
    found = _host.read_limits(write(tmp_path, files))
    assert set(found) == {"login", "dockerd"}
    assert found["dockerd"] == {
        "Max stack size": ("8388608", "unlimited"),
        "Max locked memory": ("unlimited", "unlimited"),
    }


def test_settings_that_this_kernel_has(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/sys/vm/swappiness": "60\n"})
    assert _host.read_settings(root) == {"/proc/sys/vm/swappiness": "60"}


def test_memory_nodes_of_which_a_gpu_s_has_no_processor(tmp_path: Path) -> None:
    base = "sys/devices/system/node/"
    files = {
        base + "node0/cpulist": "0-71\n",
        base + "node0/meminfo": "Node 0 MemTotal:       501760000 kB\n",
        base + "node10/cpulist": "\n",
        base + "node2/cpulist": "\n",
        base + "node2/meminfo": "Node 2 MemTotal:       291000000 kB\n",
    }
    found = _host.read_numa(write(tmp_path, files))
    assert [node["node"] for node in found] == [0, 2, 10]
    assert [node["memory"] for node in found] == [501760000 * 1024, 291000000 * 1024, None]


@pytest.mark.parametrize(("file", "name"), [(".dockerenv", "docker"), ("run/.containerenv", "podman")])
def test_we_know_when_the_host_is_a_container(tmp_path: Path, file: str, name: str) -> None:
    assert _host.read_container(str(tmp_path)) is None
    assert _host.read_container(write(tmp_path, {file: ""})) == name


def test_chrony_s_own_words() -> None:
    text = "Reference ID    : A29FC87B (time.example)\nSystem time     : 0.000020 seconds slow of NTP time\n"
    assert _host.parse_chrony(text)["System time"] == "0.000020 seconds slow of NTP time"


@pytest.mark.parametrize(
    "parse",
    [
        _host.parse_os_release,
        _host.parse_meminfo,
        _host.parse_cpuinfo,
        _host.parse_mounts,
        _host.parse_limits,
        _host.parse_chrony,
    ],
)
@given(text=st.one_of(st.text(), st.text(alphabet="Max kB:=0\\41 \n\t")))
def test_any_text_is_read_without_an_error(parse: Callable[[str], object], text: str) -> None:
    parse(text)


def test_the_system_names_its_architecture() -> None:
    assert _host.read_system()["architecture"] == os.uname().machine
