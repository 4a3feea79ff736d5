# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The staging directory: closed to others, without links, and nothing left of a killed module."""

from __future__ import annotations

import os
import stat

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _staging
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "staging"
    made.mkdir(mode=0o700)
    return made


def test_t17_a_directory_that_others_can_read_is_refused(directory):
    directory.chmod(0o750)
    with pytest.raises(BaselineError, match=r"expected the staging directory .* with mode 0700, found 0750"):
        _staging.Staging(str(directory))


def test_a_link_in_place_of_the_directory_is_refused(directory, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(directory)
    with pytest.raises(BaselineError, match="expected the staging directory"):
        _staging.Staging(str(link))


def test_a_link_in_place_of_a_file_is_not_followed(directory, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (directory / "record.part").symlink_to(victim)
    with _staging.Staging(str(directory)) as staging, pytest.raises(FileExistsError):
        staging.create("record.part")
    assert victim.read_text() == "untouched"


def test_a_link_in_place_of_the_finished_record_is_replaced(directory, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (directory / "record").symlink_to(victim)
    with _staging.Staging(str(directory)) as staging, staging.create("record.part") as opened:
        opened.write(b"sealed")
        assert staging.publish(opened, "record.part", "record") == ""
    assert victim.read_text() == "untouched"
    assert (directory / "record").read_bytes() == b"sealed"


def test_t17_files_are_closed_to_others(directory):
    with _staging.Staging(str(directory)) as staging, staging.create("record.part"):
        assert stat.S_IMODE(os.stat(directory / "record.part").st_mode) == 0o600


@pytest.mark.parametrize("size", [10, _staging.SPOOL_BYTES, 3 * _staging.SPOOL_BYTES])
def test_a_spool_gives_back_what_it_took_and_has_no_name(directory, size):
    content = os.urandom(size)
    with _staging.Staging(str(directory)) as staging:
        spool = staging.spool()
        for start in range(0, size, 70_000):
            spool.write(content[start : start + 70_000])
        assert spool.open().read() == content
        assert spool.open().read() == content
        assert list(directory.iterdir()) == []
        spool.close()


def test_t12_too_little_space_is_refused_before_anything_is_written(directory, monkeypatch):
    with _staging.Staging(str(directory)) as staging:
        monkeypatch.setattr(staging, "free_bytes", lambda: _staging.LEAST_FREE_BYTES - 1)
        with pytest.raises(BaselineError, match=r"expected at least 16 MiB free in .*; nothing was written"):
            staging.require_space()
    assert list(directory.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_record_made_by_root_belongs_to_the_directorys_owner(directory):
    os.chown(directory, 12345, 12345)
    with _staging.Staging(str(directory)) as staging, staging.create("part") as opened:
        assert staging.publish(opened, "part", "record") == ""
    assert (directory / "record").stat().st_uid == 12345


def test_a_record_that_cannot_be_given_away_is_explained(directory, monkeypatch):
    with _staging.Staging(str(directory)) as staging, staging.create("part") as opened:
        staging._owner = (os.geteuid() + 1, os.getegid())

        def refuse(*_unused: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "fchown", refuse)
        assert "run with become to root, or without become" in staging.publish(opened, "part", "record")
