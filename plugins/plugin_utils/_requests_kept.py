# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests of a run, one numbered document each (private to the collection, controller only)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, read_json, write_json

DIRECTORY = "request"
_NUMBERED = "[0-9][0-9][0-9]*.json"


def keep(run: Run, document: dict[str, Any]) -> Path:
    """Write the document under the next free number and return where."""
    directory = run.path / DIRECTORY
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        path = _take_number(directory)
        write_json(path, document)
    except OSError as error:
        raise BaselineError(
            f"expected to write the request into {directory}, found: {error.strerror}; make room or see its mode"
        ) from error
    return path


def _take_number(directory: Path) -> Path:
    number = len(list(directory.glob(_NUMBERED)))
    while True:
        number += 1
        path = directory / f"{number:03d}.json"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        except FileExistsError:
            continue
        return path


def kept(run: Run) -> list[dict[str, Any]]:
    """The documents of the requests by number, without one that a dying controller left empty."""
    return [read_json(path) for path in numbered(run) if path.stat().st_size > 0]


def numbered(run: Run) -> list[Path]:
    """The files of the requests by number; a body that a freeze kept beside them is none."""
    return sorted((run.path / DIRECTORY).glob(_NUMBERED), key=lambda path: int(path.stem))
