# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Handles of ranks, and who belongs to a rank."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import (
    Rank,
    Row,
    is_alive,
    members,
    parse_row,
    process_table,
    read_row,
)


def row(pid, parent, session=0):
    return Row(pid, parent, session, "x", "S", 1, 0, 1, 0)


def test_a_handle_of_a_container():
    rank = Rank.from_handle(
        {
            "rank": 1,
            "container": {"id": "abc", "name": "gpufleet-run-001-1"},
            "log": {"how": "docker", "container": "abc"},
            "lease": {"pid": 9, "start_ticks": 8, "directory": "/run/x"},
            "api_port": "8000",
            "gpus": ["all"],
        }
    )
    assert (rank.number, rank.container, rank.api_port, rank.gpus) == (1, "abc", 8000, ())
    assert rank.describe() == "container gpufleet-run-001-1"


def test_a_handle_of_a_process():
    rank = Rank.from_handle({"rank": 0, "process": {"pid": 5, "start_ticks": 7}, "log": {"path": "/x"}})
    assert (rank.pid, rank.start_ticks, rank.log, rank.describe()) == (5, 7, "/x", "process 5")


@pytest.mark.parametrize("handle", [{}, {"rank": 0}, {"container": {}}, {"process": {"pid": 5}}])
def test_what_is_no_handle(handle):
    with pytest.raises(BaselineError, match="expected"):
        Rank.from_handle(handle)


def test_members_are_all_below_and_all_of_the_session():
    rows = [
        row(1, 0),
        row(10, 1, 10),
        row(11, 10, 10),
        row(12, 11, 12),
        row(13, 1, 10),
        row(14, 13, 14),
        row(20, 1),
    ]
    table = {one.pid: one for one in rows}
    assert members(table, 10) == [10, 11, 12, 13, 14]
    assert members(table, 99) == []
    del table[10]
    assert members(table, 10) == [11, 12, 13, 14]


def test_a_command_with_parentheses():
    fields = " ".join(
        ["1", "2", "3"] + ["0"] * 7 + ["30", "12", "0", "0", "0", "0", "4", "0", "777", "0", "55"]
    )
    found = parse_row("42 (a) b) S " + fields)
    assert (found.command, found.parent, found.session, found.cpu_ticks) == ("a) b", 1, 3, 42)
    assert (found.threads, found.start_ticks, found.resident_pages) == (4, 777, 55)


def test_a_process_that_is_over_is_not_alive():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = read_row(child.pid)
    assert zombie is not None
    assert not is_alive(zombie, zombie.start_ticks)
    child.wait()
    assert not is_alive(read_row(child.pid), 0)


def test_another_process_with_its_number_is_not_it():
    own = process_table()[os.getpid()]
    assert is_alive(own, own.start_ticks)
    assert not is_alive(own, own.start_ticks + 1)


def test_a_lease_is_renewed(tmp_path):
    lease = tmp_path / "lease"
    rank = Rank(0, "c", state_directory=str(tmp_path))
    assert rank.renew_lease() is False
    lease.touch()
    os.utime(lease, (1, 1))
    assert rank.renew_lease() is True
    assert lease.stat().st_mtime > 1
    assert Rank(0, "c").renew_lease() is None
