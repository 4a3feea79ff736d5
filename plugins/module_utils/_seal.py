# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Seal a record: members into one tar.gz with a manifest, and a second look at the result (private to the collection).

Order and metadata of the archive depend on its content alone. Members that are compressed already are stored in a gzip
member of their own without a second compression; every reader of gzip takes such a file as one stream
(https://www.rfc-editor.org/rfc/rfc1952#section-2.2).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Protocol, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._staging import Spool

BLOCK = 1024 * 1024
MANIFEST = "manifest.json"
# Read first by a person, so they stand first in the archive.
FIRST_MEMBERS = ("five-questions.txt", MANIFEST, "facts.json")


@dataclass
class Member:
    """One file of a record: its path in it, its content, and the probe that gave it."""

    path: str
    content: Spool
    probe: str = ""
    details: Dict[str, Any] = field(default_factory=dict)


class Scanner(Protocol):
    """Looks for values that must not be there in a stream of blocks."""

    def feed(self, block: bytes) -> Any:
        """Take the next block."""

    def finish(self) -> Sequence[Any]:
        """What was found."""


class _GzipWriter:
    """Writes one or more gzip members to a file and keeps the sha256 of what it wrote."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._level = 6
        self._compressor = self._new()
        self.sha256 = hashlib.sha256()
        self.size = 0

    def _new(self) -> Any:
        return zlib.compressobj(self._level, zlib.DEFLATED, 31)

    def write(self, block: bytes) -> int:
        self._put(self._compressor.compress(block))
        return len(block)

    def set_level(self, level: int) -> None:
        if level != self._level:
            self._put(self._compressor.flush())
            self._level = level
            self._compressor = self._new()

    def close(self) -> None:
        self._put(self._compressor.flush())

    def _put(self, data: bytes) -> None:
        self._target.write(data)
        self.sha256.update(data)
        self.size += len(data)


def is_compressed(path: str) -> bool:
    """Whether a member's content is compressed already."""
    return path.endswith((".gz", ".xz", ".zst"))


def ordered(members: Sequence[Member]) -> List[Member]:
    """Members in the order of the archive."""
    rank = {name: number for number, name in enumerate(FIRST_MEMBERS)}
    return sorted(members, key=lambda member: (rank.get(member.path, len(rank)), member.path))


def digest(opened: BinaryIO) -> tuple[str, int]:
    """sha256 and size of a file from its current position on."""
    sha256, size = hashlib.sha256(), 0
    for block in iter(lambda: opened.read(BLOCK), b""):
        sha256.update(block)
        size += len(block)
    return sha256.hexdigest(), size


def manifest_members(members: Sequence[Member]) -> Dict[str, Dict[str, Any]]:
    """The manifest's table of members: size in bytes, sha256, the probe and what is known of it."""
    table: Dict[str, Dict[str, Any]] = {}
    for member in ordered(members):
        sha256, size = digest(member.content.open())
        table[member.path] = {"bytes": size, "sha256": sha256, "probe": member.probe, **member.details}
    return table


def write_archive(members: Sequence[Member], target: BinaryIO, time: int) -> tuple[str, int]:
    """Write the archive; its sha256 and size. ``time`` (seconds since 1970) stands on every member."""
    writer = _GzipWriter(target)
    for member in ordered(members):
        opened = member.content.open()
        info = tarfile.TarInfo(member.path)
        info.size = opened.seek(0, io.SEEK_END)
        info.mode, info.mtime = 0o600, time
        opened.seek(0)
        writer.write(info.tobuf(tarfile.PAX_FORMAT))
        writer.set_level(0 if is_compressed(member.path) else 6)
        for block in iter(partial(opened.read, BLOCK), b""):
            writer.write(block)
        writer.set_level(6)
        writer.write(b"\0" * (-info.size % tarfile.BLOCKSIZE))
    # An archive ends with two empty blocks (https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html).
    writer.write(b"\0" * 2 * tarfile.BLOCKSIZE)
    writer.close()
    return writer.sha256.hexdigest(), writer.size


def member_blocks(archive: BinaryIO) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Every member of a sealed archive with its content in blocks; compressed members are unpacked."""
    # tarfile's own stream mode stops after the first gzip member.
    with gzip.GzipFile(fileobj=archive) as plain, tarfile.open(fileobj=plain, mode="r|") as opened:
        for info in opened:
            stream = opened.extractfile(info)
            if stream is not None:
                yield info.name, unpacked(stream, info.name.endswith(".gz"))


def unpacked(stream: Any, compressed: bool) -> Iterator[bytes]:
    """A member's content in blocks, out of its own compression."""
    if not compressed:
        yield from iter(lambda: stream.read(BLOCK), b"")
        return
    decompressor = zlib.decompressobj(31)
    for block in iter(lambda: stream.read(BLOCK // 4), b""):
        while block:
            yield decompressor.decompress(block, BLOCK)
            block = decompressor.unconsumed_tail
            if decompressor.eof:
                block = decompressor.unused_data
                decompressor = zlib.decompressobj(31)
    yield decompressor.flush()


def scan(archive: BinaryIO, new_scanner: Callable[[], Scanner]) -> Dict[str, Sequence[Any]]:
    """Read a sealed archive again; what the scanner found, by member. Names of members are scanned too."""
    found: Dict[str, Sequence[Any]] = {}
    for name, blocks in member_blocks(archive):
        scanner = new_scanner()
        scanner.feed(name.encode() + b"\n")
        for block in blocks:
            scanner.feed(block)
        hits = scanner.finish()
        if hits:
            found[name] = hits
    return found


def json_bytes(document: Any) -> bytes:
    """A document as it stands in a record: sorted keys, readable, one line end.

    A file name need not be text; what of it is none stands as an escape, which JSON has for it.
    """
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, default=str)
    return text.encode("utf-8", "backslashreplace") + b"\n"
