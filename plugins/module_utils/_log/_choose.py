# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of all failures came first, and which only followed (private to the collection).

Order of judgement: what was harmless because the engine served afterwards goes first; then causes by
time over all ranks; symptoms and consequences only where no cause is found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import (
    START_ENDS,
    Candidate,
    Part,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import (
    ERROR,
    LAUNCHER,
    TRACEBACK,
    WARNING,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import C10D, NCCL, RAW
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._process import role_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    CONSEQUENCE,
    LIKELY,
    NOISE,
    REQUEST,
    ROOT,
    SYMPTOM,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import UNKNOWN, classify

NEAR = 10.0  # seconds within which a cause may be printed after its symptom
_TIE = 2.0  # seconds that clocks of two hosts can't tell apart
_VAGUE = ("worker-failed", "engine-start-failed", "engine-dead", "watchdog")
_DEATHS = _VAGUE + (
    "peer-lost",
    "nccl-remote-peer",
    "handshake-no-answer",
    "engine-stalled-rpc-timeout",
    "host-oom-killed",
    "worker-died",
)
_PREFERENCE = {NCCL: 0, C10D: 0, LAUNCHER: 1}
_ROLES = {"worker": 2, "engine": 3, "api": 4}


@dataclass
class Choice:
    """The first failure of an attempt and what surrounds it."""

    first: Optional[Candidate] = None
    level: str = ""  # cause, warning, symptom, unknown, consequence, request
    followed: List[Candidate] = field(default_factory=list)
    evidence: List[Candidate] = field(default_factory=list)
    aside: List[Candidate] = field(default_factory=list)  # errors that did not stop anything
    doubts: List[str] = field(default_factory=list)
    fatal: bool = False


def choose(parts: List[Part], ended_badly: bool = False) -> Choice:
    """The first failure over all logs of an attempt.

    ended_badly: the container is known to have ended with an error.
    """
    choice = Choice()
    serving = any(part.serving for part in parts)
    ready_time = min((time for time in map(_ready_time, parts) if time is not None), default=None)
    stop_time = _stop_time(parts)
    alive: List[Candidate] = []
    for part in parts:
        for candidate in part.candidates:
            _serve_together(part, candidate, ready_time)
            if candidate.block.kind == WARNING or _hint(part, candidate):
                choice.evidence.append(candidate)
            elif (
                _outlived(part, candidate, serving, ready_time)
                or _after_stop(part, candidate)
                or _peer_stopped(candidate, stop_time)
            ):
                choice.aside.append(candidate)
            else:
                alive.append(candidate)
    choice.fatal = ended_badly or any(_is_fatal(part, alive) for part in parts)
    service = [one for one in alive if one.finding.row.scope != REQUEST]
    requests = [one for one in alive if one.finding.row.scope == REQUEST and one.finding.role != NOISE]
    if serving and not choice.fatal:
        service, calm = _split(service, _kills)
        choice.aside += calm
    if serving and service:
        requests = []
    choice.first, choice.level = _first(service, choice)
    if choice.first is None and requests:
        choice.first, choice.level = _earliest(requests, choice), "request"
    if choice.first is not None:
        choice.followed = [one for one in alive if one is not choice.first and one.finding.role != NOISE]
    return choice


def _hint(part: Part, candidate: Candidate) -> bool:
    """A warning of the C++ libraries, such as a refused connection that is tried again, in a run that did
    not end.
    """
    line = candidate.block.line
    quiet = line.kind == C10D and line.level == "WARNING" and candidate.finding.role == SYMPTOM
    return quiet and part.run.fatal is None


def _split(
    candidates: List[Candidate], test: Callable[[Candidate], bool]
) -> Tuple[List[Candidate], List[Candidate]]:
    return [one for one in candidates if test(one)], [one for one in candidates if not test(one)]


def _ready_time(part: Part) -> Optional[float]:
    return part.log.common(part.run.ready.time) if part.run.ready is not None else None


def _outlived(part: Part, candidate: Candidate, serving: bool, ready_time: Optional[float]) -> bool:
    """Whether the engine went on to serve after this error."""
    if not serving or candidate.block.after_ready:
        return False
    if part.serving:
        return True
    return ready_time is not None and candidate.time is not None and candidate.time < ready_time


def _serve_together(part: Part, candidate: Candidate, ready_time: Optional[float]) -> None:
    """A follower never says that it is ready; it serves once its head does."""
    if part.serving or ready_time is None or candidate.time is None or candidate.time <= ready_time:
        return
    candidate.block.after_ready = True
    candidate.finding = classify(candidate.block)


def _stop_time(parts: List[Part]) -> Optional[float]:
    """When the first of the hosts was told to stop, with no failure of its own before."""
    times = []
    for part in parts:
        stop = part.run.stop
        when = part.log.common(stop.time) if stop is not None else None
        if stop is None or when is None:
            continue
        fatal = part.run.fatal
        if all(one.block.first > stop.line or one.block.kind == WARNING for one in part.candidates) and (
            fatal is None or fatal.line > stop.line
        ):
            times.append(when)
    return min(times, default=None)


def _peer_stopped(candidate: Candidate, stop_time: Optional[float]) -> bool:
    """Whether a peer that was stopped in an orderly way explains what this rank lost."""
    if stop_time is None or candidate.time is None or candidate.finding.role != CONSEQUENCE:
        return False
    return candidate.time >= stop_time - _TIE


def _after_stop(part: Part, candidate: Candidate) -> bool:
    """Whether an orderly stop was under way, with no failure before it."""
    stop = part.run.stop
    if stop is None or candidate.block.first <= stop.line:
        return False
    if part.run.fatal is not None and part.run.fatal.line < stop.line:
        return False
    earlier = [
        one
        for one in part.candidates
        if one.block.first < stop.line
        and one.block.kind != WARNING
        and one.finding.row.scope != REQUEST
        and (one.block.after_ready or not part.serving)
        and one.finding.role != NOISE
    ]
    return not earlier


def _is_fatal(part: Part, alive: List[Candidate]) -> bool:
    """Whether something of this log says that a process ended because of a failure."""
    own = [one for one in alive if one.log is part.log]
    fatal = part.run.fatal
    if fatal is not None and any(
        one.block.first >= fatal.line or one.block.last >= fatal.line for one in own
    ):
        return True
    return any(
        one.finding.failure_class in _DEATHS or one.block.kind == LAUNCHER or _uncaught(one) for one in own
    )


def _uncaught(candidate: Candidate) -> bool:
    """A traceback that Python itself printed: its process, or at least its thread, ended."""
    block = candidate.block
    return block.kind == TRACEBACK and block.line.kind == RAW and not block.detached and bool(block.raised)


def terminal(candidate: Candidate) -> bool:
    """Whether the block itself says that its process ended."""
    return candidate.block.header.startswith(
        START_ENDS + ("WorkerProc hit", "EngineCore encountered")
    ) or _uncaught(candidate)


def _kills(candidate: Candidate) -> bool:
    """A failure that ends an engine, although nothing in the logs says so yet."""
    if candidate.block.detached and candidate.finding.role != CONSEQUENCE:
        return False
    if candidate.finding.row is UNKNOWN:
        return terminal(candidate) and role_of(candidate.block.line.process) in ("worker", "engine")
    return candidate.finding.role in (ROOT, LIKELY, CONSEQUENCE, SYMPTOM)


def _first(candidates: List[Candidate], choice: Choice) -> Tuple[Optional[Candidate], str]:
    causes = [
        one for one in candidates if one.finding.role in (ROOT, LIKELY) and one.finding.row is not UNKNOWN
    ]
    causes, bare = _split(causes, _entered)
    causes = [
        one for one in causes if not one.block.detached
    ] or causes  # a thread ended, its process did not
    unknown = [one for one in candidates if one.finding.row is UNKNOWN and (choice.fatal or terminal(one))]
    ended, loose = _split(unknown, terminal)
    symptoms = [one for one in candidates if one.finding.role == SYMPTOM] + bare
    consequences = [one for one in candidates if one.finding.role == CONSEQUENCE]
    weak = _earliest(symptoms + ended, choice) if symptoms or ended else None
    cause = _not_memory(_earliest(causes, choice), causes, choice) if causes else None
    warning = _warned(choice, cause, bool(consequences or weak) or choice.fatal)
    if warning is not None:
        return warning, "warning"
    if cause is not None and not (weak is not None and _much_earlier(weak, cause)):
        return cause, "cause"
    if weak is not None:
        return weak, "unknown" if weak.finding.row is UNKNOWN else "symptom"
    precise = [one for one in consequences if one.finding.failure_class not in _VAGUE]
    if precise:
        return _earliest(precise, choice), "consequence"
    if loose and choice.fatal:
        return _earliest(loose, choice), "unknown"
    if consequences:
        return _earliest(consequences, choice), "consequence"
    return None, ""


def _not_memory(cause: Candidate, causes: List[Candidate], choice: Choice) -> Candidate:
    """A device failure of another process within the same second goes before a memory shortage."""
    if not cause.finding.is_oom:
        return cause
    devices = [
        one
        for one in causes
        if one.finding.stage == "devices" and one.finding.role == ROOT and one.second == cause.second
    ]
    if not devices:
        return cause
    choice.doubts.append("a memory shortage was printed within the same second")
    return _earliest(devices, choice)


def _entered(candidate: Candidate) -> bool:
    """A memory shortage is a cause only where its own stage had begun: by its traceback, its record, or
    its process.
    """
    if not candidate.finding.is_oom or candidate.finding.row.name == "hint":
        return True
    frames = any(raised.frames for raised in candidate.block.raised)
    return frames or candidate.block.kind == ERROR or candidate.block.after_ready


def _warned(choice: Choice, cause: Optional[Candidate], failed: bool) -> Optional[Candidate]:
    """A warning decides only where the table calls it a cause, and only before a memory shortage or where
    no cause is.
    """
    roots = [one for one in choice.evidence if one.finding.role == ROOT]
    if not roots or not failed:
        return None
    warning = _earliest(roots, choice)
    if cause is None:
        return warning
    earlier = warning.log is cause.log and warning.block.first < cause.block.first
    return warning if cause.finding.is_oom and earlier and warning.finding.stage == "devices" else None


def _much_earlier(weak: Candidate, cause: Candidate) -> bool:
    if weak.time is None or cause.time is None:
        return False
    return weak.time + NEAR < cause.time


def _rank(candidate: Candidate) -> int:
    kind = _PREFERENCE.get(candidate.block.line.kind, _PREFERENCE.get(candidate.block.kind))
    return kind if kind is not None else _ROLES.get(role_of(candidate.block.line.process), 3)


def _earliest(candidates: List[Candidate], choice: Choice) -> Candidate:
    """The first by time; within a second by place in its own log; between hosts the evidence nearest to
    the hardware.
    """
    firsts = []
    for index in sorted({one.log.index for one in candidates}):
        own = [one for one in candidates if one.log.index == index]
        firsts.append(min(own, key=lambda one: (one.second is None, one.second or 0, _position(one))))
    timed = [one for one in firsts if one.time is not None]
    if len(timed) < len(firsts) and len(firsts) > 1:
        choice.doubts.append("one log has no times")
    if not timed:
        return firsts[0]
    start = min(one.time for one in timed if one.time is not None)
    tied = [one for one in timed if one.time is not None and one.time - start < _TIE]
    if len({one.finding.failure_class for one in tied}) > 1:
        choice.doubts.append("two hosts failed within {0:g} s of each other".format(_TIE))
    return min(tied, key=lambda one: (_rank(one), one.time or 0.0, one.log.index))


def _position(candidate: Candidate) -> int:
    first = candidate.block.first
    return -first if candidate.log.newest_first else first
