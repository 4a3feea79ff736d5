# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _driver
from hypothesis import given
from hypothesis import strategies as st

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@host)  \n"
    "GCC version:  gcc version 15.3.0 (GCC) \n"
)
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
)
LDCONFIG = """612 libs found in cache `/etc/ld.so.cache'
\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libnvidia-ml.so.1
\tlibnvidia-ml.so.1 (libc6) => /lib/i386-linux-gnu/libnvidia-ml.so.1
\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda/compat/libcuda.so.1
\tlibcuda.so.1 (libc6,x86-64, OS ABI: Linux 3.2.0) => /lib/x86_64-linux-gnu/libcuda.so.1
\tlibcudart.so.13 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.13
"""


def write(root: Path, files: Dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("text", "version", "flavour"),
    [(OPEN, "580.159.04", "open"), (PROPRIETARY, "535.54.03", "proprietary"), ("", None, None)],
)
def test_the_loaded_module_and_its_flavour(text: str, version: Optional[str], flavour: Optional[str]) -> None:
    assert _driver.parse_proc_version(text) == {"version": version, "flavour": flavour}


def test_the_module_on_disk() -> None:
    text = (
        "filename:       /lib/modules/6.8/updates/nvidia.ko.zst\n"
        "version:        580.173.02\nlicense:        Dual MIT/GPL\n"
        "firmware:       nvidia/580.173.02/gsp_ga10x.bin\n"
        "parm:           NVreg_EnableGpuFirmware:int\nvermagic:       6.8.0 SMP preempt\n"
    )
    found = _driver.parse_modinfo(text)
    assert (found["version"], found["license"]) == ("580.173.02", "Dual MIT/GPL")
    assert "firmware" not in found


@pytest.mark.parametrize(("machine", "count"), [("x86_64", 3), ("aarch64", 0)])
def test_the_loader_s_cache_of_this_processor_in_its_order(machine: str, count: int) -> None:
    rows = _driver.parse_ldconfig(LDCONFIG, machine)
    assert len(rows) == count
    if rows:
        assert [row["path"] for row in rows if row["name"] == "libcuda.so.1"] == [
            "/usr/local/cuda/compat/libcuda.so.1",
            "/lib/x86_64-linux-gnu/libcuda.so.1",
        ]


def test_libraries_outside_the_cache_are_found_and_the_first_one_is_marked(tmp_path: Path) -> None:
    for place, version in (("lib", "580.173.02"), ("usr/local/nvidia/lib64", "580.159.04")):
        write(tmp_path, {"%s/libcuda.so.%s" % (place, version): ""})
        (tmp_path / place / "libcuda.so.1").symlink_to("libcuda.so.%s" % version)
    cache = [{"name": "libcuda.so.1", "path": str(tmp_path / "lib/libcuda.so.1")}]
    rows = _driver.find_libraries(cache, [str(tmp_path / "usr/local/nvidia/lib64"), str(tmp_path / "lib")])
    assert [(row["version"], row["in_loader_cache"], row["first"]) for row in rows] == [
        ("580.173.02", True, True),
        ("580.159.04", False, False),
    ]


def test_a_cache_entry_that_leads_nowhere_is_left_out(tmp_path: Path) -> None:
    cache = [{"name": "libcuda.so.1", "path": str(tmp_path / "gone.so.1")}]
    assert _driver.find_libraries(cache, []) == []


