# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that were wrapped: what stands between the two halves of a value that a line end has split
(private to the collection).
"""

from __future__ import annotations

import re
from typing import Optional

# What a log puts before a line: time and stream of our own kept logs, the process and level of vLLM's.
_TIME = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9:]{5}) "
_STAMP = rb"(?:" + _TIME + rb"(?:(?:stdout|stderr|unknown) )?)?"
_PREFIX = (
    _STAMP + rb"(?:\([A-Za-z_0-9]+ (?:pid|ip)=[^()\n]{1,40}\) )*"
    rb"(?:[A-Z]{4,8} [0-9-]{5,10} [0-9:,.]{8,12} \[[^\]\n]{1,60}\] )?"
    rb"[ \t|>+]{0,80}"
)
# The time and stream that open a line of a kept log, if they do.
STAMP = re.compile(_STAMP)
# The end of a line and what opens the next, within a document that a log shows.
NEXT_LINE = rb"\r?\n" + _STAMP + rb"[ \t]{0,160}"
LINE_PREFIX = re.compile(_PREFIX)
# A line end, as such or written as an escape, with what may stand round it.
WRAP = re.compile(rb"[ \t]{0,8}(?:\\?\r?\n" + _PREFIX + rb"|(?:\\{1,2}r)?\\{1,2}n[ \t]{0,80})")
_WRAP_BEFORE = re.compile(rb"[ \t]{0,8}\\?\r?\Z")
_ESCAPED_BEFORE = re.compile(rb"(?:\\{1,2}r)?\\{1,2}n[ \t]{0,80}\Z")
_REACH = 320


def after_wrap(text: bytes, position: int) -> Optional[int]:
    """Where the text goes on when a line was wrapped at the position."""
    match = WRAP.match(text, position)
    return match.end() if match else None


def before_wrap(text: bytes, position: int) -> Optional[int]:
    """Where the line before ends when the position is where a wrapped line goes on."""
    floor = max(0, position - _REACH)
    escaped = _ESCAPED_BEFORE.search(text[floor:position])
    if escaped:
        return floor + escaped.start()
    newline = text.rfind(b"\n", floor, position)
    if newline < 0 or not LINE_PREFIX.fullmatch(text, newline + 1, position):
        return None
    floor = max(0, newline - 12)
    ending = _WRAP_BEFORE.search(text[floor:newline])
    return floor + ending.start() if ending else newline
