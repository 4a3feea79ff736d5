# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of what was there before and after a freeze."""

from __future__ import annotations

import os
import subprocess
import sys

from ansible_collections.gpufleet.baseline.plugins.module_utils import _before_after
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe


def probes(when: str, **lists: dict[str, str]) -> dict[str, Probe]:
    found = {f"{when}.{kind}": Probe(f"{when}.{kind}", "ok", {}) for kind in _before_after.KINDS}
    found.update({f"{when}.{kind}": Probe(f"{when}.{kind}", "ok", value) for kind, value in lists.items()})
    return found


def test_a_new_process_is_seen_with_its_start():
    before = _before_after.list_processes()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        differences = _before_after.differences(before, _before_after.list_processes(), [])
        assert [key for key in differences["added"] if key.startswith(f"{child.pid} ")]
    finally:
        child.kill()
        child.wait()


def test_a_process_whose_name_has_parentheses(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) b (c) S 1 " + "0 " * 17 + "4242 0")
    assert _before_after.list_processes(proc=str(tmp_path)) == {"7 4242": "a) b (c"}


def test_what_we_started_ourselves_is_no_change_of_the_host():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        everything, foreign = (
            _before_after.list_processes(),
            _before_after.list_processes(without=os.getpid()),
        )
        pids = {int(key.split()[0]) for key in set(everything) - set(foreign)}
        assert {os.getpid(), child.pid} <= pids
        assert os.getppid() not in pids
    finally:
        child.kill()
        child.wait()


def test_files_left_behind_are_seen(tmp_path):
    before = _before_after.list_files([str(tmp_path)])
    (tmp_path / "left").write_text("x")
    differences = _before_after.differences(before, _before_after.list_files([str(tmp_path)]), [])
    assert differences["added"] == [str(tmp_path / "left")]


def test_our_own_staging_directory_is_no_difference():
    after = {
        "/tmp/.gpufleet-freeze.x": "directory",
        "/tmp/.gpufleet-freeze.xy": "directory",
        f"{os.getpid()} 99": "python3",
    }
    differences = _before_after.differences({}, after, ["/tmp/.gpufleet-freeze.x", str(os.getpid())])
    assert differences["added"] == ["/tmp/.gpufleet-freeze.xy"]


def test_a_restarted_container_is_a_change():
    document = _before_after.compare(
        probes("before", containers={"abc": "running since 1"}),
        probes("after", containers={"abc": "running since 2"}),
        [],
    )
    assert document["differences"]["containers"] == {"added": [], "removed": [], "changed": ["abc"]}


def test_a_list_that_was_not_measured_is_no_empty_list():
    before = probes("before")
    before["before.containers"] = Probe("before.containers", "timeout", message="no answer within 30 s")
    document = _before_after.compare(before, probes("after", containers={"abc": "running"}), [])
    assert document["differences"]["containers"] == {"not measured": "no answer within 30 s"}
