# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of one line taken apart: process, rank, time, level, source, message (private to the
collection).

Covers vLLM 0.9 to 0.33 (prefix on every line, on log records only, doubled), its JSON formatter, the
Rust front end, uvicorn, NCCL, c10d, Ray, Python logging with a full date. Sources: vllm/logger.py and
vllm/utils/system_utils.py (https://github.com/vllm-project/vllm), src/debug.cc of NCCL
(https://github.com/NVIDIA/nccl).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._clock import (
    FULL,
    LogClock,
    clock_seconds,
    parse_full,
    yearless,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._wrappers import Unwrapped

RECORD, RAW, NCCL, C10D, KERNEL, UVICORN = "record", "raw", "nccl", "c10d", "kernel", "uvicorn"
MAX_TEXT = 48 * 1024
_TAIL_TEXT = 8 * 1024

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_PREFIX = re.compile(
    r"\((?P<name>[A-Za-z][\w.:-]*(?: TP\d+)?)(?: rank=(?P<rank>\d+))? pid=(?P<pid>\d+)"
    r"(?:, ip=(?P<ip>[0-9A-Fa-f.:]+))?\) ?"
)
_RAY_NAME = re.compile(r"\((?P<name>raylet|autoscaler|gcs_server)[^)]{0,60}\) ")
_RECORD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?:(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)|<unknown time>) "
    r"\[(?P<source>[^\]\s]{1,200}?):(?P<line>\d+)\] ?"
)
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,9}")
_NCCL = re.compile(
    r"(?:\[(?P<date>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?)\] )?"
    r"(?P<host>[\w.-]+):(?P<pid>\d+):(?P<tid>\d+) "
    r"(?:\[(?P<device>-?\d+)\] )?(?P<place>\S+:\d+ )?NCCL (?P<level>[A-Z]+) "
)
_C10D = re.compile(
    r"(?:\[rank(?P<rank>\d+)\]:)?\[(?P<level>[IWEF])(?P<month>\d{1,2})(?P<day>\d\d) "
    r"(?P<clock>\d\d:\d\d:\d\d\.\d+) (?:\d+ )?(?P<source>[\w./-]+):(?P<line>\d+)\] ?"
)
_RANK = re.compile(r"\[rank(?P<rank>\d+)\]:? ?")
_DATED = re.compile(
    r"(?:\[)?"
    + FULL.pattern
    + r"\]?,?\s+(?:- )?(?:(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b(?: -)?"
    + r"|(?P<letter>[IWEF]) \d+ \d+\])?"
)
_INSIDE = re.compile(
    r"(?<=[^\s)])\s?"
    r"(?=\([A-Za-z][\w.-]*(?: TP\d+| rank=\d+)? pid=\d+\) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d )"
    r"|(?<=[^\s)])\s?(?=(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./-]+:\d+\])"
    r"|(?<=[\w\]>])(?=Traceback \(most recent call last\):)"
)
_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "WARN": "WARNING"}
_CORE = re.compile(r"_([A-Z]+)(\d+)")
_EXECUTOR_NAME = re.compile(r"VllmWorker-(\d+)$")


@dataclass
class Line:
    """One line of one process."""

    number: int
    kind: str
    message: str
    process: str = ""
    pid: Optional[int] = None
    rank: Optional[int] = None
    local_rank: Optional[int] = None
    level: str = ""
    source: str = ""
    host: str = ""
    own: Optional[float] = None  # the program's own clock
    outer: Optional[float] = None  # the runtime's clock
    stream: str = ""


def parse(line: Unwrapped, clock: LogClock) -> List[Line]:
    """The lines inside one physical line: redraws of a progress bar and glued records are taken apart."""
    text = line.text
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if len(text) > MAX_TEXT and not text.startswith("{"):
        text = text[: MAX_TEXT - _TAIL_TEXT] + " ...[cut]... " + text[-_TAIL_TEXT:]
    if line.year is not None:
        clock.learn(None, None, line.year)
    if line.kernel:
        return [Line(line.number, KERNEL, text.strip(), host=line.host, outer=_unwrapped(line.time, clock))]
    if text.startswith("{"):
        whole = _json_record(line, text, clock)
        if whole:
            return whole
    found: List[Line] = []
    for piece in _pieces(text):
        parsed = _parse_piece(line, piece, clock, found[-1] if found else None)
        if parsed is not None:
            found.append(parsed)
    return found


