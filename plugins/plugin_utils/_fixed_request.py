# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the fixed request, which is kept and not sent (private to the collection, controller only)."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


def read_request(path: str) -> str:
    """The text of the file, which must be a JSON object; an empty path is no request."""
    if not path:
        return ""
    place = Path(path).expanduser().absolute()
    expected = f"expected the fixed request's JSON body in {place}, found"
    next_step = "give the right path in freeze_request_file, or leave it out"
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
