# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes: one question to a host, with a deadline and one of six outcomes (private to the collection).

A probe runs in a child process that can be killed, so that a driver call or a file system that never
returns costs its own deadline and nothing else. All probes of a list run side by side; those of one
group run one after another, and after a timeout in the group the rest of it is skipped.
"""

from __future__ import annotations

import errno
import os
import pickle
import selectors
import signal
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Sequence, Set

from ansible_collections.gpufleet.baseline.plugins.module_utils import _command

OK, ABSENT, ERROR, TIMEOUT, DENIED, SKIPPED = "ok", "absent", "error", "timeout", "denied", "skipped"
OUTCOMES = (OK, ABSENT, ERROR, TIMEOUT, DENIED, SKIPPED)

_FRAME = struct.Struct("!cI")
_FRAME_LIMIT = 256 * 1024 * 1024


@dataclass
class Reading:
    """What a probe's function returns. ``raw`` is the unparsed evidence, ``value`` what was read from it."""

    value: Any = None
    raw: bytes = b""
    outcome: str = OK
    message: str = ""
    source: str = ""
    cut_bytes: int = 0


class ProbeFailure(Exception):
    """Raised by a probe's function to give an outcome other than ok."""

    def __init__(self, outcome: str, message: str, source: str = "") -> None:
        super().__init__(message)
        self.reading = Reading(outcome=outcome, message=message, source=source)


Emit = Callable[[Reading], None]


@dataclass(frozen=True)
class ProbeSpec:
    """One question: its function, its deadline in seconds, and the record member its raw evidence goes to."""

    name: str
    run: Callable[[Emit], Reading]
    deadline: float = 30.0
    group: str = ""
    member: str = ""


@dataclass
class Probe:
    """The answer to one question. ``partial`` tells that the value or raw evidence ends before its end."""

    name: str
    outcome: str
    value: Any = None
    raw: bytes = b""
    message: str = ""
    source: str = ""
    seconds: float = 0.0
    cut_bytes: int = 0
    partial: bool = False
    member: str = ""

    def summary(self) -> Dict[str, Any]:
        """The answer without its value and raw evidence, as it stands in a manifest."""
        return {
            "outcome": self.outcome,
            "message": self.message,
            "source": self.source,
            "seconds": round(self.seconds, 3),
            "cut_bytes": self.cut_bytes,
            "partial": self.partial,
        }


def outcome_of(error: OSError) -> str:
    """The outcome that an operating system error stands for."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ESRCH):
        return ABSENT
    if error.errno in (errno.EACCES, errno.EPERM):
        return DENIED
    return ERROR


def read_file(path: str, limit: int = 8 * 1024 * 1024) -> Reading:
    """A file's content; raises ProbeFailure with absent, denied or error."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(limit + 1)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise ProbeFailure(outcome_of(error), "%s: %s" % (path, error.strerror), path) from error
    cut = max(size - limit, len(content) - limit, 0)
    return Reading(content.decode("utf-8", "backslashreplace")[:limit], content[:limit], source=path, cut_bytes=cut)


def file_probe(name: str, path: str, member: str = "", deadline: float = 10.0, limit: int = 8 * 1024 * 1024) -> ProbeSpec:
    """A probe that keeps one file; its value is the text."""
    return ProbeSpec(name, lambda emit: read_file(path, limit), deadline, member=member)


def command_reading(result: _command.CommandResult) -> Reading:
    """A command's result as a reading; its value is standard output as text."""
    raw = result.stdout if result.stdout or result.outcome == OK else result.stderr
    return Reading(result.text, raw, result.outcome, result.message, " ".join(result.argv), result.cut_bytes)


def command_probe(
    name: str,
    argv: Sequence[str],
    member: str = "",
    deadline: float = 30.0,
    group: str = "",
    limit: int = 8 * 1024 * 1024,
    parse: Optional[Callable[[str], Any]] = None,
) -> ProbeSpec:
    """A probe that runs one command; ``parse`` turns its text into the value."""

    def run(emit: Emit) -> Reading:
        reading = command_reading(_command.run_command(argv, deadline, limit))
        if parse is not None:
            # Text printed before a failure is evidence, but only a whole answer is parsed into facts.
            reading.value = parse(reading.value) if reading.outcome == OK else None
        return reading

    # The command's own deadline comes first, so that its output until then is kept.
    return ProbeSpec(name, run, deadline + 2.0, group, member)


@dataclass
class _Child:
    spec: ProbeSpec
    pid: int
    descriptor: int
    started: float
    buffer: bytearray = field(default_factory=bytearray)
    last: Optional[Reading] = None
    final: Optional[Reading] = None
    groups: Set[int] = field(default_factory=set)


def run_probes(specs: Sequence[ProbeSpec], parallel: int = 16) -> Dict[str, Probe]:
    """Run all probes side by side and return one answer for each, by name, in the order of ``specs``."""
    waiting: Deque[ProbeSpec] = deque(specs)
    busy: Set[str] = set()
    broken: Dict[str, str] = {}
    active: Dict[int, _Child] = {}
    answers: Dict[str, Probe] = {}
    selector = selectors.DefaultSelector()
    try:
        while waiting or active:
            _start_ready(waiting, busy, broken, active, answers, selector, parallel)
            if not active:
                continue
            now = time.monotonic()
            nearest = min(child.started + child.spec.deadline for child in active.values())
            for key, _events in selector.select(max(0.0, nearest - now)):
                child = active[key.fd]
                if _receive(child):
                    continue
                _finish(child, active, selector, busy, answers, timed_out=False)
            now = time.monotonic()
            for child in [c for c in active.values() if now >= c.started + c.spec.deadline]:
                _finish(child, active, selector, busy, answers, timed_out=True)
            for name, probe in answers.items():
                group = _group_of(specs, name)
                if group and probe.outcome == TIMEOUT and group not in broken:
                    broken[group] = name
    finally:
        for child in list(active.values()):
            _kill(child)
        selector.close()
    return {spec.name: answers[spec.name] for spec in specs}


