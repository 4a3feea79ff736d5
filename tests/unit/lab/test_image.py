# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be compiled is a fault; what has no compiler is a program that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import image


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, and an empty cache but for a header."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(image, "CACHE", tmp_path)
    (tmp_path / "nvml.h").touch()
    return folder


def test_a_missing_compiler_is_a_missing_tool(programs: Path) -> None:
    with pytest.raises(image.ToolMissing, match="apt-get install gcc"):
        image.build_driver()


def test_a_driver_that_does_not_compile_is_no_missing_tool(programs: Path) -> None:
    compiler = programs / "gcc"
    compiler.write_text("#!/bin/sh\necho nvml.c:1: error: no such type >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(image.CannotBuild, match="error: no such type") as caught:
        image.build_driver()
    assert not isinstance(caught.value, image.ToolMissing)
    assert not list(programs.parent.glob("driver-*"))
