# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect a container's log: decoded, redacted, cut to a limit, compressed (private to the collection).

The kept log is text, one line a message: ``TIME STREAM MESSAGE`` (RFC 3339 time of the runtime), gzip level
1. The log is read once when it is known to fit the limit, else twice: first for its length and its first
failure, then to keep it. Redaction works on the whole log either way, so that no cut goes through a secret
that spans lines.
"""

from __future__ import annotations

import codecs
import hashlib
import queue
import re
import threading
import zlib
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, BinaryIO, Callable, Iterator, Optional, Union

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_cut import (
    Cut,
    Cutter,
    LineIndex,
    ranges_to_keep,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    Marks,
    decoder_for,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_source import (
    LogSource,
    limited_blocks,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor

MIB = 1024 * 1024
# Text of a log is up to so much longer than what is stored of it.
_GROWTH = 1.25
# Blocks that wait for the compressing thread.
_WAITING_BLOCKS = 4
# A program may be silent for a moment after its container has started.
_SILENT_SECONDS = 2.0

# Takes the redacted text in blocks; gives the number of the line of the first failure, counted from 1, or
# None.
FindFirstFailure = Callable[[Iterator[bytes]], Optional[int]]


@dataclass(frozen=True)
class Limits:
    """Bytes of text that are kept of a log: all up to ``whole``, of a longer one its head, tail and a window."""

    whole: int = 2048 * MIB
    head: int = 512 * MIB
    tail: int = 1024 * MIB
    window: int = 256 * MIB

    @classmethod
    def of(cls, whole: int) -> Limits:
        """Limits in the usual proportions."""
        return cls(whole, whole // 4, whole // 2, whole // 8)


@dataclass
class LogSummary:
    """What was kept of a log, and what not. Bytes are of the decoded, redacted text but where it is said otherwise."""

    format: str
    bytes_read: int = 0
    bytes_seen: int = 0
    lines_seen: int = 0
    bytes_kept: int = 0
    bytes_stored: int = 0
    sha256: str = ""
    cuts: list[Cut] = field(default_factory=list)
    first_time: str = ""
    last_time: str = ""
    head_missing: bool = False
    head_missing_reason: str = ""
    marks: Marks = field(default_factory=Marks)
    # The redactor's generation that the whole of the kept text was written under.
    generation: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The summary as plain data."""
        return asdict(self)


def learn(source: LogSource, redactor: Redactor) -> None:
    """Learn the secrets of a log without keeping it."""
    redactor.learn_text(_decoded(source, LogSummary(source.form)))


def collect(
    source: LogSource,
    destination: BinaryIO,
    redactor: Redactor,
    limits: Limits,
    started_at: str = "",
    rotates: Optional[bool] = None,
    find_first_failure: Optional[FindFirstFailure] = None,
    observe: Optional[Callable[[bytes], Any]] = None,
) -> LogSummary:
    """Write a log to the destination as redacted text, compressed; ``observe`` is given every kept block.

    What the log teaches the redactor on its way is not removed from what was written before. When the
    redactor's generation is another than the summary's in the end, collect once more.
    """
    summary = LogSummary(source.form)
    generation = redactor.generation
    cutter = None
    blocks = _decoded(source, summary)
    if source.size is None or source.size * _GROWTH > limits.whole:
        index, read = LineIndex(), LogSummary(source.form)
        failed_line = _look_through(_redacted(_decoded(source, read), redactor), index, find_first_failure)
        generation = redactor.generation
        if index.size > limits.whole:
            place = index.place(failed_line) if failed_line else None
            keep = ranges_to_keep(index.size, limits.head, limits.tail, limits.window, place)
            cutter = Cutter(keep, index.size)
        # The log may have grown since.
        blocks = _decoded(source, summary, read.bytes_read)
    with _Packer(destination, summary) as packer:
        for block in _kept(_redacted(blocks, redactor), summary, cutter):
            if observe:
                observe(block)
            packer.write(block)
    summary.generation = generation
    if cutter:
        summary.cuts = cutter.cuts
    _judge_head(summary, started_at, rotates)
    return summary


def _look_through(
    blocks: Iterator[bytes], index: LineIndex, find_first_failure: Optional[FindFirstFailure]
) -> Optional[int]:
    def indexed() -> Iterator[bytes]:
        for block in blocks:
            index.add(block)
            yield block

    seen = indexed()
    failed_line = find_first_failure(seen) if find_first_failure else None
    for _block in seen:
        pass  # a finder may stop at what it was looking for; the length of the log is wanted all the same
    return failed_line


def _decoded(source: LogSource, summary: LogSummary, most: Optional[int] = None) -> Iterator[bytes]:
    decoder = decoder_for(source.form)
    summary.marks = decoder.marks
    raw = source.blocks()
    for block in raw if most is None else limited_blocks(raw, most):
        summary.bytes_read += len(block)
        text = decoder.feed(block)
        if text:
            yield text
    rest = decoder.finish()
    if rest:
        yield rest


