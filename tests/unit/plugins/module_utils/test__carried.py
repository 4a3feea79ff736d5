# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Libraries that are imported from memory."""

from __future__ import annotations

import base64
import io
import sys
import zipfile

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


def archive(**files: str) -> str:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.fixture(autouse=True)
def forget():
    yield
    for name in [name for name in sys.modules if name.split(".")[0].startswith("travelling")]:
        del sys.modules[name]


def test_packages_and_modules_are_imported_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    text = archive(
        **{
            "travelling/__init__.py": "from .inner import NAME",
            "travelling/inner.py": "NAME = 'seen'",
            "travelling_alone.py": "X = 1",
        }
    )
    with carried(text):
        import travelling
        import travelling_alone

        assert travelling.NAME == "seen"
        assert travelling_alone.X == 1
    assert list(tmp_path.iterdir()) == []


def test_the_importer_is_gone_afterwards_also_after_an_error():
    before = list(sys.meta_path)
    during: list[object] = []

    def fail() -> None:
        with carried(archive(**{"travelling_two.py": ""})):
            during.extend(sys.meta_path)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert during != before
    assert sys.meta_path == before
    with pytest.raises(ImportError):
        import travelling_two  # noqa: F401


def test_carried_libraries_come_before_installed_ones():
    with carried(archive(**{"travelling_three.py": "A = 1"})):
        import travelling_three

        assert travelling_three.__spec__.loader is sys.meta_path[0]


def test_other_names_are_left_to_the_system():
    with carried(archive(**{"travelling_four.py": ""})):
        assert sys.meta_path[0].find_spec("json", None) is None
        assert sys.meta_path[0].find_spec("travelling_four.missing", None) is None


def test_without_an_archive_nothing_changes():
    before = list(sys.meta_path)
    with carried(""):
        assert sys.meta_path == before


@pytest.mark.parametrize("text", ["no base64!", base64.b64encode(b"no zip").decode()])
def test_a_damaged_archive_is_a_clear_error(text):
    with (
        pytest.raises(BaselineError, match="expected the carried libraries as a base64 zip archive"),
        carried(text),
    ):
        pass
