# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the systemd journal, and tell an empty answer from no answer (private to the collection).

journalctl ends well and prints nothing where there is no journal, and where the login may not read it.
https://www.freedesktop.org/software/systemd/man/latest/journalctl.html
"""

from __future__ import annotations

import glob
import os
from typing import Any, Callable, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import _command
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    DENIED,
    OK,
    Emit,
    ProbeFailure,
    ProbeSpec,
    Reading,
    command_reading,
)

GROUP = "journal"
DIRECTORIES = ("/run/log/journal", "/var/log/journal")


def journal_probe(
    name: str,
    arguments: Sequence[str],
    member: str,
    deadline: float,
    parse: Callable[[str], Any],
    limit: int = 8 * 1024 * 1024,
) -> ProbeSpec:
    """A probe of the journal; what ``parse`` reads is its value also when only a part may be read."""

    def run(emit: Emit) -> Reading:
        refused = why_not_whole()
        result = _command.run_command(["journalctl", "--no-pager", "-q", *arguments], deadline, limit)
        reading = command_reading(result)
        reading.value = parse(reading.value) if reading.outcome == OK else None
        if refused and reading.outcome == OK:
            reading.outcome, reading.message = DENIED, refused
        return reading

    return ProbeSpec(name, run, deadline + 2.0, GROUP, member)


def why_not_whole(directories: Sequence[str] = DIRECTORIES) -> str:
    """Why the system's journal is not read whole, empty when it is; ProbeFailure where there is none."""
    patterns = [os.path.join(place, "*", "system*.journal") for place in directories]
    files = [path for pattern in patterns for path in glob.glob(pattern)]
    if not files:
        hidden = [place for place in directories if os.path.isdir(place) and not os.access(place, os.R_OK)]
        if not hidden:
            raise ProbeFailure(ABSENT, "there is no journal on this host", directories[-1])
        return "%s may not be read by this login" % hidden[0]
    unread = [path for path in files if not os.access(path, os.R_OK)]
    if unread:
        return "the system's journal may be read by root and the groups adm and systemd-journal only"
    return ""
