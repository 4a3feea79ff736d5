# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_holders
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Reading

CONTAINER = "c0ffee" + "0" * 58
UUID = "GPU-b3000001-0000-4000-8000-00000000000%d"


def process(
    root: Path,
    pid: int,
    command: str,
    *devices: str,
    parent: int = 1,
    state: str = "S",
    cgroup: str = "0::/\n",
) -> None:
    place = root / "proc" / str(pid)
    (place / "fd").mkdir(parents=True)
    fields = [state, str(parent), *["0"] * 17, "12300", *["0"] * 30]
    (place / "stat").write_text("%d (%s) %s\n" % (pid, command, " ".join(fields)))
    (place / "comm").write_text(command[:15] + "\n")
    (place / "status").write_text("Name:\t%s\nUid:\t1000\t1000\t1000\t1000\n" % command)
    (place / "cgroup").write_text(cgroup)
    (place / "cmdline").write_bytes(b"%s\0--flag\0" % command.encode())
    for number, device in enumerate(devices):
        (place / "fd" / str(number)).symlink_to(device)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nml:x:1000:1000::/home/ml:/bin/sh\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("btime 1796070000\n")
    return tmp_path


def read(root: Path) -> Reading:
    return _gpu_holders.read_holders(lambda reading: None, str(root))


def test_t19_a_worker_that_outlived_its_container_is_found_from_the_host_s_processes(root: Path) -> None:
    cgroup = "12:devices:/docker/%s\n0::/docker/%s\n" % (CONTAINER, CONTAINER)
    process(
        root, 4242, "VLLM::Worker_TP0", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", cgroup=cgroup
    )
    process(root, 5, "bash", "/dev/pts/0")
    process(root, 6, "dcgm-exporter", "/dev/nvidiactl")
    [holder] = read(root).value
    assert holder["pid"] == 4242
    assert holder["started"] == "2026-11-30T20:22:03Z"
    assert holder["container_ids"] == [CONTAINER]
    assert (holder["uid"], holder["user"]) == (1000, "ml")
    assert holder["devices"] == ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
    assert holder["gpu_minors"] == [0]
    assert holder["argv"] == ["VLLM::Worker_TP0", "--flag"]


def test_t19_the_parent_of_a_left_over_is_told_whatever_it_is(root: Path) -> None:
    process(root, 100, "bash", parent=50)
    process(root, 4242, "python3", "/dev/nvidia3", parent=100)
    [holder] = read(root).value
    assert (holder["parent"], holder["parent_command"]) == (100, "bash")


