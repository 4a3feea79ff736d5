# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that nobody waits for cleans up after itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _abandoned


def ended_in_a_child(directories: List[str], number: int, grandchild: bool = False) -> int:
    """Exit status of a process that was told to clean up and then got the signal."""
    pid = os.fork()
    if pid == 0:
        try:
            _abandoned.remove_when_ended(directories)
            if not grandchild or os.fork() == 0:
                os.kill(os.getpid(), number)
            else:
                os.wait()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("number", _abandoned.SIGNALS)
def test_t17_a_signal_removes_the_directories_with_what_is_in_them(tmp_path: Path, number: int) -> None:
    staging, sent = tmp_path / "staging", tmp_path / "sent"
    for directory in (staging, sent):
        directory.mkdir()
        (directory / "record.tar.gz.part").write_text("half")
    status = ended_in_a_child([str(staging), str(tmp_path / "gone already"), str(sent)], number)
    assert status == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_child_removes_nothing_of_its_parent(tmp_path: Path) -> None:
    assert ended_in_a_child([str(tmp_path)], signal.SIGHUP, grandchild=True) == 0
    assert tmp_path.exists()


def test_a_link_in_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "staging").symlink_to(tmp_path / "victim")
    ended_in_a_child([str(tmp_path / "staging")], signal.SIGTERM)
    assert (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    ("file", "sent", "found"),
    [
        ("/dev/shm/ansible_x_payload_1/ansible_x_payload.zip/a/freeze.py", "/dev/shm/ansible-tmp-1",
         ["/dev/shm/ansible_x_payload_1", "/dev/shm/ansible-tmp-1"]),
        ("/dev/shm/ansible_x_payload_1/ansible_x_payload.zip/a/freeze.py", None, ["/dev/shm/ansible_x_payload_1"]),
        ("/srv/checkout/plugins/modules/freeze.py", None, []),
    ],
)  # fmt: skip
def test_directories_of_a_running_module(file: str, sent: str, found: List[str]) -> None:
    assert _abandoned.own_directories(file, sent) == found
