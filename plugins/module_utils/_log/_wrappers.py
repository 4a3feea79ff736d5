# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container runtime, a journal or a viewer puts around a line (private to the collection).

Known wrappings: Docker's json-file entries (long lines in pieces of 16 KiB, the last piece ends with a
line feed), Kubernetes CRI lines with their partial flag, `docker logs --timestamps`, journald in its
usual formats, Compose and kubectl name prefixes, kernel ring buffer lines. Format of CRI lines:
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import (
    FULL,
    clock_seconds,
    month_number,
    parse_full,
    parse_text,
    yearless,
)

_MAX_JOINED = 1024 * 1024
_RFC3339 = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
_STREAMED = re.compile(r"(?P<time>" + _RFC3339 + r") (?P<stream>stdout|stderr) (?:(?P<tag>[FP])(?::\S*)? )?")
_STAMPED = re.compile(r"(?P<time>" + _RFC3339 + r") ")
_SYSLOG = re.compile(
    r"(?:(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)|(?P<time>"
    + _RFC3339
    + r")) "
    r"(?P<host>[\w.-]+) (?P<tag>[\w.@/-]+)(?:\[\d+\])?: "
)
_KERNEL_CLOCK = re.compile(
    r"\[(?P<name>[A-Z][a-z]{2}) (?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) "
    r"(?P<year>\d{4})\] "
)
_KERNEL_BOOT = re.compile(r"(?:<\d+>)?\[ *\d+\.\d+\] ")
_KERNEL_BOOT_ONLY = re.compile(r"\[ *\d+\.\d{6}\]\s")
_KERNEL_START = re.compile(
    r"(?:NVRM: |nvidia-nvswitch|nvidia-nvlink|oom-kill:|Out of memory: |Memory cgroup out of memory)"
)
_NAMED = re.compile(r"(?:\[pod/[^\]]+\] |(?!\[)[\w.-]{1,60} {1,30}\| )")
_JSON_LOG = re.compile(r'\{"log":\s*"')
_JSON_TIME = re.compile(r'"time":\s*"([^"]+)"')


@dataclass
class Unwrapped:
    """One line as the program wrote it."""

    number: int
    text: str
    time: Optional[float] = None
    year: Optional[int] = None
    stream: str = ""
    host: str = ""
    kernel: bool = False


class Unwrapper:
    """Takes the outer layer off, line by line, and joins split entries per stream."""

    def __init__(self, kind: str = "auto") -> None:
        self._kind = kind
        self._partial: Dict[str, Unwrapped] = {}

    def feed(self, number: int, raw: bytes) -> Iterator[Unwrapped]:
        """The lines that this physical line completes: none for a first piece, several when an entry holds
        several.
        """
        text = raw.decode("utf-8", "replace")
        if self._kind in ("auto", "docker_json") and text.startswith('{"log":'):
            yield from self._docker(number, text)
            return
        start = text[:1]
        if self._kind == "kernel":
            yield _kernel(number, text)
        elif start.isdigit() and _STAMPED.match(text):
            yield from self._stamped(number, text)
        else:
            yield _plain(number, text)

    def flush(self) -> List[Unwrapped]:
        """Pieces whose rest never came: the log ends there, or is still being written."""
        left = sorted(self._partial.values(), key=lambda line: line.number)
        self._partial = {}
        return left

    def _docker(self, number: int, text: str) -> Iterator[Unwrapped]:
        entry = _docker_entry(text)
        if entry is None:
            yield Unwrapped(number, text)
            return
        moment, year, _utc = parse_text(str(entry.get("time") or ""))
        stream = str(entry.get("stream") or "")
        body = str(entry.get("log") or "")
        whole = self._join(Unwrapped(number, body, moment, year, stream), body.endswith("\n"))
        if whole is not None:
            for piece in whole.text.rstrip("\n").split("\n"):
                inner = _plain(whole.number, piece)
                yield Unwrapped(
                    whole.number, inner.text, whole.time, whole.year, stream, inner.host, inner.kernel
                )

    def _stamped(self, number: int, text: str) -> Iterator[Unwrapped]:
        syslog = _SYSLOG.match(text)
        streamed = _STREAMED.match(text)
        if streamed is not None:
            moment, year, _utc = parse_text(streamed["time"])
            line = Unwrapped(number, text[streamed.end() :], moment, year, streamed["stream"])
            whole = self._join(line, streamed["tag"] != "P")
            if whole is not None:
                yield whole
        elif syslog is not None and (syslog["tag"] == "kernel" or not syslog["time"].endswith("Z")):
            yield _from_syslog(number, text, syslog)  # journald writes an offset, Docker and Kubernetes a Z
        else:
            match = _STAMPED.match(text)
            if match is None:
                yield Unwrapped(number, text)
                return
            moment, year, _utc = parse_text(match["time"])
            inner = _plain(number, text[match.end() :])
            yield Unwrapped(number, inner.text, moment, year, "", inner.host, inner.kernel)

    def _join(self, line: Unwrapped, complete: bool) -> Optional[Unwrapped]:
        held = self._partial.pop(line.stream, None)
        if held is not None:
            if len(held.text) < _MAX_JOINED:
                held.text += line.text
            elif complete:
                held.text += " ...[cut]... " + line.text
            line = held
        if complete:
            return line
        self._partial[line.stream] = line
        return None


