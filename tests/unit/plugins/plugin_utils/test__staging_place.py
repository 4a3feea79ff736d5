# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The staging directory as a login user makes it, with the real shell."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _staging_place


def make(*places: Path | str) -> subprocess.CompletedProcess[str]:
    command = _staging_place.make_command([str(place) for place in places])
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)


def test_t17_the_directory_is_closed_to_others_and_its_space_was_measured(tmp_path):
    made = _staging_place.parse_made(make(tmp_path).stdout)
    assert Path(made.path).parent == tmp_path
    assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o700
    assert made.free_bytes > 0


def test_a_place_with_a_space_or_a_quote_in_its_name(tmp_path):
    place = tmp_path / "it's here $(touch no)"
    place.mkdir()
    # The path cannot be told apart in the output, so it is refused rather than cut.
    assert _staging_place.parse_made(make(place).stdout) is None or (place / "no").exists() is False
    assert not (tmp_path / "no").exists()


def test_a_missing_place_is_passed_over(tmp_path):
    assert _staging_place.parse_made(make(tmp_path / "missing", tmp_path).stdout).path.startswith(
        str(tmp_path)
    )


def test_no_place_at_all_is_said(tmp_path):
    done = make(tmp_path / "missing")
    assert done.returncode == 1
    assert "no place with free space" in done.stderr


def test_what_a_killed_run_left_is_removed_after_a_day_and_nothing_else(tmp_path):
    old, young, other = (
        tmp_path / ".gpufleet-freeze.old",
        tmp_path / ".gpufleet-freeze.young",
        tmp_path / "other",
    )
    for path in (old, young, other):
        path.mkdir()
        (path / "record.tar.gz").write_text("")
    for path in (old, other):
        os.utime(path, (0, 0))
    made = _staging_place.parse_made(make(tmp_path).stdout)
    assert made.stale_removed == [str(old)]
    assert not old.exists()
    assert young.exists()
    assert other.exists()


def test_a_banner_round_the_answer_does_no_harm():
    made = _staging_place.parse_made("Welcome!\r\nstaging /tmp/.gpufleet-freeze.x 1024\r\nbye")
    assert (made.path, made.free_bytes) == ("/tmp/.gpufleet-freeze.x", 1024)


def test_it_is_removed_again(tmp_path):
    made = _staging_place.parse_made(make(tmp_path).stdout)
    (Path(made.path) / "record.tar.gz").write_text("")
    subprocess.run(["/bin/sh", "-c", _staging_place.remove_command(made.path)], check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/", "/var/tmp", "/home/x", ""])
def test_nothing_else_can_be_removed(path):
    with pytest.raises(ValueError, match="is not a staging directory"):
        _staging_place.remove_command(path)
