# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the log of a container or process comes from (private to the collection).

The json-file driver's files are read from the disk: that is faster than the Engine, works while its socket hangs,
and has the rotated files. Any other driver's log comes through the Engine.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Iterator, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    MULTIPLEXED,
    PLAIN,
    TERMINAL,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_source import LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine

BLOCK = 256 * 1024
# An Engine that sends nothing for so long has no more to send, or hangs.
SILENCE_SECONDS = 30


@dataclass(frozen=True)
class LogOrigin:
    """One log: its form, its files (oldest first) or the Engine's socket and the container's id."""

    form: str
    files: tuple[str, ...] = ()
    socket: str = ""
    container: str = ""
    # Whether the json-file driver was told a largest size.
    maximum: bool = False

    @classmethod
    def of_container(cls, inspect: Mapping[str, Any], socket: str) -> LogOrigin:
        """The log of a container, as its inspect tells where it is."""
        config = (inspect.get("HostConfig") or {}).get("LogConfig") or {}
        path = str(inspect.get("LogPath") or "")
        identifier = str(inspect.get("Id") or "")
        if config.get("Type") == "json-file" and path and os.access(path, os.R_OK):
            maximum = "max-size" in (config.get("Config") or {})
            return cls(JSON_FILE, tuple(rotated(path)), socket, identifier, maximum)
        terminal = bool((inspect.get("Config") or {}).get("Tty"))
        return cls(TERMINAL if terminal else MULTIPLEXED, (), socket, identifier)

    @classmethod
    def of_file(cls, path: str) -> LogOrigin:
        """The log that a plain process writes to a file."""
        return cls(PLAIN, (path,))

    def describe(self) -> str:
        """For people: where it was read."""
        return ", ".join(self.files) or "the Engine's log of %s" % self.container[:12]

    def bytes_on_disk(self) -> int:
        """Size of the files; 0 for a log that only the Engine has."""
        return sum(os.path.getsize(path) for path in self.files if os.path.exists(path))

    @property
    def rotates(self) -> Optional[bool]:
        """Whether the runtime drops the head of a log that grows; None when that is not known."""
        return None if self.form != JSON_FILE else self.maximum

    def source(self) -> LogSource:
        """The log to read; its files if there are any, else the Engine's stream."""
        if self.files:
            return LogSource.of_files(self.files, self.form)
        return LogSource(self.form, self._from_engine)

    def _from_engine(self) -> Iterator[bytes]:
        with Engine(self.socket, SILENCE_SECONDS) as engine, engine.log_stream(self.container) as stream:
            yield from iter(lambda: stream.read(BLOCK), b"")


def rotated(path: str) -> List[str]:
    """The files of a json-file log, oldest first: PATH.2.gz, PATH.1, PATH (https://docs.docker.com/engine/logging/drivers/json-file/)."""
    directory, name = os.path.split(path)
    numbered = re.compile(re.escape(name) + r"\.(\d+)(\.gz)?$")
    try:
        found = [
            (int(match.group(1)), entry)
            for entry in os.listdir(directory)
            for match in [numbered.match(entry)]
            if match
        ]
    except OSError:
        found = []  # the directory may be closed while the file itself is open to us
    return [os.path.join(directory, entry) for _number, entry in sorted(found, reverse=True)] + [path]
