# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sha256 of every file of a model, read at a limited rate (private to the collection).

A large model has more than a terabyte: reading it takes hours and would take the disk and the page cache from
whoever works on the host. So it is read in order, at most so many MiB a second, at the lowest priority, and what
was read is dropped from the cache again. A file in the hub's cache is named by its sha256, which shows a damaged
one (https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from typing import Any, Callable, Dict, List

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ERROR, OK, outcome_of

SCHEMA = "gpufleet.baseline/weights/1"
BLOCK = 4 * 1024 * 1024
MIB = 1024 * 1024
_SHA256 = re.compile(r"^[0-9a-f]{64}$")


class Pace:
    """Sleeps so that not more than so many bytes a second go by."""

    def __init__(
        self,
        mib_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = mib_per_second * MIB
        self.clock = clock
        self.sleep = sleep
        self.begun = clock()
        self.done = 0

    def passed(self, count: int) -> None:
        """So many bytes were read."""
        self.done += count
        ahead = self.begun + self.done / self.rate - self.clock()
        if ahead > 0:
            self.sleep(ahead)


def hash_paths(paths: List[str], pace: Pace) -> Dict[str, Any]:
    """The document of all paths; one that cannot be read costs itself only."""
    found = {path: hash_directory(path, pace).as_dict() for path in paths}
    return {"schema": SCHEMA, "paths": found}


def hash_directory(path: str, pace: Pace) -> Measured:
    """Every regular file below a directory by its relative name: size, sha256, and the name of its blob."""
    try:
        names = sorted(_files(path))
        files = {name: _hash_file(os.path.join(path, name), pace) for name in names}
    except OSError as error:
        return Measured(None, outcome_of(error), path, "%s: %s" % (error.filename or path, error.strerror))
    if not files:
        return Measured(None, ERROR, path, "the directory holds no file")
    return Measured(files, OK, path)


def _files(path: str) -> List[str]:
    found: List[str] = []
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            found += [os.path.join(entry.name, name) for name in _files(entry.path)]
        elif stat.S_ISREG(os.stat(entry.path).st_mode):
            found.append(entry.name)
    return found


def _hash_file(path: str, pace: Pace) -> Dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb", buffering=0) as stream:
        while True:
            block = stream.read(BLOCK)
            if not block:
                break
            digest.update(block)
            os.posix_fadvise(stream.fileno(), size, len(block), os.POSIX_FADV_DONTNEED)
            size += len(block)
            pace.passed(len(block))
    blob = os.path.basename(os.path.realpath(path))
    return {"bytes": size, "sha256": digest.hexdigest(), "blob": blob if _SHA256.match(blob) else None}
