# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/proc of a process is read whole, or every refused piece is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Reading
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import (
    ProcessLine,
    ancestors,
    descendants,
    list_processes,
    log_kind,
    mount_of,
    parse_arguments,
    parse_limits,
    parse_maps,
    parse_stat,
    read_process,
    root_mount,
    start_time,
)
from hypothesis import given
from hypothesis import strategies as st

MAPS = """\
55d0a0000000-55d0a0001000 r--p 00000000 08:01 1234 /usr/bin/python3.12
7f0000000000-7f0000100000 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
7f0000100000-7f0000200000 r--p 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
7f0000200000-7f0000300000 r-xp 00000000 08:01 2 /usr/local/cuda-13.2/compat/libcuda.so.595.45.04
7f0000300000-7f0000400000 r-xp 00000000 08:01 3 /v/site-packages/nvidia/nccl/lib/libnccl.so.2 (deleted)
7f0000400000-7f0000500000 r-xp 00000000 08:01 4 /v/site-packages/nvidia/cu13/lib/libcudart.so.13
7f0000500000-7f0000600000 r-xp 00000000 08:01 5 /v/torch/lib/libcudart-d0da41ae.so.11.0
7f0000600000-7f0000700000 rw-s 00000000 00:05 6 /dev/nvidia0
7f0000700000-7f0000800000 rw-s 00000000 00:05 7 /dev/nvidiactl
7f0000800000-7f0000900000 rw-s 00000000 00:1a 8 /dev/shm/psm_1234 (deleted)
7f0000900000-7f0000a00000 rw-p 00000000 00:00 0 [heap]
7f0000a00000-7f0000b00000 r-xp 00000000 08:01 9 /a dir/with blanks/libnvrtc.so.13
"""


def test_libraries_that_a_process_really_uses() -> None:
    found = parse_maps(MAPS)
    seen = {library["path"]: library for library in found["libraries"]}
    driver = seen["/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"]
    assert (driver["kind"], driver["version"], driver["compat"]) == ("libcuda", "580.159.04", False)
    assert seen["/usr/local/cuda-13.2/compat/libcuda.so.595.45.04"]["compat"] is True
    nccl = seen["/v/site-packages/nvidia/nccl/lib/libnccl.so.2"]
    assert (nccl["kind"], nccl["deleted"]) == ("libnccl", True)
    assert seen["/v/torch/lib/libcudart-d0da41ae.so.11.0"]["version"] == "11.0"
    assert "/a dir/with blanks/libnvrtc.so.13" in seen
    assert len(found["libraries"]) == 6
    assert found["devices"] == ["/dev/nvidia0", "/dev/nvidiactl"]
    assert found["deleted"] == ["/v/site-packages/nvidia/nccl/lib/libnccl.so.2"]


def test_a_command_name_may_have_parentheses_and_blanks() -> None:
    fields = " ".join(["S", "7", *["0"] * 17, "4242", "0"])
    line = parse_stat(f"12 (tmux: (server) x) {fields}\n")
    assert (line.pid, line.command, line.state, line.parent, line.start_ticks) == (
        12,
        "tmux: (server) x",
        "S",
        7,
        4242,
    )


def test_arguments_and_padded_titles() -> None:
    assert parse_arguments(b"vllm\0serve\0\0--x\0") == ["vllm", "serve", "", "--x"]
    assert parse_arguments(b"VLLM::EngineCore\0\0\0\0") == ["VLLM::EngineCore"]
    assert parse_arguments(b"VLLM::EngineCore") == ["VLLM::EngineCore"]
    assert parse_arguments(b"\xff\0") == ["\\xff"]
    assert parse_arguments(b"") == []


def test_limits_of_this_process_are_those_the_kernel_says() -> None:
    import resource

    limits = parse_limits(Path("/proc/self/limits").read_text())
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits["Max open files"]["soft"] == str(soft)
    assert "Max locked memory" in limits


def test_start_time_is_boot_plus_ticks() -> None:
    assert start_time(250, "cpu 1 2\nbtime 1700000000\n", 100) == 1700000002.5
    assert start_time(250, "", 100) is None


MOUNTINFO = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
30 22 0:40 / /models rw,relatime shared:9 - nfs4 server:/models rw,hard
31 22 0:41 / /with\\040blank rw - tmpfs tmpfs rw
32 22 0:42 / /models rw,relatime - nfs4 other:/models rw,soft
"""


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/models/k3", "other:/models"),
        ("/models", "other:/models"),
        ("/modelsx", "/dev/nvme0n1p1"),
        ("/with blank/x", "tmpfs"),
    ],
)
def test_mount_of_a_path_without_touching_it(path: str, source: str) -> None:
    assert mount_of(MOUNTINFO, path)["source"] == source


def test_root_mount_is_the_last_one() -> None:
    assert root_mount("1 0 0:1 / / rw - a b c\n2 1 0:2 /x / rw - d e f\n").startswith("2 1")


LINES = [
    ProcessLine(pid, parent, name, "S", 0)
    for pid, parent, name in [(1, 0, "init"), (5, 1, "a"), (6, 5, "b"), (9, 6, "c"), (7, 1, "d")]
]


def test_family() -> None:
    assert [line.pid for line in ancestors(LINES, 9)] == [6, 5, 1]
    assert descendants(LINES, [5]) == [5, 6, 9]


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("/var/log/vllm.log", "file"),
        ("socket:[123]", "socket"),
        ("pipe:[123]", "pipe"),
        ("/dev/pts/3", "terminal"),
        ("/dev/null", "nowhere"),
        ("anon_inode:[x]", "other"),
    ],
)
def test_where_the_log_goes(target: str, kind: str) -> None:
    assert log_kind(target) == kind


def test_a_real_process_is_read_with_its_log(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("w") as stream:
        child = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", "vllm", "serve"],
            stdout=stream,
            stderr=subprocess.DEVNULL,
            env={"HF_HOME": "/models/hub", "PATH": os.environ["PATH"]},
            cwd=tmp_path,
        )
    try:
        emitted: list[Reading] = []
        facts = read_process(child.pid, emitted.append).value
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert facts["argv"][-2:] == ["vllm", "serve"]
    assert "HF_HOME=/models/hub" in facts["environ"]
    assert facts["cwd"] == str(tmp_path)
    assert facts["open"]["outputs"] == {"1": str(log), "2": "/dev/null"}
    assert facts["refused"] == {}
    # What could hang comes last, and all before it was already told.
    assert "status" in emitted[0].value
    assert "environ" not in emitted[0].value


def test_every_process_is_listed_and_those_that_may_hang_come_last(tmp_path: Path) -> None:
    """A process in uninterruptible sleep may hold up its reader; the others are known by then."""
    for pid, state in ((10, "D"), (20, "S"), (30, "R")):
        (tmp_path / str(pid)).mkdir()
        fields = " ".join([state, "1", *["0"] * 17, "1", "0"])
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (p{pid}) {fields}")
        (tmp_path / str(pid) / "cmdline").write_bytes(b"word%d\0" % pid)
    known: list[list[list[str]]] = []
    lines = list_processes(str(tmp_path), lambda so_far: known.append([line.argv for line in so_far]))
    assert [(line.pid, line.argv) for line in lines] == [(10, ["word10"]), (20, ["word20"]), (30, ["word30"])]
    assert known == [[["word20"], ["word30"], []]]


@given(st.text(max_size=300))
def test_no_text_of_proc_is_an_error(text: str) -> None:
    parse_maps(text)
    parse_limits(text)
    mount_of(text, "/x")
    root_mount(text)