def _redacted(blocks: Iterator[bytes], redactor: Redactor) -> Iterator[bytes]:
    stream = redactor.stream()
    for block in blocks:
        ready = stream.feed(block)
        if ready:
            yield ready
    rest = stream.finish()
    if rest:
        yield rest


def _kept(blocks: Iterator[bytes], summary: LogSummary, cutter: Optional[Cutter]) -> Iterator[bytes]:
    encoding = _EncodingCheck()
    last = b""
    for block in blocks:
        if not summary.bytes_seen:
            summary.first_time = _first_stamp(block)
        summary.bytes_seen += len(block)
        summary.lines_seen += block.count(b"\n")
        summary.marks.nul_bytes += block.count(b"\0")
        summary.marks.invalid_utf8_blocks += encoding.is_broken(block)
        last = block
        for piece in cutter.feed(block) if cutter else (block,):
            summary.bytes_kept += len(piece)
            yield piece
    summary.last_time = last_stamp(last)
    for piece in cutter.finish() if cutter else ():
        summary.bytes_kept += len(piece)
        yield piece


class _EncodingCheck:
    """Tells blocks with bytes that are not UTF-8; a character may go over the border of two blocks."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def is_broken(self, block: bytes) -> bool:
        if block.isascii() and not self._decoder.getstate()[0]:
            return False
        try:
            self._decoder.decode(block)
        except UnicodeDecodeError:
            self._decoder.reset()
            return True
        return False


class _Packer:
    """Compresses in a second thread: the work on text and that on its compression go side by side."""

    def __init__(self, destination: BinaryIO, summary: LogSummary) -> None:
        self._destination = destination
        self._summary = summary
        self._blocks: queue.Queue[Optional[bytes]] = queue.Queue(_WAITING_BLOCKS)
        self._error: Union[OSError, ValueError, None] = None
        self._thread = threading.Thread(target=self._work, name="log packer", daemon=True)

    def __enter__(self) -> _Packer:
        self._thread.start()
        return self

    def write(self, block: bytes) -> None:
        """Hand over a block; raises what the writing of an earlier one has run into."""
        if self._error:
            raise self._error
        self._blocks.put(block)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._blocks.put(None)
        self._thread.join()
        if self._error and error is None:
            raise self._error

    def _work(self) -> None:
        packer = zlib.compressobj(1, zlib.DEFLATED, 31)
        digest = hashlib.sha256()

        def put(data: bytes) -> None:
            self._destination.write(data)
            digest.update(data)
            self._summary.bytes_stored += len(data)

        for block in iter(self._blocks.get, None):
            if self._error is None:
                try:
                    put(packer.compress(block))
                except (OSError, ValueError) as error:
                    # The other thread raises it; this one goes on taking blocks, or both would wait for ever.
                    self._error = error
        if self._error is None:
            try:
                put(packer.flush())
                self._destination.flush()
            except (OSError, ValueError) as error:
                self._error = error
        self._summary.sha256 = digest.hexdigest()


_STAMP = re.compile(rb"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})[ \n]")


def _first_stamp(block: bytes) -> str:
    match = _STAMP.match(block)
    return match.group().decode().strip() if match else ""


def last_stamp(block: bytes) -> str:
    """The time of the last line that has one."""
    end = len(block)
    while end > 0:
        start = block.rfind(b"\n", 0, end - 1) + 1
        match = _STAMP.match(block, start, end)
        if match:
            return match.group().decode().strip()
        end = start
    return ""


def seconds_of(stamp: str) -> Optional[float]:
    """An RFC 3339 time as seconds since 1970; fractions beyond microseconds are dropped."""
    match = _STAMP.fullmatch(stamp.encode() + b" ")
    if not match:
        return None
    base, fraction, zone = (part.decode() if part else "" for part in match.groups())
    text = (
        base + (fraction[:7].ljust(7, "0") if fraction else ".000000") + ("+00:00" if zone == "Z" else zone)
    )
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").astimezone(timezone.utc).timestamp()
    except ValueError:
        return None


def _judge_head(summary: LogSummary, started_at: str, rotates: Optional[bool]) -> None:
    """Whether the runtime has dropped the head of the log: it begins later than the container did."""
    first, started = seconds_of(summary.first_time), seconds_of(started_at)
    if first is None or started is None or rotates is False or first - started <= _SILENT_SECONDS:
        return
    summary.head_missing = True
    summary.head_missing_reason = (
        f"the log begins at {summary.first_time}, the container was started at {started_at}: "
        f"{first - started:.0f} s are missing, rotated away or silent"
    )