def _docker_entry(text: str) -> Optional[Dict[str, object]]:
    try:
        entry = json.loads(text)
    except ValueError:
        return _broken_entry(text)
    return entry if isinstance(entry, dict) else None


def _broken_entry(text: str) -> Optional[Dict[str, object]]:
    """The readable part of an entry that was cut off while it was written or copied."""
    match = _JSON_LOG.match(text)
    if match is None:
        return None
    body = text[match.end() :]
    end = re.search(r'(?<!\\)(?:\\\\)*"', body)
    body = body[: end.start()] if end else body
    try:
        readable = json.loads('"' + body.rstrip("\\") + '"', strict=False)
    except ValueError:
        readable = body
    moment = _JSON_TIME.search(text)
    return {"log": str(readable).rstrip("\n") + "\n", "time": moment.group(1) if moment else ""}


def _plain(number: int, text: str) -> Unwrapped:
    """Name prefixes, syslog and kernel formats, or nothing at all."""
    named = _NAMED.match(text)
    if named is not None and not text.startswith("usage"):
        text = text[named.end() :]
    start = text[:1]
    if start.isupper() and text[3:4] == " ":
        syslog = _SYSLOG.match(text)
        if syslog is not None:
            return _from_syslog(number, text, syslog)
    if (
        (start in "[<" and _KERNEL_BOOT_ONLY.match(text))
        or _KERNEL_START.match(text)
        or _KERNEL_CLOCK.match(text)
    ):
        return _kernel(number, text)
    return Unwrapped(number, text)


def _from_syslog(number: int, text: str, match: re.Match[str]) -> Unwrapped:
    rest = text[match.end() :]
    moment, year = _syslog_time(match)
    kernel = match["tag"] == "kernel"
    if kernel:
        rest = _KERNEL_BOOT.sub("", rest, count=1)
    return Unwrapped(number, rest, moment, year, "", match["host"], kernel)


def _syslog_time(match: re.Match[str]) -> Tuple[Optional[float], Optional[int]]:
    if match["time"]:
        moment, year, _utc = parse_text(match["time"])
        return moment, year
    clock = clock_seconds(match["clock"])
    if clock is None:
        return None, None
    return yearless(month_number(match["month"]), int(match["day"]), *clock), None


def _kernel(number: int, text: str) -> Unwrapped:
    """A line of the kernel's ring buffer in whatever format dmesg or journalctl gave it."""
    syslog = _SYSLOG.match(text)
    if syslog is not None:
        line = _from_syslog(number, text, syslog)
        line.kernel = True
        return line
    clock = _KERNEL_CLOCK.match(text)
    if clock is not None:
        seconds = clock_seconds(clock["clock"])
        moment = yearless(month_number(clock["month"]), int(clock["day"]), *seconds) if seconds else None
        return Unwrapped(number, text[clock.end() :], moment, int(clock["year"]), kernel=True)
    iso = FULL.match(text)
    if iso is not None:
        moment, year, _utc = parse_full(iso)
        return Unwrapped(number, text[iso.end() :].lstrip(" :"), moment, year, kernel=True)
    return Unwrapped(number, _KERNEL_BOOT.sub("", text, count=1), kernel=True)
