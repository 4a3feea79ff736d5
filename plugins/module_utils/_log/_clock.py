# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times in logs as comparable numbers (private to the collection).

vLLM's own lines carry month, day and second, but no year and no zone; a container runtime adds a UTC
time with a year. All of them are kept as seconds since the start of a leap year ("yearless" seconds),
so that they can be compared without a year, and the year is kept beside them for people.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Optional, Tuple

YEAR = 366 * 86400.0
_LEAP = datetime(2000, 1, 1)
_QUARTER = 900.0
_MONTHS = {
    name: number + 1 for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split())
}

FULL = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)


def yearless(month: int, day: int, hour: int, minute: int, second: float) -> Optional[float]:
    """Seconds since the start of a leap year; None when the digits are no date."""
    try:
        date = datetime(2000, month, day)
    except ValueError:
        return None
    if hour > 23 or minute > 59 or second >= 61:
        return None
    return (date - _LEAP).days * 86400.0 + hour * 3600.0 + minute * 60.0 + second


def month_number(name: str) -> int:
    """1 to 12 for an English month abbreviation, 0 for anything else."""
    return _MONTHS.get(name[:3].capitalize(), 0)


def clock_seconds(text: str) -> Optional[Tuple[int, int, float]]:
    """Hour, minute and second of an HH:MM:SS[.fraction] text."""
    parts = text.split(":")
    try:
        return int(parts[0]), int(parts[1]), float(parts[2].replace(",", "."))
    except (IndexError, ValueError):
        return None


def parse_full(match: re.Match[str]) -> Tuple[Optional[float], Optional[int], bool]:
    """(yearless seconds, year, is UTC) of a match of FULL; a time with a zone is turned into UTC."""
    year = int(match["year"])
    fraction = float("0." + match["fraction"]) if match["fraction"] else 0.0
    try:
        moment = datetime(
            year,
            int(match["month"]),
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            min(int(match["second"]), 59),
        )
    except ValueError:
        return None, None, False
    zone = match["zone"]
    if zone and zone != "Z":
        digits = zone[1:].replace(":", "")
        shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        try:
            moment = moment - shift if zone[0] == "+" else moment + shift
        except OverflowError:
            return None, None, False
    value = yearless(moment.month, moment.day, moment.hour, moment.minute, moment.second + fraction)
    return value, moment.year, bool(zone)


def parse_text(text: str) -> Tuple[Optional[float], Optional[int], bool]:
    """The same for a free text such as docker's StartedAt."""
    match = FULL.match(text.strip())
    if match is None or match["year"] == "0001":  # docker writes year 1 for "never"
        return None, None, False
    return parse_full(match)


def from_epoch(seconds: float) -> Tuple[float, int]:
    """Yearless UTC seconds and the year of a Unix time."""
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    value = yearless(moment.month, moment.day, moment.hour, moment.minute, moment.second + seconds % 1)
    return (value or 0.0), moment.year


def show(value: Optional[float], year: Optional[int]) -> Optional[str]:
    """A time as people read it: with the year when it is known, without it when not."""
    if value is None:
        return None
    wraps, rest = divmod(value, YEAR)
    moment = _LEAP + timedelta(seconds=int(rest))
    clock = moment.strftime("%m-%d %H:%M:%S")
    return clock if year is None else "{0:04d}-{1}".format(year + int(wraps), clock)


def zone_of(own: float, outer: float) -> Optional[float]:
    """Seconds that the log's own clock is ahead of UTC, from one line that has both times; None when it
    can't be.
    """
    difference = own - outer
    if difference > YEAR / 2:
        difference -= YEAR
    elif difference < -YEAR / 2:
        difference += YEAR
    rounded = round(difference / _QUARTER) * _QUARTER
    return rounded if abs(rounded) <= 14 * 3600 and abs(difference - rounded) < 120 else None


class LogClock:
    """The clock of one log: turns a year change into a longer count, learns the year and the zone."""

    def __init__(self) -> None:
        self.year: Optional[int] = None
        self.zone: Optional[float] = None
        self._last: Optional[float] = None
        self._wraps = 0

    def unwrap(self, value: float) -> float:
        """The value, a year later when December has become January since the line before."""
        if self._last is not None:
            if value + YEAR / 2 < self._last:
                self._wraps += 1
            elif value > self._last + YEAR / 2 and self._wraps:
                self._wraps -= 1
        self._last = value
        return value + self._wraps * YEAR

    def learn(self, own: Optional[float], outer: Optional[float], year: Optional[int]) -> None:
        """Takes a year when one is written, and the zone from the first line that has both times."""
        if year is not None and self.year is None:
            self.year = year - self._wraps
        if self.zone is None and own is not None and outer is not None:
            self.zone = zone_of(own, outer)
