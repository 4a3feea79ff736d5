# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the log of a container or process comes from (private to the collection).

The json-file driver's files are read from the disk: that is faster than the Engine, works while its socket hangs, and has the
rotated files. Any other driver's log comes through the Engine.
"""

from __future__ import annotations

import gzip
import os
import re
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, Any, Iterator, List, Mapping, cast

from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine

BLOCK = 1024 * 1024
JSON_FILE, MULTIPLEXED, TERMINAL, PLAIN = "json-file", "multiplexed", "terminal", "plain"
# An Engine that sends nothing for so long has no more to send, or hangs.
SILENCE_SECONDS = 30.0


@dataclass(frozen=True)
class LogOrigin:
    """One log: its form, its files (oldest first) or the Engine's socket and the container's id."""

    form: str
    files: "tuple[str, ...]" = ()
    socket: str = ""
    container: str = ""
    started_at: str = ""

    @classmethod
    def of_container(cls, inspect: Mapping[str, Any], socket: str) -> LogOrigin:
        """The log of a container, as its inspect tells where it is."""
        driver = ((inspect.get("HostConfig") or {}).get("LogConfig") or {}).get("Type")
        path = str(inspect.get("LogPath") or "")
        identifier = str(inspect.get("Id") or "")
        started = str((inspect.get("State") or {}).get("StartedAt") or "")
        if driver == "json-file" and path and os.access(path, os.R_OK):
            return cls(JSON_FILE, tuple(rotated(path)), socket, identifier, started)
        terminal = bool((inspect.get("Config") or {}).get("Tty"))
        return cls(TERMINAL if terminal else MULTIPLEXED, (), socket, identifier, started)

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

    def blocks(self) -> Iterator[bytes]:
        """The raw log in blocks, the rotated files first. A file that is still written ends where it ended at the start."""
        if not self.files:
            with Engine(self.socket, SILENCE_SECONDS) as engine, engine.log_stream(self.container) as stream:
                yield from iter(lambda: stream.read(BLOCK), b"")
            return
        with ExitStack() as stack:
            # All are opened before the first is read, so that a rotation in between loses nothing.
            opened = [stack.enter_context(_open(path)) for path in self.files]
            for stream, size in opened:
                yield from _read(stream, size)


def rotated(path: str) -> List[str]:
    """The files of a json-file log, oldest first: PATH.2.gz, PATH.1, PATH (https://docs.docker.com/engine/logging/drivers/json-file/)."""
    directory, name = os.path.split(path)
    numbered = re.compile(re.escape(name) + r"\.(\d+)(\.gz)?$")
    try:
        found = [(int(match.group(1)), entry) for entry in os.listdir(directory) for match in [numbered.match(entry)] if match]
    except OSError:
        found = []  # the directory may be closed while the file itself is open to us
    return [os.path.join(directory, entry) for _number, entry in sorted(found, reverse=True)] + [path]


@contextmanager
def _open(path: str) -> "Iterator[tuple[IO[bytes], int]]":
    with open(path, "rb") as stream:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast("IO[bytes]", unpacked), -1
        else:
            yield stream, os.fstat(stream.fileno()).st_size


def _read(stream: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        block = stream.read(BLOCK if size < 0 else min(BLOCK, size))
        if not block:
            return
        size -= len(block) if size > 0 else 0
        yield block
