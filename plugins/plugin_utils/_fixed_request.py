# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the controller that belong to the fixed request: its body, and an API key (private, controller only)."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


def read_request(path: str, option: str = "freeze_request_file") -> str:
    """The text of the file, which must be a JSON object; an empty path is no request."""
    if not path:
        return ""
    place = Path(path).expanduser().absolute()
    expected = f"expected the fixed request's JSON body in {place}, found"
    next_step = f"give the right path in {option}, or leave it out"
    try:
        text = place.read_text("utf-8")
        document = json.loads(text)
    except OSError as error:
        raise BaselineError(f"{expected}: {error.strerror}; {next_step}") from error
    except ValueError as error:
        raise BaselineError(f"{expected}: {error}; {next_step}") from error
    if not isinstance(document, dict):
        raise BaselineError(f"{expected} {type(document).__name__} instead of an object; {next_step}")
    return text


def read_api_key(path: str) -> str:
    """The key in the first line of a file; an empty path is no key. The key never stands in an error."""
    if not path:
        return ""
    place = Path(path).expanduser().absolute()
    try:
        lines = place.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        found = error.strerror if isinstance(error, OSError) else "bytes that are no text"
        raise BaselineError(f"expected an API key in {place}, found: {found}; give the right path") from None
    key = lines[0].strip() if lines else ""
    if not key:
        raise BaselineError(
            f"expected an API key in the first line of {place}, found none; give the right path"
        )
    return key
