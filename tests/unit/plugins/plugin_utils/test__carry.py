# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of carried libraries: pinned, checked, the same every time."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _carry


@pytest.fixture
def wheels(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as wheel:
        wheel.writestr("some_lib/__init__.py", "X = 1")
        wheel.writestr("some_lib/data.bin", "no")
        wheel.writestr("some_lib-1.0.dist-info/METADATA", "no")
    (tmp_path / "Some_Lib-1.0-py3-none-any.whl").write_bytes(content.getvalue())
    return tmp_path, hashlib.sha256(content.getvalue()).hexdigest()


def test_the_shipped_lock_file_is_readable_and_complete():
    names = {requirement.name for requirement in _carry.read_requirements(_carry.LOCK_FILE.read_text())}
    assert names == {"charset-normalizer", "docker", "idna", "nvidia-ml-py", "requests", "urllib3"}


@pytest.mark.parametrize(
    "line", ["docker", "docker==7.2.0", "docker>=7 --hash=sha256:" + "0" * 64, "docker==7 --hash=md5:00"]
)
def test_a_line_without_pin_or_hash_is_refused(line):
    with pytest.raises(BaselineError, match="line 1: expected NAME==VERSION --hash=sha256"):
        _carry.read_requirements(line)


def test_only_python_files_travel_and_equal_wheels_give_equal_archives(wheels):
    directory, sha256 = wheels
    requirement = _carry.Requirement("some-lib", "1.0", sha256)
    archive = _carry.build_archive([requirement], directory)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        assert opened.namelist() == ["certifi.py", "some_lib/__init__.py"]
    assert archive == _carry.build_archive([requirement], directory)


def test_a_wheel_with_another_content_is_refused(wheels):
    directory, _sha256 = wheels
    with pytest.raises(BaselineError, match=r"expected sha256 0000.*, found .*; fetch the file again"):
        _carry.build_archive([_carry.Requirement("some-lib", "1.0", "0" * 64)], directory)


def test_a_missing_wheel_is_named_with_the_command_that_gets_it(wheels):
    directory, sha256 = wheels
    with pytest.raises(BaselineError, match=r"pip download --no-deps -d .* some-lib==2.0"):
        _carry.build_archive([_carry.Requirement("some-lib", "2.0", sha256)], directory)


def test_the_archive_is_built_once_and_kept(wheels, tmp_path, monkeypatch):
    directory, sha256 = wheels
    lock = tmp_path / "lock.txt"
    lock.write_text(f"# comment\nsome-lib==1.0 --hash=sha256:{sha256}\n")
    monkeypatch.setattr(_carry, "LOCK_FILE", lock)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(_carry.WHEELS_VARIABLE, str(directory))
    _carry.carried_archive.cache_clear()
    first = _carry.carried_archive()
    (directory / "Some_Lib-1.0-py3-none-any.whl").unlink()
    _carry.carried_archive.cache_clear()
    assert _carry.carried_archive() == first
    _carry.carried_archive.cache_clear()


def test_a_download_that_fails_says_what_to_do(tmp_path, monkeypatch):
    lock = tmp_path / "lock.txt"
    lock.write_text(f"no-such-library-of-anybody==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setattr(_carry, "LOCK_FILE", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(BaselineError, match=f"name it in the environment variable {_carry.WHEELS_VARIABLE}"):
        _carry._download(tmp_path)
