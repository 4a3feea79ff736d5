# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times as the host's files write them, turned into seconds since 1970 (pure; private to the collection).

Logs in local time are read with the host's own zone: this runs on the host.
"""

from __future__ import annotations

import calendar
import re
import time
from typing import Optional

_ISO = re.compile(
    r"^(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)?$", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CTIME = re.compile(
    r"^(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d)(?: (\d{4}))?$", re.ASCII
)


def utc(seconds: Optional[float]) -> Optional[str]:
    """Seconds since 1970 as ``2026-11-30T20:25:15Z``; None for a time that no calendar has."""
    if seconds is None or not -62135596800 <= seconds < 253402300800:  # the years 1 to 9999
        return None
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def from_iso(text: str) -> Optional[float]:
    """``2026-11-30 20:25:15,123`` and the like; without a zone it is the host's local time."""
    match = _ISO.match(text.strip())
    if not match:
        return None
    fraction = float("0." + match.group(7)) if match.group(7) else 0.0
    whole = _seconds([int(part) for part in match.groups()[:6]], match.group(8))
    return None if whole is None else whole + fraction


def from_words(text: str, now: float) -> Optional[float]:
    """``Mon Nov 30 20:25:15 2026`` or ``Nov 30 20:25:15`` in local time.

    A time without a year is the latest one that is not in the future.
    """
    match = _CTIME.match(text.strip())
    if not match or match.group(1) not in _MONTHS:
        return None
    month, day = _MONTHS.index(match.group(1)) + 1, int(match.group(2))
    clock = [int(part) for part in match.groups()[2:5]]
    if match.group(6):
        return _seconds([int(match.group(6)), month, day, *clock], None)
    year = time.localtime(now).tm_year
    # a day of grace: the writer's clock may be ahead of ours
    for candidate in (year + 1, year, year - 1):
        seconds = _seconds([candidate, month, day, *clock], None)
        if seconds is not None and seconds <= now + 86400:
            return seconds
    return None


def _seconds(parts: list[int], zone: Optional[str]) -> Optional[float]:
    year, month, day, hour, minute, second = parts
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 62 and year >= 1):
        return None
    if day > calendar.monthrange(year, month)[1]:
        return None
    try:
        if zone is None:
            return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None
    offset = 0
    if zone != "Z":
        sign = -1 if zone[0] == "-" else 1
        offset = sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)
    return float(calendar.timegm((year, month, day, hour, minute, second)) - offset)
