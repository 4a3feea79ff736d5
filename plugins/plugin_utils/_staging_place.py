# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The staging directory as the login user makes and removes it (private to the collection, controller only).

The commands are small POSIX shell scripts because nothing of ours is on the host yet when they run.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

PREFIX = ".gpufleet-freeze."
# Where a record may be made; memory comes last, for a host whose disks are full.
PLACES = ("/var/tmp", "/tmp", "/dev/shm")
# A place in memory is taken only when no disk has this much free.
ENOUGH_BYTES = 256 * 1024 * 1024
# What an earlier run left when its controller died in the middle of a transfer is removed after a day.
STALE_MINUTES = 24 * 60

_PATH = re.compile(r"^staging (?P<path>/\S+) (?P<free>\d+)$", re.MULTILINE)
_STALE = re.compile(r"^stale (?P<path>/\S+)$", re.MULTILINE)

_MAKE = """\
umask 077
chosen=; most=0
for place in {places}; do
  [ -d "$place" ] && [ -w "$place" ] || continue
  find "$place" -maxdepth 1 -name '{prefix}*' -type d -user "$(id -u)" -mmin +{stale} \\
    -exec echo stale {{}} ';' -exec rm -rf {{}} ';' 2>/dev/null
  free=$(df -Pk "$place" 2>/dev/null | awk 'END {{print $4}}')
  case $free in ''|*[!0-9]*) continue;; esac
  if [ "$free" -gt "$most" ]; then
    case $place in /dev/shm) [ "$most" -lt {enough} ] || continue;; esac
    most=$free; chosen=$place
  fi
done
[ -n "$chosen" ] || {{ echo 'no place with free space' >&2; exit 1; }}
made=$(mktemp -d "$chosen/{prefix}XXXXXXXXXX") || exit 1
echo "staging $made $((most * 1024))"
"""


@dataclass(frozen=True)
class StagingPlace:
    """The directory that was made, the bytes free there, and what earlier runs had left and is gone now."""

    path: str
    free_bytes: int
    stale_removed: list[str]


def make_command(places: list[str]) -> str:
    """The command that makes the directory in the place with the most free space."""
    script = _MAKE.format(
        places=" ".join(shlex.quote(place) for place in places),
        prefix=PREFIX,
        stale=STALE_MINUTES,
        enough=ENOUGH_BYTES // 1024,
    )
    return "/bin/sh -c " + shlex.quote(script)


def parse_made(output: str) -> StagingPlace | None:
    """What the command printed; None when it made nothing. A login banner around it does no harm."""
    match = _PATH.search(output.replace("\r\n", "\n"))
    if match is None:
        return None
    stale = [found.group("path") for found in _STALE.finditer(output.replace("\r\n", "\n"))]
    return StagingPlace(match.group("path"), int(match.group("free")), stale)


def remove_command(path: str) -> str:
    """The command that removes a directory that ``make_command`` made."""
    if f"/{PREFIX}" not in path:
        raise ValueError(f"{path} is not a staging directory")
    return "rm -rf -- " + shlex.quote(path)
