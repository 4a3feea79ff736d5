# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn what a container runtime stored of a log into text lines ``TIME STREAM MESSAGE`` (private to the collection).

Three sources: Docker's json-file (https://docs.docker.com/engine/logging/drivers/json-file/), the multiplexed
stream of the Engine's API
(https://docs.docker.com/reference/api/engine/version/v1.43/#tag/Container/operation/ContainerAttach, "Stream
format") and the unframed one of a container with a terminal. Messages of more than 16 KiB come in pieces and
are joined again. What cannot be read as a record is kept as it is, on a line of its own that says so.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Optional

JSON_FILE, MULTIPLEXED, TERMINAL, PLAIN = "json-file", "multiplexed", "terminal", "plain"

_HEAD = b'{"log":"'
_BETWEEN = b'"}\n{"log":"'
_TIME = b'","time":"'
_ENDS = {b'\\n","stream":"stderr': b" stderr ", b'\\n","stream":"stdout': b" stdout "}
_END_LENGTH = len(b'\\n","stream":"stderr')
# What Docker's encoder writes for characters that are common in logs: quotes, colours, tabs, "<", ">", "&".
_COMMON_ESCAPES = (
    (b'\\"', b'"'),
    (b"\\u001b", b"\x1b"),
    (b"\\u0009", b"\t"),
    (b"\\t", b"\t"),
    (b"\\r", b"\r"),
    (b"\\u003c", b"<"),
    (b"\\u003e", b">"),
    (b"\\u0026", b"&"),
)
# A record of Docker is 16 KiB of message, each byte six bytes at most; a longer line is no record.
_LONGEST_RECORD = 1024 * 1024
# So much of the other stream is held back while a message of several pieces is not whole yet.
_HELD_BYTES = 1024 * 1024
_FRAME = 8
_LONGEST_FRAME = 1024 * 1024
_STAMP = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9]{2}:[0-9]{2})\Z")
_STREAMS = {1: b"stdout", 2: b"stderr", 0: b"stdin", 3: b"systemerr"}


@dataclass
class Marks:
    """What was not as it should be in a log; nothing of it is lost."""

    invalid_records: int = 0
    nul_bytes: int = 0
    joined_records: int = 0
    broken_lines: int = 0
    last_record_unfinished: bool = False
    invalid_utf8_blocks: int = 0


class Decoder:
    """Blocks of a stored log in, text lines out. This one is for a plain file and changes nothing."""

    def __init__(self) -> None:
        self.marks = Marks()

    def feed(self, block: bytes) -> bytes:
        """The text of the next block, as far as it is whole."""
        return block

    def finish(self) -> bytes:
        """The text of the rest."""
        return b""


class _RecordDecoder(Decoder):
    """Writes records as lines; puts the pieces of long messages together."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""
        # The stream whose message is not whole yet, and what came from the other stream since.
        self._open: Optional[bytes] = None
        self._held: list[tuple[bytes, bytes, bytes]] = []
        self._held_bytes = 0

    def _emit(self, time: bytes, stream: bytes, message: bytes, out: list[bytes]) -> None:
        if self._open is None:
            out.append(b"%b %b %b" % (time, stream, message))
        elif self._open == stream:
            self.marks.joined_records += 1
            out.append(message)
        else:
            self._hold(time, stream, message, out)
            return
        if message.endswith(b"\n"):
            self._open = None
            self._release(out)
        else:
            self._open = stream

    def _hold(self, time: bytes, stream: bytes, message: bytes, out: list[bytes]) -> None:
        self._held.append((time, stream, message))
        self._held_bytes += len(message) + 64
        if self._held_bytes > _HELD_BYTES:
            self._break_line(out)

    def _release(self, out: list[bytes]) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        for record in held:
            self._emit(*record, out)

    def _break_line(self, out: list[bytes]) -> None:
        """End a line whose rest has not come; should it come, it is a line of its own."""
        self.marks.broken_lines += 1
        self._open = None
        out.append(b"\n")
        self._release(out)

    def finish(self) -> bytes:
        out: list[bytes] = []
        if self._rest:
            self._last(self._rest, out)
            self._rest = b""
        while self._open is not None:
            self._break_line(out)
        return b"".join(out)

    def _last(self, rest: bytes, out: list[bytes]) -> None:
        raise NotImplementedError

    def _invalid(self, raw: bytes, out: list[bytes]) -> None:
        """What is no record: all of it, on a line that says so."""
        if self._open is not None:
            self._break_line(out)
        bare = raw.strip(b"\0")
        zeros = len(raw) - len(bare)
        if zeros:
            self.marks.nul_bytes += zeros
            out.append(b"- invalid [%d NUL bytes]\n" % zeros)
        if bare:
            self.marks.invalid_records += 1
            out.append(b"- invalid " + bare + b"\n")


class JsonFileDecoder(_RecordDecoder):
    """Docker's json-file: one JSON object a line."""

    def feed(self, block: bytes) -> bytes:
        data = self._rest + block
        cut = data.rfind(b"\n") + 1
        whole, self._rest = data[:cut], data[cut:]
        out: list[bytes] = []
        # The usual block is cut where one record ends and the next begins; any other is read line by line.
        records = whole[len(_HEAD) : -3].split(_BETWEEN)
        if len(records) == whole.count(b"\n") and whole.startswith(_HEAD) and whole.endswith(b'"}\n'):
            plain = _plain_records(records) if self._open is None else None
            if plain is None:
                self._records(records, out)
            else:
                out.append(plain)
        else:
            for line in whole.split(b"\n"):
                self._record(line, out)
        if len(self._rest) > _LONGEST_RECORD:
            self._invalid(self._rest, out)
            self._rest = b""
        return b"".join(out)

    def _records(self, records: list[bytes], out: list[bytes]) -> None:
        for record in records:
            head, _separator, time = record.rpartition(_TIME)
            stream = _ENDS.get(head[-_END_LENGTH:])
            message = head[:-_END_LENGTH]
            if stream and self._open is None and message[-1:] != b"\\":
                if b"\\" in message:
                    # Quotes alone, as in lines of access, are worth a shorter way.
                    plain = message.replace(b'\\"', b'"')
                    message = unescaped(message) if b"\\" in plain else plain
                out.append(b"%b%b%b\n" % (time, stream, message))
            else:
                self._record(_HEAD + record + b'"}', out)

    def _record(self, line: bytes, out: list[bytes]) -> None:
        bare = line.lstrip(b"\0")
        if len(bare) < len(line):
            self._invalid(line[: len(line) - len(bare)], out)
        if not bare.strip():
            return
        try:
            entry = json.loads(bare.decode("utf-8", "surrogateescape"))
            time, stream, message = (_bytes(entry[name]) for name in ("time", "stream", "log"))
        except (ValueError, KeyError, TypeError, AttributeError):
            self._invalid(bare, out)
            return
        self._emit(time, stream, message, out)

    def _last(self, rest: bytes, out: list[bytes]) -> None:
        before = self.marks.invalid_records
        self._record(rest, out)
        self.marks.last_record_unfinished = self.marks.invalid_records > before


