# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each ready-made state shows what it is named after, through NVML, nvidia-smi and the host's files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import state
from ansible_collections.gpufleet.baseline.tests.unit.lab.conftest import Driver

Host = Callable[..., Driver]
CLUSTER = "4e7f2d1a0b3c4d5e8f90a1b2c3d4e5f6"

OPEN_CONTEXT = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 2))
"""


@pytest.mark.parametrize("name", state.names())
@pytest.mark.parametrize("node", [1, 2])
def test_every_state_is_complete(name: str, node: int) -> None:
    chosen = state.load(name, node)
    files = state.host_files(chosen, "amd64", "x86_64")
    assert not any("{" in value or key.startswith(("node.", "include")) for key, value in chosen.items())
    assert ("/proc/driver/nvidia/version" in files) is (name != "no-gpu")
    for gpu in state.gpus(chosen):
        for key in ("name", "pci", "serial", "module_id", "numa_affinity", "memory.total", "fabric.state"):
            assert state.of(chosen, gpu, key), f"GPU {gpu} has no {key}"
        assert f"/run/simulated-gpu/gpu{gpu}" in files


def test_two_hosts_share_no_gpu() -> None:
    uuids = [value for n in (1, 2) for key, value in state.load("gb300", n).items() if key.endswith(".uuid")]
    assert len(uuids) == len(set(uuids)) == 8


def test_an_unknown_state_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"gb300.*xid"):
        state.load("gb301")


@pytest.mark.parametrize(
    ("name", "count", "model", "capability", "mib"),
    [
        ("gb300", 4, "NVIDIA GB300", [10, 3], 284208),
        ("b300", 8, "NVIDIA B300 SXM6 AC", [10, 3], 275040),
        ("h200", 2, "NVIDIA H200", [9, 0], 143771),
    ],
)
def test_healthy_hosts(
    host: Host, name: str, count: int, model: str, capability: list[int], mib: int
) -> None:
    asked = ("nvmlDeviceGetName", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMemoryInfo")
    driver = host(name)
    gpus = driver.nvml(*asked)["gpus"]
    assert len(gpus) == count
    for gpu in gpus:
        assert [gpu[key] for key in asked[:2]] == [model, capability]
        assert gpu["nvmlDeviceGetMemoryInfo"]["total"] == str(mib << 20)
    assert {driver.smi(*form).returncode for form in ((), ("-q",), ("-q", "-x"), ("-L",))} == {0}
    assert driver.smi("-L").stdout.count(f": {model} (UUID: GPU-") == count


def test_driver_575(host: Host) -> None:
    answer = host("driver-575").nvml("nvmlDeviceGetRepairStatus")
    assert (answer["driver"], answer["cuda"]) == ("575.57.08", 12090)
    assert answer["gpus"][0]["nvmlDeviceGetRepairStatus"] == "ERR NVMLError_FunctionNotFound(13)"
    packages = state.host_files(state.load("driver-575"), "amd64", "x86_64")["/run/simulated-gpu/packages"]
    assert "Package: nvidia-driver-575-open" in packages
    assert "580" not in packages


def test_driver_upgraded_without_reboot(host: Host) -> None:
    driver = host("driver-upgraded")
    assert driver.nvml()["init"] == "ERR NVMLError_LibRmVersionMismatch(18)"
    done = driver.smi("-q")
    assert done.returncode == 18
    assert done.stdout == (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.173\n"
    )
    chosen = state.load("driver-upgraded")
    files = state.host_files(chosen, "amd64", "x86_64")
    assert files["/sys/module/nvidia/version"] == "580.126.09\n"
    assert chosen["module_version"] == "580.173.02"
    assert host("driver-upgraded", node=2).nvml()["init"] is None


def test_gpu_lost(host: Host) -> None:
    driver = host("gpu-lost")
    assert [gpu.get("handle") for gpu in driver.nvml()["gpus"]] == [None, None, 15, None]
    done = driver.smi()
    assert done.returncode == 15
    assert "00000018:06:00.0: GPU is lost" in done.stdout
    log = state.host_files(state.load("gpu-lost"), "amd64", "x86_64")["/run/simulated-gpu/kernel.log"]
    assert "NVRM: Xid (PCI:0018:06:00): 79," in log


def test_seven_of_eight(host: Host) -> None:
    gpus = host("seven-of-eight").nvml("nvmlDeviceGetMinorNumber")["gpus"]
    assert [gpu["nvmlDeviceGetMinorNumber"] for gpu in gpus] == [0, 1, 2, 3, 4, 6, 7]
    files = state.host_files(state.load("seven-of-eight"), "amd64", "x86_64")
    assert "/sys/bus/pci/devices/0000:c3:00.0/vendor" in files
    assert "/proc/driver/nvidia/gpus/0000:c3:00.0/information" not in files
    assert "nvidia5" not in state.devices(state.load("seven-of-eight"))


@pytest.mark.parametrize(
    ("name", "fabric"),
    [
        ("gb300", {"state": 3, "clique": 32766, "cluster": CLUSTER}),
        ("fabric-not-completed", {"state": 2, "clique": 0, "cluster": "0" * 32}),
        ("clique-apart", {"state": 3, "clique": 32765, "cluster": CLUSTER}),
        ("cluster-apart", {"state": 3, "clique": 32766, "cluster": "9c6f5af353bf49b5a436b66766c413c3"}),
    ],
)
def test_fabric_of_the_second_tray(host: Host, name: str, fabric: dict[str, Any]) -> None:
    assert [gpu["fabric"] for gpu in host(name, node=2).nvml()["gpus"]] == [fabric] * 4
    first = host(name, node=1).nvml()["gpus"][0]["fabric"]
    assert first == {"state": 3, "clique": 32766, "cluster": CLUSTER}


def test_fabric_that_waits_shows_no_identity_in_the_report(host: Host) -> None:
    report = host("fabric-not-completed", node=2).smi("-q").stdout
    facts = [line.split(":", 1)[1].strip() for line in report.split("    Fabric\n")[1].splitlines()[:4]]
    assert facts == ["In Progress", "N/A", "N/A", "N/A"]


def test_mig_on(host: Host) -> None:
    driver = host("mig-on")
    modes = [gpu["nvmlDeviceGetMigMode"] for gpu in driver.nvml("nvmlDeviceGetMigMode")["gpus"]]
    assert modes == [[1, 1], [0, 0]]
    assert driver.smi().stdout.count("              Enabled |") == 1


def test_nvml_that_hangs(host: Host) -> None:
    for command in (["nvidia-smi"], [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"]):
        driver = host("nvml-hangs")
        program = str(driver.folder / command[0]) if command[0] == "nvidia-smi" else command[0]
        with subprocess.Popen([program, *command[1:]], env=driver.environment) as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1.5)
            process.kill()
    assert host("nvml-hangs", node=2).smi("-L").returncode == 0


def test_xid(host: Host) -> None:
    gpus = host("xid").nvml("nvmlDeviceGetRemappedRows")["gpus"]
    assert [gpu["nvmlDeviceGetRemappedRows"] for gpu in gpus] == [[0, 0, 0, 0]] * 3 + [[0, 1, 1, 0]]
    assert re.search(r"GPU Recovery Action +: Drain and Reset", host("xid").smi("-q").stdout)


def test_no_driver(host: Host) -> None:
    assert host("no-gpu").nvml()["init"] == "ERR NVMLError_DriverNotLoaded(9)"
    assert host("no-gpu").smi().returncode == 9


def test_orphan_state_has_memory_in_use_by_no_process(host: Host) -> None:
    asked = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses")
    gpu = host("orphan").nvml(*asked)["gpus"][3]
    assert int(gpu["nvmlDeviceGetMemoryInfo"]["used"]) > 254512 << 20
    assert gpu["nvmlDeviceGetComputeRunningProcesses"] == []


def test_no_cuda_context_without_the_device_file(host: Host) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has device files of a driver")
    driver = host("gb300")
    assert driver.run([sys.executable, "-c", OPEN_CONTEXT]).stdout.split() == ["0", "100"]
    assert driver.smi("--query-compute-apps=pid", "--format=csv,noheader").stdout == ""
