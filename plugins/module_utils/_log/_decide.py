# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One attempt judged: its outcome, the stage that failed first, with what, and how sure that is; private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Candidate, Log, Part
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._choose import Choice, choose
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._compare import memory_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._hang import idle_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import (
    ContainerEnd,
    KernelWord,
    kernel_word,
    launch_error,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._run import role_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import LIKELY, SERVICE
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import Finding

HIGH, MEDIUM, LOW = "high", "medium", "low"
_WORST = {HIGH: 0, MEDIUM: 1, LOW: 2}
_ELSEWHERE = "The cause is not in {0}; look at {1}. "

# Classes that show only where an asynchronous failure surfaced, or what a peer saw of it.
_SURFACED = ("cuda-illegal-memory-access", "cuda-launch-failure", "driver-unknown-error")


@dataclass
class Decision:
    """The answer for one attempt, before it is written down."""

    outcome: str = "unknown"
    stage: str = "none"
    substage: str = ""
    failure_class: str = "none"
    log: Optional[Log] = None
    line: Optional[int] = None
    exception_line: Optional[int] = None
    process: str = ""
    rank: Optional[int] = None
    time: Optional[float] = None
    message: str = ""
    confidence: str = LOW
    reason: str = ""
    advice: str = ""
    memory: Optional[Dict[str, Optional[int]]] = None
    parts: List[Part] = field(default_factory=list)
    choice: Choice = field(default_factory=Choice)
    kernel: Optional[KernelWord] = None
    scope: str = SERVICE

    @property
    def role(self) -> str:
        """Role of the failing process."""
        return role_of(self.process) if self.process else ("none" if self.stage == "none" else "main")

    def signature(self) -> Dict[str, object]:
        """What makes two failures the same; text, lines, process ids and times are not in it."""
        failed = self.outcome in ("failed", "hung")
        rejected = self.scope != SERVICE
        return {
            "stage": self.stage,
            "substage": self.substage,
            "class": self.failure_class,
            "role": self.role,
            "exits": _ranks.exits(self.parts, failed),
            "request": _ranks.request_outcome(self.parts, rejected),
        }


def lower(one: str, other: str) -> str:
    """The less sure of two."""
    return one if _WORST[one] >= _WORST[other] else other


def decide(parts: List[Part], logs: List[Log], end: Optional[ContainerEnd], observed: Optional[float]) -> Decision:
    """Judges an attempt."""
    choice = choose(parts)
    decision = Decision(parts=parts, choice=choice)
    if choice.first is not None and choice.level != "request":
        _failed(decision, choice.first)
        _explain_outside(decision, logs, end)
    else:
        _not_failed(decision, logs, end, observed)
        if choice.first is not None:
            _rejected(decision, choice.first, _still(parts, end))
    _doubt(decision)
    return decision


def _failed(decision: Decision, first: Candidate) -> None:
    finding, choice = first.finding, decision.choice
    decision.outcome = "failed"
    _place(decision, first)
    decision.advice = finding.row.advice
    if finding.is_oom:
        decision.memory = memory_of(first.block.whole)
    level = choice.level
    others = len({one.finding.failure_class for one in choice.followed})
    if level == "cause":
        sure = finding.role != LIKELY or finding.is_oom
        decision.confidence = HIGH if sure and finding.failure_class not in _SURFACED else MEDIUM
        if first.block.cut or (finding.is_oom and not (choice.fatal and finding.placed)):
            decision.confidence = MEDIUM
        decision.reason = "the text names a cause and nothing failed before it; {0} other kind(s) of failure followed".format(others)
        if decision.confidence == MEDIUM:
            decision.reason = "the text usually names the cause and nothing failed before it, but it may only be where it surfaced"
    elif level == "warning":
        decision.confidence = MEDIUM
        decision.reason = "only a warning names a cause, and what failed afterwards fits it"
    elif level == "symptom":
        decision.confidence = MEDIUM if len(decision.parts) > 1 or finding.row.where == ("nccl",) else LOW
        decision.reason = "the text names a symptom and no cause was found near it"
    elif level == "unknown":
        decision.confidence = LOW
        decision.reason = "the first uncaught exception; its text is in no table, its stage is taken from the traceback"
    else:
        decision.confidence = LOW
        decision.reason = "every failure found is a consequence of something that these logs do not show"
        decision.message = _ELSEWHERE.format(_logs_named(decision), _elsewhere(decision)) + decision.message


def _logs_named(decision: Decision) -> str:
    return "this log" if len({part.log.path for part in decision.parts}) == 1 else "these logs"


def _elsewhere(decision: Decision) -> str:
    """The node or place that a consequence points to."""
    first = decision.choice.first
    nodes = sorted({part.log.node for part in decision.parts})
    missing = _ranks.missing_ranks(decision.parts)
    quiet = [part.log.node for part in decision.parts if not part.candidates and first is not None and part.log is not first.log]
    if quiet:
        return "node {0}, whose log ends without a word".format(quiet[0])
    if first is not None and first.finding.failure_class in ("worker-failed", "host-oom-killed"):
        return "the kernel log and the container state of node {0}".format(first.log.node)
    if first is not None and first.finding.failure_class == "handshake-no-answer":
        return "node 0, the head"
    world = max((part.run.world_size or 0 for part in decision.parts), default=0)
    local = max((part.run.local_world_size or 0 for part in decision.parts), default=0)
    if len(nodes) == 1 and ((local and world > local) or (missing and not local)):
        other = 1 if nodes[0] == 0 else 0
        return "node {0}".format(other)
    return "the kernel log and the container state of each node"


def _place(decision: Decision, first: Candidate) -> None:
    block, finding = first.block, first.finding
    decision.stage, decision.substage = finding.stage or "engine", finding.substage
    decision.failure_class = finding.failure_class
    if first.finding.failure_class == "worker-failed":
        decision.failure_class = "host-oom-killed" if _vanished(decision) and finding.stage == "weights" else "worker-failed"
    elif finding.row.key == "host-oom-killed:exit-9" and finding.stage != "weights":
        decision.failure_class = "worker-died"  # loading is what fills a host's memory; elsewhere a kill is only a kill
    decision.log, decision.line = first.log, block.first
    raised = finding.raised
    decision.exception_line = raised.line if raised is not None else block.line_with(finding.row.literals)
    decision.process, decision.rank = _ranks.owner_of(first)
    if not decision.process and block.kind not in ("launcher",):
        decision.process, decision.rank = _ranks.next_worker(first, decision.choice.followed)
    decision.time = first.time
    text = raised.text if raised is not None else (block.header or block.whole)
    decision.message = " ".join(text.split())[:400]
    if raised is not None and raised.more and ("validation error" in text or len(text) < 60):
        decision.message = " ".join((text + " " + " ".join(raised.more[:3])).split())[:400]


def _vanished(decision: Decision) -> bool:
    """Whether a worker went away without a traceback of its own, as one does that is killed from outside."""
    candidates = [one for part in decision.parts for one in part.candidates]
    return not any(role_of(one.block.line.process) == "worker" for one in candidates)


def _explain_outside(decision: Decision, logs: List[Log], end: Optional[ContainerEnd]) -> None:
    since = min((part.start for part in decision.parts if part.start is not None), default=None)
    word = kernel_word(logs, decision.failure_class, decision.time, since)
    if word is not None:
        _kernel(decision, word)
    elif end is not None and end.oom_killed and decision.choice.level in ("consequence", "symptom", "unknown"):
        decision.failure_class, decision.confidence = "host-oom-killed", HIGH
        decision.reason = "the container state says OOMKilled and the log names no cause of its own"
        decision.advice = "Compare the container's memory limit and the host's free memory with what this stage needs."
        decision.message = decision.message.replace(_ELSEWHERE.format(_logs_named(decision), _elsewhere(decision)), "")


def _kernel(decision: Decision, word: KernelWord) -> None:
    decision.kernel = word
    decision.failure_class = word.failure_class
    decision.advice = word.finding.row.advice
    sure = word.sure and decision.choice.first is not None and word.failure_class not in ("gpu-xid", "gpu-sxid")
    decision.confidence = HIGH if sure else MEDIUM
    decision.reason = "the kernel log explains it" + ("" if word.sure else ", though its time can't be compared exactly")
    decision.message = " ".join(word.block.header.split())[:400]
    if decision.line is None:
        decision.log, decision.line, decision.time = word.log, word.block.first, word.time
        decision.process = "kernel"
    if word.finding.stage and decision.stage == "none":
        decision.stage, decision.substage = word.finding.stage, word.finding.substage


def _not_failed(decision: Decision, logs: List[Log], end: Optional[ContainerEnd], observed: Optional[float]) -> None:
    parts = decision.parts
    serving = any(part.serving for part in parts)
    stopped = next((part for part in parts if part.run.stop is not None), None)
    spoke = any(part.run.lines for part in parts)
    if end is not None and end.exited and _died(decision, end, serving, stopped is not None, spoke):
        _explain_outside(decision, logs, end)
        return
    if stopped is not None:
        _stopped(decision, stopped, serving)
        return
    idle = idle_of(parts, serving, observed)
    if idle is None and serving:
        decision.outcome, decision.confidence = "ready", _still(parts, end)
        decision.reason = "the engine said that it is ready and nothing that ends it followed"
        if decision.confidence != HIGH:
            decision.reason += " before the log ends; what came later it can't show"
        decision.message = "The engine is ready."
        return
    if idle is None:
        decision.outcome = "unknown"
        decision.reason = "the log is empty" if not spoke else "no line of an engine was recognised"
        decision.message = "Nothing to judge: " + decision.reason + "."
        decision.advice = "Look at the container's state and at how it was started."
        _explain_outside(decision, logs, None)
        if decision.kernel is not None:
            decision.outcome, decision.stage = "failed", decision.kernel.finding.stage or "devices"
        return
    decision.outcome, decision.stage, decision.substage = idle.outcome, idle.stage, idle.substage
    decision.failure_class = "hang" if idle.outcome == "hung" else "none"
    if idle.outcome == "running":
        decision.stage = "none"
    decision.log, decision.line, decision.process, decision.rank = idle.log, idle.line, idle.process, idle.rank
    decision.time, decision.message, decision.confidence = idle.time, idle.message, idle.confidence
    decision.reason, decision.advice = idle.reason, idle.advice
    if idle.outcome == "hung":
        _explain_outside(decision, logs, end)


def _still(parts: List[Part], end: Optional[ContainerEnd]) -> str:
    """How sure it is that an engine that served still does: a log may have been cut before its end."""
    live = any(not part.log.ended for part in parts)
    return HIGH if live or (end is not None and end.running) else MEDIUM


def _died(decision: Decision, end: ContainerEnd, serving: bool, stopped: bool, spoke: bool) -> bool:
    """A container that ended although its log names no failure; whether that decided anything."""
    launch = launch_error(end)
    if launch is not None and not serving:
        _launch(decision, launch, end)
        return True
    if end.exit_code == 0 or (stopped and end.exit_code in (130, 137, 143) and not end.oom_killed):
        return False
    part = max(decision.parts, key=lambda one: one.end) if decision.parts else None
    marker = part.run.marker if part is not None else None
    decision.outcome = "failed"
    decision.stage = "runtime" if serving else (marker.stage if marker is not None else "container")
    decision.substage = "serving" if serving else (marker.substage if marker is not None else "start")
    if part is not None:
        decision.log, decision.time = part.log, part.log.common(part.run.last_time)
    decision.message = "The container ended with code {0}; its log names no failure.".format(end.exit_code)
    decision.advice = "Look at the kernel log and at who stopped the container."
    if end.oom_killed:
        decision.failure_class, decision.confidence = "host-oom-killed", HIGH
        decision.reason = "the container state says OOMKilled and the log simply ends"
    else:
        decision.failure_class, decision.confidence = ("killed", MEDIUM) if end.exit_code == 137 else ("unclassified", LOW)
        decision.reason = "the log simply ends; exit code {0} is all there is".format(end.exit_code)
    if not spoke:
        decision.message = "The container ended with code {0} before the engine wrote a line.".format(end.exit_code)
    return True


def _launch(decision: Decision, finding: Finding, end: ContainerEnd) -> None:
    decision.outcome, decision.stage, decision.substage = "failed", finding.stage, finding.substage
    decision.failure_class, decision.process = finding.failure_class, "docker"
    decision.message = " ".join(end.error.split())[:400]
    decision.confidence, decision.reason = HIGH, "the container state holds the daemon's own reason"
    decision.advice = finding.row.advice


def _stopped(decision: Decision, part: Part, serving: bool) -> None:
    stop = part.run.stop
    decision.outcome = "stopped"
    decision.process = stop.process if stop is not None else ""
    if serving:
        decision.confidence, decision.reason = HIGH, "the engine served and was then told to stop"
        decision.message = "The engine was stopped in an orderly way."
        if any(one.block.after_ready for one in decision.choice.aside):
            decision.confidence = MEDIUM
            decision.reason += "; errors before that did not end it, as far as the log shows"
        if _ranks.request_outcome(decision.parts, False) == "failed":
            decision.confidence = LOW
            decision.reason += ", but requests had failed with a server error that this log does not explain"
        return
    marker = part.run.marker
    decision.stage, decision.substage, decision.failure_class = "api", "readiness", "readiness-timeout"
    decision.log, decision.line = part.log, stop.line if stop is not None else None
    decision.time = part.log.common(stop.time) if stop is not None else None
    decision.confidence = LOW
    decision.reason = "told to stop from outside before it was ready, in stage {0}; the log can't say by whom".format(
        marker.stage if marker is not None else "container"
    )
    decision.message = "The engine was told to stop before it was ready."
    decision.advice = "Look for a readiness or startup probe, or a person, that ended the start too early."


def _rejected(decision: Decision, first: Candidate, confidence: str) -> None:
    """A request was refused; the engine goes on."""
    outcome = decision.outcome if decision.outcome in ("ready", "stopped") else "ready"
    _place(decision, first)
    decision.outcome, decision.stage, decision.substage = outcome, "runtime", "request"
    decision.scope = first.finding.row.scope
    decision.confidence = confidence
    decision.reason = "a client's request was refused; the engine itself did not fail"
    decision.advice = first.finding.row.advice


def _doubt(decision: Decision) -> None:
    doubts = list(decision.choice.doubts)
    if decision.log is not None and decision.log.newest_first:
        doubts.append("the log is pasted newest first")
    if doubts and decision.outcome in ("failed", "hung"):
        decision.confidence = lower(decision.confidence, MEDIUM)
        decision.reason += "; " + ", ".join(doubts)