def _plain_records(records: list[bytes]) -> Optional[bytes]:
    """The lines of records that are whole messages with no other escapes than those of quotes, else None."""
    parted = [record.rpartition(_TIME) for record in records]
    if not {head[-_END_LENGTH:] for head, _separator, _time in parted} <= _ENDS.keys():
        return None
    text = b"".join(
        [b"%b %b %b\n" % (time, head[-6:], head[:-_END_LENGTH]) for head, _separator, time in parted]
    )
    if b"\\" not in text:
        return None if b'"' in text else text
    # Quotes in a message are always escaped: with as many backslashes as quotes, there is no other escape.
    bare = text.translate(None, b"\\")
    return bare if len(text) - len(bare) == bare.count(b'"') else None


def unescaped(message: bytes) -> bytes:
    """The message of a record without JSON's escapes."""
    if b"\\\\" not in message:
        for escape, character in _COMMON_ESCAPES:
            message = message.replace(escape, character)
            if b"\\" not in message:
                return message
    text = b'"' + message.replace(b'"', b'\\"') + b'"' if b"\\\\" not in message else b'"' + message + b'"'
    try:
        return _bytes(json.loads(text.decode("utf-8", "surrogateescape"), strict=False))
    except ValueError:
        return message


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # An escaped half of a surrogate pair without its other half.
        return text.encode("utf-8", "surrogatepass")


class MultiplexedDecoder(_RecordDecoder):
    """The Engine's stream: frames of eight bytes' head and a message with its time."""

    def feed(self, block: bytes) -> bytes:
        data = self._rest + block
        out: list[bytes] = []
        position = 0
        while len(data) - position >= _FRAME:
            size = int.from_bytes(data[position + 4 : position + _FRAME], "big")
            stream = _STREAMS.get(data[position])
            if stream is None or data[position + 1 : position + 4] != b"\0\0\0" or size > _LONGEST_FRAME:
                # Out of step: from here on there are no frames to be told apart.
                self._invalid(data[position:], out)
                position = len(data)
                break
            if len(data) - position - _FRAME < size:
                break
            self._message(stream, data[position + _FRAME : position + _FRAME + size], out)
            position += _FRAME + size
        self._rest = data[position:]
        return b"".join(out)

    def _message(self, stream: bytes, payload: bytes, out: list[bytes]) -> None:
        time, _space, message = payload.partition(b" ")
        if _STAMP.match(time):
            self._emit(time, stream, message, out)
        else:
            self._emit(b"-", stream, payload, out)

    def _last(self, rest: bytes, out: list[bytes]) -> None:
        self.marks.last_record_unfinished = True
        self._invalid(rest, out)


_LINE_STAMP = re.compile(rb"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[+-][0-9:]{5})) ", re.MULTILINE)


class TerminalDecoder(Decoder):
    """The stream of a container with a terminal: lines with their time, all of one stream."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = b""

    def feed(self, block: bytes) -> bytes:
        data = self._rest + block
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) > _LONGEST_RECORD:
            cut = len(data)
        self._rest = data[cut:]
        return _LINE_STAMP.sub(rb"\1 stdout ", data[:cut])

    def finish(self) -> bytes:
        rest, self._rest = self._rest, b""
        return _LINE_STAMP.sub(rb"\1 stdout ", rest)


def decoder_for(form: str) -> Decoder:
    """The decoder of a form."""
    kinds = {
        JSON_FILE: JsonFileDecoder,
        MULTIPLEXED: MultiplexedDecoder,
        TERMINAL: TerminalDecoder,
        PLAIN: Decoder,
    }
    if form not in kinds:
        raise ValueError(f"form of a log: expected one of {', '.join(sorted(kinds))}, found {form!r}")
    return kinds[form]()