def _unwrapped(value: Optional[float], clock: LogClock) -> Optional[float]:
    return None if value is None else clock.unwrap(value)


def _pieces(text: str) -> List[str]:
    """Parts of a line between carriage returns; of many redraws only the first and the last two are kept."""
    text = text.rstrip("\r")
    parts = [part for part in text.split("\r") if part] if "\r" in text else [text]
    if len(parts) > 6:
        bars = [part for part in parts if "%|" in part or "it/s" in part or "s/it" in part]
        dropped = set(map(id, bars[1:-2]))
        parts = [part for part in parts if id(part) not in dropped]
    pieces: List[str] = []
    for part in parts[:64]:
        cuts = [match.start() for match in _INSIDE.finditer(part)] if _may_be_glued(part) else []
        for start, end in zip([0] + cuts, cuts + [len(part)]):
            pieces.append(part[start:end].lstrip(" ") if start else part[start:end])
    return pieces or [""]


def _may_be_glued(part: str) -> bool:
    return part.find("Traceback (most", 1) > 0 or part.find(" pid=", 8) > 0 or part.find("] ", 20) > 0


def _parse_piece(line: Unwrapped, text: str, clock: LogClock, before: Optional[Line]) -> Optional[Line]:
    parsed = Line(
        line.number, RAW, "", host=line.host, outer=_unwrapped(line.time, clock), stream=line.stream
    )
    text = _take_prefixes(text, parsed)
    if (
        before is not None and not parsed.process
    ):  # the prefix of a redrawn line stands in front of the first piece only
        parsed.process, parsed.pid = before.process, before.pid
    own, year = _take_head(text, parsed)
    if own is not None:
        own = clock.unwrap(own)
    parsed.own = own
    clock.learn(own, parsed.outer, year)
    if before is not None and not parsed.message.strip():
        return None
    return parsed


def _take_prefixes(text: str, parsed: Line) -> str:
    """Process prefixes off the text; of two, the inner one is the process that speaks."""
    position = 0
    for _count in range(3):
        match = _PREFIX.match(text, position) or _RAY_NAME.match(text, position)
        if match is None:
            break
        position = match.end()
        name_process(parsed, match["name"])
        if match.re is _PREFIX:
            parsed.pid, parsed.host = int(match["pid"]), match["ip"] or parsed.host
            if match["rank"]:  # vLLM up to about 0.10 named its workers so
                parsed.rank = int(match["rank"])
    text = text[position:] if position else text
    if text.startswith("[rank"):
        rank = _RANK.match(text)
        if rank is not None and not text.startswith("[", rank.end()):
            parsed.rank, text = int(rank["rank"]), text[rank.end() :]
    return text


def name_process(parsed: Line, name: str) -> None:
    """Process name and the ranks that it holds."""
    if name.startswith("VllmWorker TP"):
        name = "VllmWorker_TP" + name[13:]
    parsed.process = name
    local = _EXECUTOR_NAME.match(name)
    if local is not None:
        parsed.local_rank = int(local.group(1))


def dimensions(process: str) -> Dict[str, int]:
    """Parallel coordinates in a process name such as Worker_DP0_PP1_TP3."""
    return {name: int(number) for name, number in _CORE.findall(process)}


