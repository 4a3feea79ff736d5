# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers of a rank's processes, and who else holds a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import process_table
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_sample import (
    completed,
    process_sample,
    rank_memory,
    read_processes,
    strangers,
)

READER = "import sys; open('/dev/zero','rb').read(4<<20); print('read', flush=True); input()"


def test_what_a_process_has_read_is_counted():
    child = subprocess.Popen([sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        sample = read_processes({3: child.pid}).value[3]
    finally:
        child.communicate(b"\n")
    assert sample["pids"] == [child.pid]
    assert sample["bytes_read"] >= 4 << 20
    assert sample["threads"] == 1
    assert sample["resident_bytes"] > 1 << 20


def test_a_rank_without_processes_has_no_bytes():
    assert process_sample(process_table(), [])["bytes_read"] is None


def gpu(uuid, *processes):
    return {"uuid": uuid, "processes": [{"pid": pid, "memory_used": used} for pid, used in processes]}


def test_memory_of_the_ranks_own_processes():
    gpus = [gpu("A", (1, 10), (2, 5), (9, 99)), gpu("B", (9, 99)), gpu("C", (1, None))]
    assert rank_memory(gpus, [1, 2]) == {"A": 15}
    assert rank_memory([gpu("C", (1, None))], [1]) is None


def holder(pid, uuid="A", **values):
    return {
        "pid": pid,
        "gpus": [{"uuid": uuid, "memory_used": 7}] if uuid else [],
        "daemon": None,
        "start_ticks": 100 + pid,
        "command": "python3",
        "parent_command": "bash",
        "user": "bob",
        "started": None,
        "container_ids": [],
        "in_proc": True,
        **values,
    }


def test_strangers():
    holders = [
        holder(1),
        holder(2, container_ids=["ours"]),
        holder(3, daemon="monitoring"),
        holder(4, "B"),
        holder(5, ""),
        holder(6),
    ]
    found = strangers(holders, {1}, {"ours"}, {"A"})
    assert [one["identity"] for one in found] == ["5@105", "6@106"]
    assert (found[1]["user"], found[1]["bytes"], found[1]["gpus"]) == ("bob", 7, ["A"])
    assert [one["pid"] for one in strangers(holders, {1}, {"ours"}, set())] == [4, 5, 6]


def test_a_holder_that_only_the_driver_names_is_looked_up():
    found = completed(holder(os.getpid(), in_proc=False, command=None, start_ticks=None, parent_command=None))
    assert found["start_ticks"] == process_table()[os.getpid()].start_ticks
    assert found["parent_command"]
    gone = completed(holder(2**22 + 5, in_proc=False, start_ticks=None))
    assert gone["start_ticks"] is None