def test_modules_firmware_and_builds(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/module/nvidia/version": "580.173.02\n",
            "sys/module/nvidia/refcnt": "12\n",
            "sys/module/nouveau/srcversion": "ABC\n",
            "lib/firmware/nvidia/580.173.02/gsp_ga10x.bin": "x",
            "lib/firmware/nvidia/ga102/gsp.bin": "x",
            "var/lib/dkms/nvidia/580.173.02/6.8.0-90-generic/x86_64/log": "",
            "usr/local/cuda-13.0/version.json": '{"cuda" : {"name" : "CUDA", "version" : "13.0.2"}}',
        },
    )
    assert _driver.read_modules(str(tmp_path))["nvidia"] == {
        "version": "580.173.02",
        "srcversion": None,
        "users": "12",
    }
    assert set(_driver.read_modules(str(tmp_path))) == {"nvidia", "nouveau"}
    assert _driver.read_firmware(str(tmp_path)) == ["580.173.02"]
    assert _driver.read_dkms(str(tmp_path)) == [{"version": "580.173.02", "kernel": "6.8.0-90-generic"}]
    assert [row["version"] for row in _driver.read_toolkits(str(tmp_path))] == ["13.0.2"]


def test_a_host_without_any_of_it(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert _driver.read_modules(root) == {}
    assert (_driver.read_firmware(root), _driver.read_dkms(root), _driver.read_toolkits(root)) == ([], [], [])


def test_t15_asking_would_load_a_module_that_is_on_disk_only(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"lib/modules/6.8/modules.dep": "kernel/fs/ext4.ko:\nupdates/nvidia.ko.zst: kernel/x.ko\n"},
    )
    assert "would load it" in _driver.why_not_to_ask(str(tmp_path), "6.8")
    assert _driver.why_not_to_ask(str(tmp_path), "6.9") == ""


def test_t15_asking_would_create_device_nodes_that_are_not_there(tmp_path: Path) -> None:
    write(tmp_path, {"sys/module/nvidia/version": "580.173.02\n"})
    assert "would create it" in _driver.why_not_to_ask(str(tmp_path), "6.8")
    write(tmp_path, {"dev/nvidiactl": ""})
    assert _driver.why_not_to_ask(str(tmp_path), "6.8") == ""


A, B = "580.159.04", "580.173.02"


@pytest.mark.parametrize(
    ("loaded", "on_disk", "libraries", "state", "unmeasured"),
    [
        (A, A, {"libcuda.so.1": A, "libnvidia-ml.so.1": A}, "equal", []),
        (A, None, {"libcuda.so.1": A}, "equal", ["module on disk"]),
        (A, B, {"libcuda.so.1": B}, "user libraries differ", []),
        (A, A, {"libcuda.so.1": A, "libnvidia-ml.so.1": B}, "user libraries differ", []),
        (A, B, {"libcuda.so.1": A}, "module on disk differs", []),
        (A, B, {}, "module on disk differs", ["user libraries"]),
        (A, A, {}, "unmeasured", ["user libraries"]),
        (A, None, {}, "unmeasured", ["module on disk", "user libraries"]),
        (None, A, {}, "not loaded", ["user libraries"]),
        (None, None, {"libcuda.so.1": A}, "not loaded", ["module on disk"]),
        (None, None, {}, "no driver", ["module on disk", "user libraries"]),
    ],
)
def test_t35_the_three_views_of_the_driver(
    loaded: Optional[str],
    on_disk: Optional[str],
    libraries: Dict[str, str],
    state: str,
    unmeasured: list[str],
) -> None:
    found = _driver.agreement(loaded, on_disk, libraries)
    assert (found["state"], found["unmeasured"]) == (state, unmeasured)
    assert found["meaning"]


@pytest.mark.parametrize(
    "parse",
    [_driver.parse_proc_version, _driver.parse_modinfo, lambda text: _driver.parse_ldconfig(text, "x86_64")],
)
@given(text=st.one_of(st.text(), st.text(alphabet="NVRM version:Kernel Module 580.\n\t()=>")))
def test_any_text_is_read_without_an_error(parse: Callable[[str], object], text: str) -> None:
    parse(text)


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/x/libcuda.so.580.159.04", "580.159.04"),
        ("/x/libcuda.so.1", None),
        ("/x/libcuda.so", None),
        ("/x/libcuda.so.580", None),
    ],
)
def test_the_version_in_a_library_s_name(path: str, version: Optional[str]) -> None:
    assert _driver.library_version(path) == version
