# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text of hosts and logs made fit for a screen or a page (pure; private to the collection, controller only)."""

from __future__ import annotations

import re

WIDTH = 100
# CSI, OSC and other strings with their end, two-character sequences (ECMA-48); what is left of C0, DEL and C1 goes too.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def plain(text: str) -> str:
    """One line without escape sequences, control characters and marks that turn the direction of writing."""
    text = _ESCAPE.sub("", text)
    return "".join(
        " " if character in "\t\n\r" else character
        for character in text
        if character in "\t\n\r" or (character.isprintable() and character not in _BIDIRECTIONAL)
    )


def clip(text: str, width: int = WIDTH) -> str:
    """The text, or its beginning where it is longer."""
    return text if len(text) <= width else text[: width - 3] + "..."