@pytest.mark.parametrize(
    ("uid", "words"), [(1000, "may be read by root only"), (0, "cannot be read, not even by root")]
)
def test_t1_processes_that_this_user_may_not_look_into_make_the_answer_denied(
    root: Path, monkeypatch: pytest.MonkeyPatch, uid: int, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    process(root, 4242, "python3", "/dev/nvidia0")
    process(root, 4243, "python3", "/dev/nvidia1")
    real = os.listdir

    def listdir(path: str) -> List[str]:
        if path.endswith("4243/fd"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", listdir)
    reading = read(root)
    assert reading.outcome == "denied"
    assert reading.message == "the open files of 1 of 2 processes " + words
    assert [holder["pid"] for holder in reading.value] == [4242]


def test_t3_the_holders_are_told_before_their_command_lines_are_asked_for(root: Path) -> None:
    process(root, 4242, "python3", "/dev/nvidia0")
    said: List[Any] = []
    _gpu_holders.read_holders(lambda reading: said.append((reading.message, repr(reading.value))), str(root))
    assert "4242" in said[0][1]
    assert said[1][0] == "command line of process 4242"


def test_a_process_that_ends_meanwhile_is_left_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process(root, 4242, "python3", "/dev/nvidia0")
    (root / "proc/4242/fd").rename(root / "proc/gone")
    assert read(root).value == []


def test_where_the_host_is_a_container_its_own_identifier_is_no_container_of_a_holder(root: Path) -> None:
    outer = "a" * 64
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text("0::/docker/%s\n" % outer)
    process(root, 1, "init")
    process(root, 4242, "python3", "/dev/nvidia0", cgroup="0::/docker/%s/docker/%s\n" % (outer, CONTAINER))
    process(root, 4243, "python3", "/dev/nvidia1", cgroup="0::/docker/%s\n" % outer)
    assert [holder["container_ids"] for holder in read(root).value] == [[CONTAINER], []]


def test_our_own_probes_are_no_holders() -> None:
    parents = {10: 1, 11: 10, 12: 11, 20: 1}
    assert _gpu_holders._descendants(parents, 10) == {10, 11, 12}


def gpu(minor: int, *processes: Dict[str, Any]) -> Dict[str, Any]:
    return {"uuid": UUID % minor, "minor": minor, "processes": list(processes)}


def running(pid: int, memory: Optional[int] = 10, kind: str = "compute") -> Dict[str, Any]:
    return {"pid": pid, "memory_used": memory, "kind": kind, "name": "python3"}


def test_t19_one_process_on_several_gpus_is_one_holder_with_its_memory_on_each(root: Path) -> None:
    process(root, 4242, "python3", "/dev/nvidia0", "/dev/nvidia1")
    rows = read(root).value
    [holder] = _gpu_holders.combine(rows, [gpu(0, running(4242)), gpu(1, running(4242, None))])
    assert [(entry["uuid"], entry["memory_used"]) for entry in holder["gpus"]] == [
        (UUID % 0, 10),
        (UUID % 1, None),
    ]
    assert (holder["in_proc"], holder["in_driver"]) == (True, True)


def test_t19_a_process_that_only_the_driver_or_only_the_host_sees_is_kept(root: Path) -> None:
    process(root, 4242, "python3", "/dev/nvidia0")
    hidden, seen = _gpu_holders.combine(read(root).value, [gpu(0, running(99)), gpu(1)])
    assert (hidden["pid"], hidden["in_proc"], hidden["in_driver"]) == (99, False, True)
    assert (seen["pid"], seen["in_proc"], seen["in_driver"]) == (4242, True, False)
    assert seen["gpus"] == [{"uuid": UUID % 0, "minor": 0, "kind": "open device", "memory_used": None}]
    assert _gpu_holders.stale_reasons(hidden, None) == [
        "the driver names it, but the host has no such process"
    ]


@pytest.mark.parametrize(
    ("changes", "containers", "reasons"),
    [
        ({}, None, []),
        ({"parent": 1}, [], ["its parent has ended (adopted by process 1)"]),
        ({"container_ids": [CONTAINER]}, [], ["its container c0ffee000000 is not running"]),
        ({"container_ids": [CONTAINER]}, None, []),
        ({"container_ids": [CONTAINER], "parent": 1}, [CONTAINER], []),
        ({"state": "D"}, [], ["it sits in uninterruptible sleep"]),
        ({"state": "Z"}, [], ["it has ended and nobody has waited for it"]),
        ({"daemon": "nvidia-persistenced", "parent": 1}, [], []),
    ],
)
def test_t19_what_speaks_for_a_left_over(
    changes: Dict[str, Any], containers: Optional[List[str]], reasons: List[str]
) -> None:
    holder = {"daemon": None, "in_proc": True, "state": "S", "container_ids": [], "parent": 100, **changes}
    assert _gpu_holders.stale_reasons(holder, containers) == reasons


def test_t19_a_container_that_was_removed_is_told_from_one_that_ended() -> None:
    holder = {"daemon": None, "in_proc": True, "state": "S", "container_ids": [CONTAINER], "parent": 100}
    assert _gpu_holders.stale_reasons(holder, [], []) == ["its container c0ffee000000 was removed"]
    assert _gpu_holders.stale_reasons(holder, [], [CONTAINER]) == [
        "its container c0ffee000000 is not running"
    ]
    assert _gpu_holders.stale_reasons(holder, [CONTAINER], [CONTAINER]) == []


def test_t19_nothing_here_can_kill() -> None:
    source = Path(_gpu_holders.__file__).read_text()
    assert "os.kill" not in source
    assert "import signal" not in source


def test_the_processes_of_this_machine_are_read() -> None:
    script = (
        "from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_holders\n"
        "reading = _gpu_holders.read_holders(lambda reading: None)\n"
        "assert reading.outcome in ('ok', 'denied'), reading\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
