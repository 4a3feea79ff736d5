# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The key of stand-ins as an option of a module (private to the collection)."""

from __future__ import annotations

import os
from typing import Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


def key_of(text: Optional[str]) -> bytes:
    """The key, or one of its own for a result that is compared with nothing; raises BaselineError."""
    if not text:
        return os.urandom(32)
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BaselineError(
            "redaction_key: expected 64 hexadecimal digits, found something else; correct it or leave it out"
        ) from error
