# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a log has gained since the last look, in whole lines (private to the collection).

A json-file log is followed in its files, also through a rotation; any other driver's log through the Engine,
from the time of the last line on. A message of several pieces, and a private key of several lines, is taken
when it is whole, so that redaction sees all of it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Dict, List, Mapping, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log import last_stamp, seconds_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    PLAIN,
    decoder_for,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import SILENCE_SECONDS, LogOrigin

# Bytes taken in one look; what is left is taken in the next one, at once.
LIMIT = 2 * 1024 * 1024
_BLOCK = 256 * 1024
# Of an unfinished line so much is shown.
_UNFINISHED = 400
# A key is no longer than that; what begins like one and goes on is none.
_KEY_BYTES = 64 * 1024
_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_WHOLE_MESSAGE = b'\\n","stream":"'
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


@dataclass
class Gain:
    """New text, where the next look begins, whether it should be at once, bytes that the log has in all."""

    text: bytes
    cursor: Dict[str, Any] = field(default_factory=dict)
    more: bool = False
    unfinished: bytes = b""
    gap: str = ""
    size: int = 0


def follow(origin: LogOrigin, cursor: Mapping[str, Any], final: bool, limit: int = LIMIT) -> Gain:
    """What came since the cursor; ``final`` takes the unfinished last line as well."""
    if origin.files:
        return _follow_files(origin, cursor, final, limit)
    return _follow_engine(origin, cursor, final, limit)


def _follow_files(origin: LogOrigin, cursor: Mapping[str, Any], final: bool, limit: int) -> Gain:
    # Older parts may be compressed by the runtime; a watched log was read to its end before that.
    files = [_Part(path) for path in origin.files if not path.endswith(".gz")]
    try:
        index, offset, gap = _place(files, cursor)
        part = files[index]
        while index + 1 < len(files) and offset >= part.size:
            index, offset = index + 1, 0
            part = files[index]
        raw = part.read(offset, limit)
        at_end = offset + len(raw) >= part.size
        last = index + 1 == len(files)
        # The runtime goes on writing only to the last file.
        cut = len(raw) if at_end and (final or not last) else whole_bytes(raw, origin.form)
        if not cut and len(raw) >= limit:
            cut = len(raw)
        unfinished = raw[cut:] if at_end and origin.form == PLAIN else b""
        decoder = decoder_for(origin.form)
        text = decoder.feed(raw[:cut]) + decoder.finish()
        place = {"inode": part.inode, "offset": offset + cut}
        more = not at_end or not last
        size = sum(file.size for file in files)
        return Gain(text, place, more, unfinished[-_UNFINISHED:], gap, size)
    finally:
        for file in files:
            file.stream.close()


class _Part:
    """One file of a log, opened before any is read, so that a rotation in between loses nothing."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stream: BinaryIO = open(path, "rb")  # noqa: SIM115 - closed by the caller, all together
        status = os.fstat(self.stream.fileno())
        self.inode, self.size = status.st_ino, status.st_size

    def read(self, offset: int, limit: int) -> bytes:
        self.stream.seek(offset)
        return self.stream.read(min(limit, max(0, self.size - offset)))


def _place(files: List[_Part], cursor: Mapping[str, Any]) -> Tuple[int, int, str]:
    """File and offset that the cursor points to, and in words what was missed."""
    if "inode" not in cursor:
        return 0, 0, ""
    for index, part in enumerate(files):
        if part.inode == cursor["inode"]:
            if cursor["offset"] > part.size:
                return index, 0, "%s was cut to %d bytes" % (part.path, part.size)
            return index, int(cursor["offset"]), ""
    return 0, 0, "the file that was read last is gone (rotated away); lines may be missing"


def whole_bytes(raw: bytes, form: str) -> int:
    """How much of the raw log ends with a whole message, and with a whole private key where one begins."""
    end = raw.rfind(b"\n") + 1
    while form == JSON_FILE and end:
        start = raw.rfind(b"\n", 0, end - 1) + 1
        if _WHOLE_MESSAGE in raw[start:end] or not raw.startswith(b'{"log":', start):
            break
        end = start
    return _before_open_key(raw, end)


def _before_open_key(raw: bytes, end: int) -> int:
    begins = [match.start() for match in _KEY.finditer(raw, 0, end)]
    if not begins or raw.find(b"-----END ", begins[-1], end) >= 0 or end - begins[-1] > _KEY_BYTES:
        return end
    return raw.rfind(b"\n", 0, begins[-1]) + 1


def _follow_engine(origin: LogOrigin, cursor: Mapping[str, Any], final: bool, limit: int) -> Gain:
    last = str(cursor.get("stamp") or "")
    since = int(seconds_of(last) or 0)
    decoder = decoder_for(origin.form)
    text, more = b"", False
    with (
        Engine(origin.socket, SILENCE_SECONDS) as engine,
        engine.log_stream(origin.container, since) as stream,
    ):
        for block in iter(lambda: stream.read(_BLOCK), b""):
            text = newer(text + decoder.feed(block), last)
            if len(text) >= limit:
                more = True
                break
        else:
            text = newer(text + decoder.finish(), last) if final else text
    cut = len(text) if final and not more else _before_open_key(text, text.rfind(b"\n") + 1)
    if not cut and more:
        cut = len(text)
    text = text[:cut]
    size = int(cursor.get("size") or 0) + len(text)
    return Gain(text, {"stamp": last_stamp(text) or last, "size": size}, more, size=size)


def newer(text: bytes, last: str) -> bytes:
    """The lines after the one with the time ``last``: the Engine is asked for whole seconds."""
    if not last:
        return text
    known = stamp_key(last.encode() + b" ")
    position = 0
    while position < len(text):
        key = stamp_key(text[position : position + 40])
        if key and key > known:
            return text[position:]
        newline = text.find(b"\n", position)
        if newline < 0:
            # The line is not whole; it is looked at again with its rest.
            return text[position:]
        position = newline + 1
    return b""


def stamp_key(line: bytes) -> bytes:
    """A line's time in a form that sorts; empty when it has none. The Engine writes UTC."""
    match = _STAMP.match(line)
    return match.group(1) + (match.group(2) or b"").ljust(9, b"0") if match else b""