def _group_of(specs: Sequence[ProbeSpec], name: str) -> str:
    return next((spec.group for spec in specs if spec.name == name), "")


def _start_ready(
    waiting: Deque[ProbeSpec],
    busy: Set[str],
    broken: Dict[str, str],
    active: Dict[int, _Child],
    answers: Dict[str, Probe],
    selector: selectors.BaseSelector,
    parallel: int,
) -> None:
    for _unused in range(len(waiting)):
        if len(active) >= parallel:
            return
        spec = waiting.popleft()
        if spec.group in broken and spec.group:
            message = "not asked: %s did not answer within its deadline" % broken[spec.group]
            answers[spec.name] = Probe(spec.name, SKIPPED, message=message, member=spec.member)
        elif spec.group and spec.group in busy:
            waiting.append(spec)
        else:
            child = _fork(spec)
            active[child.descriptor] = child
            selector.register(child.descriptor, selectors.EVENT_READ)
            if spec.group:
                busy.add(spec.group)


def _fork(spec: ProbeSpec) -> _Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child_main(spec, writer)
    os.close(writer)
    os.set_blocking(reader, False)
    return _Child(spec, pid, reader, time.monotonic())


def _child_main(spec: ProbeSpec, writer: int) -> NoReturn:
    """The child: run the function, send readings as frames, end without any of the parent's clean-up."""
    status = 1
    try:
        os.setsid()
        _command.die_with_parent()
        _command.on_start = lambda group: _send(writer, b"s", group)
        _command.on_end = lambda group: _send(writer, b"e", group)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        try:
            reading = spec.run(lambda partial: _send(writer, b"p", partial))
        except ProbeFailure as failure:
            reading = failure.reading
        except OSError as error:
            reading = Reading(outcome=outcome_of(error), message=str(error))
        except MemoryError:
            reading = Reading(outcome=ERROR, message="out of memory in the probe")
        except Exception as error:  # a fault of ours costs this probe, is named, and loses nothing else
            reading = Reading(outcome=ERROR, message="%s: %s" % (type(error).__name__, error))
        _send(writer, b"f", reading)
        status = 0
    finally:
        os._exit(status)


def _send(writer: int, kind: bytes, value: Any) -> None:
    payload = pickle.dumps(value, protocol=4)
    data = memoryview(_FRAME.pack(kind, len(payload)) + payload)
    while data:
        data = data[os.write(writer, data) :]


def _receive(child: _Child) -> bool:
    """Read what is there; False when the child has closed its end."""
    try:
        block = os.read(child.descriptor, 1024 * 1024)
    except BlockingIOError:
        return True
    child.buffer += block
    while len(child.buffer) >= _FRAME.size:
        kind, size = _FRAME.unpack_from(child.buffer)
        if size > _FRAME_LIMIT:
            child.final = Reading(outcome=ERROR, message="answer of %d bytes is over the limit" % size)
            return False
        if len(child.buffer) < _FRAME.size + size:
            break
        value = pickle.loads(bytes(child.buffer[_FRAME.size : _FRAME.size + size]))  # noqa: S301 - our own child
        del child.buffer[: _FRAME.size + size]
        if kind == b"s":
            child.groups.add(value)
        elif kind == b"e":
            child.groups.discard(value)
        elif kind == b"p":
            child.last = value
        else:
            child.final = value
    return bool(block)


def _finish(
    child: _Child,
    active: Dict[int, _Child],
    selector: selectors.BaseSelector,
    busy: Set[str],
    answers: Dict[str, Probe],
    timed_out: bool,
) -> None:
    spec = child.spec
    selector.unregister(child.descriptor)
    del active[child.descriptor]
    busy.discard(spec.group)
    status = _kill(child)
    partial = False
    if child.final is not None:
        reading = child.final
        partial = reading.outcome == TIMEOUT or reading.cut_bytes > 0
    elif timed_out:
        reading = child.last or Reading()
        left = "" if status is not None else "; process %d cannot be killed and was left behind" % child.pid
        reading.outcome, reading.message = TIMEOUT, "no answer within %g s%s" % (spec.deadline, left)
        partial = True
    else:
        reading = child.last or Reading()
        reading.outcome, reading.message = ERROR, "the probe ended without an answer (%s)" % _status_text(status)
        partial = child.last is not None
    answers[spec.name] = Probe(
        spec.name,
        reading.outcome,
        reading.value,
        reading.raw,
        reading.message,
        reading.source,
        time.monotonic() - child.started,
        reading.cut_bytes,
        partial,
        spec.member,
    )


def _status_text(status: Optional[int]) -> str:
    if status is None:
        return "it cannot be killed"
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return "exit status %d" % os.WEXITSTATUS(status)


def _kill(child: _Child) -> Optional[int]:
    """End a child with everything it started; its wait status, or None when it cannot be ended."""
    for group in [*child.groups, child.pid]:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    os.close(child.descriptor)
    end = time.monotonic() + _command.KILL_GRACE_SECONDS
    while True:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid == child.pid:
            return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.005)