def _take_head(text: str, parsed: Line) -> Tuple[Optional[float], Optional[int]]:
    """Kind, level, source and message; returns the line's own time and year."""
    record = _RECORD.match(text)
    if record is not None:
        parsed.kind, parsed.level, parsed.message = RECORD, record["level"], text[record.end() :]
        parsed.source = record["source"].rpartition("/")[2] + ":" + record["line"]
        return (_month_day(record), None) if record["month"] else (None, None)
    start = text[:1]
    if start in "DIWEC":
        uvicorn = _UVICORN.match(text)
        if uvicorn is not None:
            parsed.kind, parsed.level, parsed.message = UVICORN, uvicorn["level"], text[uvicorn.end() :]
            return None, None
    if " NCCL " in text[:400]:
        nccl = _NCCL.match(text)
        if nccl is not None:
            return _take_nccl(nccl, text, parsed)
    if start == "[":
        c10d = _C10D.match(text)
        if c10d is not None:
            parsed.kind, parsed.level = C10D, _LEVELS[c10d["level"]]
            parsed.message, parsed.source = text[c10d.end() :], c10d["source"] + ":" + c10d["line"]
            if c10d["rank"]:
                parsed.rank = int(c10d["rank"])
            return _month_day(c10d), None
    parsed.message = text
    if start.isdigit() or start == "[":
        return _take_dated(text, parsed)
    return None, None


def _take_nccl(match: re.Match[str], text: str, parsed: Line) -> Tuple[Optional[float], Optional[int]]:
    parsed.kind, parsed.host, parsed.pid = NCCL, match["host"], int(match["pid"])
    parsed.level = _LEVELS.get(match["level"], match["level"])
    parsed.source = (match["place"] or "").strip()
    parsed.message = text[match.end() :]
    if match["device"]:
        parsed.local_rank = int(match["device"])
    date = FULL.match(match["date"]) if match["date"] else None
    if date is None:
        return None, None
    moment, year, _utc = parse_full(date)
    return moment, year


def _take_dated(text: str, parsed: Line) -> Tuple[Optional[float], Optional[int]]:
    """Python logging, Ray and others that write a full date."""
    match = _DATED.match(text)
    if match is None:
        return None, None
    level = match["level"] or match["letter"] or ""
    parsed.level = _LEVELS.get(level, level)
    parsed.message = text[match.end() :].lstrip(" \t-")
    if level:
        parsed.kind = RECORD
        parsed.source = "dated"
    moment, year, utc = parse_full(match)
    return (None if utc else moment), year


def _month_day(match: re.Match[str]) -> Optional[float]:
    clock = clock_seconds(match["clock"])
    return yearless(int(match["month"]), int(match["day"]), *clock) if clock else None


def _json_record(line: Unwrapped, text: str, clock: LogClock) -> List[Line]:
    """A record of pythonjsonlogger with the lines of its traceback; empty when the text is something else."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(entry, dict) or not isinstance(entry.get("message", entry.get("msg")), str):
        return []
    base = Line(
        line.number, RECORD, "", outer=_unwrapped(line.time, clock), stream=line.stream, host=line.host
    )
    level = str(entry.get("levelname") or entry.get("level") or "").upper()
    base.level = _LEVELS.get(level, level)
    if not base.level:
        return []
    name_process(base, str(entry.get("vllm_process_name") or entry.get("processName") or ""))
    pid = entry.get("process")
    base.pid = pid if isinstance(pid, int) else None
    base.source = str(entry.get("name") or entry.get("logger") or "json")
    date = FULL.match(str(entry.get("asctime") or entry.get("timestamp") or ""))
    if date is not None:
        moment, year, utc = parse_full(date)
        base.own = None if utc or moment is None else clock.unwrap(moment)
        clock.learn(base.own, base.outer, year)
    body = str(entry.get("message", entry.get("msg")))
    trace = entry.get("exc_info") or entry.get("exception")
    texts = body.splitlines() or [""]
    texts += str(trace).splitlines() if isinstance(trace, str) else []
    return [_copy(base, piece[:MAX_TEXT]) for piece in texts]


def _copy(base: Line, message: str) -> Line:
    return Line(
        base.number, base.kind, message, base.process, base.pid, base.rank, base.local_rank, base.level,
        base.source, base.host, base.own, base.outer, base.stream,
    )  # fmt: skip
