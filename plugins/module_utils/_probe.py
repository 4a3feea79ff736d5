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
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import _command, _guardian, _probe_child

OK, ABSENT, ERROR, TIMEOUT, DENIED, SKIPPED = "ok", "absent", "error", "timeout", "denied", "skipped"
OUTCOMES = (OK, ABSENT, ERROR, TIMEOUT, DENIED, SKIPPED)

# A source is there for people to read; the longest of our commands has half a kilobyte.
SOURCE_WIDTH = 60

_FINAL, _PARTIAL = b"f", b"p"


@dataclass
class Reading:
    """What a probe's function returns. ``raw`` is the unparsed evidence, ``value`` what was read from it.

    On its way a function may emit readings, the last of which stands when the probe does not come to its end.
    A reading with nothing but a message is a note of what is being asked, for the message of a timeout.
    """

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
    content = content[:limit]
    return Reading(content.decode("utf-8", "backslashreplace"), content, source=path, cut_bytes=cut)


def file_probe(
    name: str, path: str, member: str = "", deadline: float = 10.0, limit: int = 8 * 1024 * 1024
) -> ProbeSpec:
    """A probe that keeps one file; its value is the text."""
    return ProbeSpec(name, lambda emit: read_file(path, limit), deadline, member=member)


def command_reading(result: _command.CommandResult) -> Reading:
    """A command's result as a reading; its value is standard output as text."""
    raw = result.stdout if result.stdout or result.outcome == OK else result.stderr
    words = " ".join(result.argv)
    source = words if len(words) <= SOURCE_WIDTH else words[: SOURCE_WIDTH - 3] + "..."
    return Reading(result.text, raw, result.outcome, result.message, source, result.cut_bytes)


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
class _Active:
    """A probe that is being asked. ``last`` is its newest partial reading, ``note`` what it is asking."""

    spec: ProbeSpec
    child: _probe_child.Child
    started: float
    last: Optional[Reading] = None
    final: Optional[Reading] = None
    note: str = ""
    timed_out: bool = False

    @property
    def due(self) -> float:
        return self.started + self.spec.deadline

    def hear(self) -> None:
        """Take in what the child has said until now."""
        try:
            for kind, reading in _probe_child.receive(self.child):
                if kind == _FINAL:
                    self.final = reading
                elif reading.value is None and not reading.raw:
                    self.note = reading.message
                else:
                    self.last = reading
        except _probe_child.BrokenAnswer as error:
            self.final = Reading(outcome=ERROR, message=str(error))
            self.child.closed = True


class _Run:
    """All probes of one call, on their way from waiting to answered."""

    def __init__(self, specs: Sequence[ProbeSpec], parallel: int) -> None:
        self.waiting: List[ProbeSpec] = list(specs)
        self.parallel = max(1, parallel)
        self.active: Dict[int, _Active] = {}
        self.broken: Dict[str, str] = {}
        self.answers: Dict[str, Probe] = {}
        self.selector = selectors.DefaultSelector()

    def work(self) -> None:
        try:
            while self.waiting or self.active:
                self._start_ready()
                if self.active:
                    self._wait()
        finally:
            _probe_child.end([asked.child for asked in self.active.values()])
            self.selector.close()

    def _start_ready(self) -> None:
        """Start what may start now; the order within a group is the order in which it was given."""
        busy = {asked.spec.group for asked in self.active.values() if asked.spec.group}
        waiting: List[ProbeSpec] = []
        for spec in self.waiting:
            if spec.group in self.broken:
                message = "not asked: %s did not answer within its deadline" % self.broken[spec.group]
                self.answers[spec.name] = Probe(spec.name, SKIPPED, message=message, member=spec.member)
            elif len(self.active) >= self.parallel or spec.group in busy:
                waiting.append(spec)
            else:
                self._start(spec)
                if spec.group:
                    busy.add(spec.group)
        self.waiting = waiting

    def _start(self, spec: ProbeSpec) -> None:
        started = time.monotonic()
        try:
            child = _probe_child.start(lambda send: _ask(spec, send))
        except OSError as error:
            message = "no process could be started for it: %s" % error.strerror
            self.answers[spec.name] = Probe(spec.name, ERROR, message=message, member=spec.member)
            return
        self.active[child.descriptor] = _Active(spec, child, started)
        self.selector.register(child.descriptor, selectors.EVENT_READ)

    def _wait(self) -> None:
        nearest = min(asked.due for asked in self.active.values())
        for key, _events in self.selector.select(max(0.0, nearest - time.monotonic())):
            self.active[key.fd].hear()
        now = time.monotonic()
        over = [asked for asked in self.active.values() if asked.child.closed or now >= asked.due]
        for asked in over:
            asked.hear()
            asked.timed_out = not asked.child.closed
            self.selector.unregister(asked.child.descriptor)
            del self.active[asked.child.descriptor]
        _probe_child.end([asked.child for asked in over])
        for asked in over:
            probe = _answer(asked)
            self.answers[probe.name] = probe
            if probe.outcome == TIMEOUT and asked.spec.group:
                self.broken.setdefault(asked.spec.group, probe.name)


def run_probes(specs: Sequence[ProbeSpec], parallel: int = 16) -> Dict[str, Probe]:
    """Run all probes side by side and return one answer for each, by name, in the order of ``specs``."""
    run = _Run(specs, parallel)
    with _children_are_waited_for(), _guardian.guarded():
        run.work()
    return {spec.name: run.answers[spec.name] for spec in specs}


@contextmanager
def _children_are_waited_for() -> Iterator[None]:
    """A caller that ignores SIGCHLD would let the kernel forget how our children ended."""
    before = signal.getsignal(signal.SIGCHLD)
    if before != signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


def _ask(spec: ProbeSpec, send: _probe_child.Send) -> None:
    """In the child: run the probe's function and send its readings."""
    try:
        reading = spec.run(lambda partial: send(_PARTIAL, partial))
    except ProbeFailure as failure:
        reading = failure.reading
    except OSError as error:
        reading = Reading(outcome=outcome_of(error), message=str(error))
    except MemoryError:
        reading = Reading(outcome=ERROR, message="out of memory in the probe")
    except Exception as error:  # noqa: BLE001 - a fault of ours costs this probe, is named, and loses nothing else
        reading = Reading(outcome=ERROR, message="%s: %s" % (type(error).__name__, error))
    try:
        send(_FINAL, reading)
    except (AttributeError, TypeError, ValueError, pickle.PicklingError) as error:
        reading = Reading(raw=reading.raw, outcome=ERROR, message="the answer cannot be sent: %s" % error)
        send(_FINAL, reading)


def _answer(asked: _Active) -> Probe:
    """What a probe that is over has answered."""
    reading, status = asked.final, asked.child.status
    if reading is not None:
        partial = reading.outcome == TIMEOUT or reading.cut_bytes > 0
    else:
        reading = asked.last or Reading()
        partial = asked.last is not None or asked.timed_out
        if asked.timed_out:
            reading.outcome = TIMEOUT
            reading.message = "no answer within %g s" % asked.spec.deadline
            if status is None:
                reading.message += "; process %d cannot be killed and was left behind" % asked.child.pid
        else:
            reading.outcome = ERROR
            reading.message = "the probe ended without an answer (%s)" % _status_text(status)
        if asked.note:
            reading.message += "; last asked: " + asked.note
    spec = asked.spec
    return Probe(
        spec.name,
        reading.outcome,
        reading.value,
        reading.raw,
        reading.message,
        reading.source,
        time.monotonic() - asked.started,
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
