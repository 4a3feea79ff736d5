# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the raw bytes of a log come from (private to the collection)."""

from __future__ import annotations

import gzip
import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Callable, Iterable, Iterator, Optional, Sequence, cast

BLOCK = 1024 * 1024


@dataclass(frozen=True)
class LogSource:
    """A stored log: its form, and how to read it from its beginning, which may be done more than once."""

    form: str
    blocks: Callable[[], Iterator[bytes]]
    # Bytes on the disk, when these are what ``blocks`` gives; None when that is not known before.
    size: Optional[int] = None

    @classmethod
    def of_files(cls, paths: Sequence[str], form: str) -> LogSource:
        """A rotated set of files, oldest first; names ending in ``.gz`` are unpacked.

        Files that are still written are read up to their size of now, each time.
        """
        sizes = {path: os.stat(path).st_size for path in paths}
        packed = any(path.endswith(".gz") for path in paths)
        return cls(form, lambda: _file_blocks(paths, sizes), None if packed else sum(sizes.values()))

    @classmethod
    def of_stream(cls, stream: BinaryIO, form: str) -> LogSource:
        """A binary stream that can be set back to where it is now."""
        start = stream.tell()

        def blocks() -> Iterator[bytes]:
            stream.seek(start)
            return iter(lambda: stream.read(BLOCK), b"")

        return cls(form, blocks)


def _file_blocks(paths: Sequence[str], sizes: dict[str, int]) -> Iterator[bytes]:
    with ExitStack() as stack:
        # All are opened before the first is read, so that a rotation in between loses nothing.
        opened = [(path, stack.enter_context(open(path, "rb"))) for path in paths]
        for path, stream in opened:
            if path.endswith(".gz"):
                unpacked = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream)))
                yield from iter(partial(unpacked.read, BLOCK), b"")
            else:
                yield from limited(stream, sizes[path])


def limited(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The next bytes of a stream, not more than ``size``."""
    while size > 0:
        block = stream.read(min(BLOCK, size))
        if not block:
            return
        size -= len(block)
        yield block


def limited_blocks(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Blocks up to ``size`` bytes in all."""
    for block in blocks:
        if len(block) >= size:
            yield block[:size]
            return
        size -= len(block)
        yield block
