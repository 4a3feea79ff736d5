# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers that ask for GPUs, on a host's own Docker: what they see, and what docker inspect says."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Node
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for

# Holds 2 GiB on the container's second GPU for as long as it runs.
HOLD = """
import ctypes, signal
cuda, gpu, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
codes = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(gpu), 1)]
codes.append(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu))
codes.append(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(2 << 30)))
assert not any(codes), codes
signal.pause()
"""
APPS = ["nvidia-smi", "--query-compute-apps=pid,used_memory,gpu_uuid", "--format=csv,noheader,nounits"]


def uuid(gpu: int) -> str:
    return f"GPU-b3000001-0000-4000-8000-00000000000{gpu}"


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        (["--gpus", "all"], [0, 1, 2, 3]),
        (["--gpus", "device=1,3"], [1, 3]),
        (["--gpus", f"device={uuid(2)}"], [2]),
        (["--gpus", "2"], [0, 1]),
        (["--runtime", "nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=3"], [3]),
        (["--runtime", "nvidia", "-e", "NVIDIA_VISIBLE_DEVICES=all"], [0, 1, 2, 3]),
    ],
)
def test_a_container_sees_the_gpus_it_asked_for(
    node: Node, image: str, options: list[str], gpus: list[int]
) -> None:
    quoted = [f'"{word}"' if word.startswith("device=") else word for word in options]
    listed = node.docker("run", "--rm", *quoted, image, "sh", "-c", "nvidia-smi -L; ls /dev").out
    assert [line.split("UUID: ")[1].rstrip(")") for line in listed.splitlines() if "UUID" in line] == list(
        map(uuid, gpus)
    )
    assert [f"nvidia{gpu}" for gpu in range(4) if f"nvidia{gpu}\n" in listed] == [
        f"nvidia{gpu}" for gpu in gpus
    ]


def test_a_container_that_asks_for_none_has_none(node: Node, image: str) -> None:
    assert "nvidia" not in node.docker("run", "--rm", image, "ls", "/dev").out
    assert (
        "nvidia"
        not in node.docker("run", "--rm", "-e", "NVIDIA_VISIBLE_DEVICES=all", image, "ls", "/dev").out
    )


def test_inspect_shows_the_request_and_mounts_the_driver(node: Node, image: str) -> None:
    node.docker(
        "run",
        "-d",
        "--name",
        "asks",
        "--gpus",
        '"device=0,1"',
        "--ulimit",
        "memlock=-1",
        image,
        "sleep",
        "60",
    )
    inspected = json.loads(node.docker("inspect", "asks").out)[0]
    assert inspected["HostConfig"]["DeviceRequests"] == [
        {"Driver": "", "Count": 0, "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]], "Options": {}}
    ]
    assert inspected["HostConfig"]["Runtime"] == "runc"
    assert inspected["HostConfig"]["Ulimits"] == [{"Name": "memlock", "Hard": -1, "Soft": -1}]
    mounts = node.docker("exec", "asks", "cat", "/proc/self/mountinfo").out
    assert "/usr/bin/nvidia-smi ro" in mounts
    assert "libcuda.so.580.173.02 ro" in mounts


def test_an_unknown_gpu_and_a_broken_driver_fail_the_start(node: Node, image: str) -> None:
    unknown = node.docker("run", "--rm", "--gpus", '"device=7"', image, "true", check=False)
    assert "nvidia-container-cli: device error: 7: unknown device" in unknown.err
    node.set_state("driver-upgraded")
    mismatch = node.docker("run", "--rm", "--gpus", "all", image, "true", check=False)
    assert "driver/library version mismatch" in mismatch.err


def test_a_container_without_devices_while_the_host_has_them(node: Node, image: str) -> None:
    node.set_state("container-without-devices")
    assert "nvidia" not in node.docker("run", "--rm", "--gpus", "all", image, "ls", "/dev").out
    assert node.run(["nvidia-smi", "-L"]).out.count("GB300") == 4


def test_an_imex_channel_is_passed_in_on_request(node: Node, image: str) -> None:
    asked = node.docker(
        "run",
        "--rm",
        "--gpus",
        "all",
        "-e",
        "NVIDIA_IMEX_CHANNELS=0",
        image,
        "ls",
        "/dev/nvidia-caps-imex-channels",
    )
    assert asked.out.split() == ["channel0"]


def test_memory_held_in_a_container_is_seen_on_the_host(node: Node, image: str) -> None:
    node.docker("run", "-d", "--name", "engine", "--gpus", '"device=1,3"', image, "python3", "-c", HOLD)
    wait_for(lambda: bool(node.holders()), "the engine to hold memory")
    pid = node.docker("inspect", "-f", "{{.State.Pid}}", "engine").out.strip()
    for user in ("root", "ops"):
        assert node.run(APPS, user=user).out == f"{pid}, 2548, {uuid(3)}\n"
    assert "/dev/nvidia3" in node.run(["sh", "-c", f"ls -l /proc/{pid}/fd"]).out
    assert node.docker("exec", "engine", *APPS).out == ""
    node.kill_engine("engine")
    wait_for(lambda: not node.holders(), "the memory to be free")


def test_a_foreign_process_and_an_orphan(node: Node) -> None:
    node.set_state("foreign-process")
    pid = node.holders()[0]
    shown = node.run(["ps", "-o", "user=,ppid=,args=", "-p", str(pid)]).out.split(None, 2)
    assert (shown[0], shown[2].split()[:2]) == ("alice", ["python3", "/home/alice/train.py"])
    assert shown[1] != "1"
    node.set_state("orphan")
    assert node.run(["kill", "-0", str(pid)], check=False).rc != 0
    orphan = node.holders()[0]
    assert node.run(["ps", "-o", "ppid=,comm=", "-p", str(orphan)]).out.split() == ["1", "VLLM::Worker_TP"]
