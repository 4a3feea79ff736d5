# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One attempt judged: the stage that failed first, with what, and how sure that is (private to the
collection).
"""

from __future__ import annotations

from typing import List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Candidate, Log, Part
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._choose import choose
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._compare import memory_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._decision import (
    HIGH,
    LOW,
    MEDIUM,
    Decision,
    lower,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._explain import (
    ELSEWHERE,
    doubt_without_peers,
    elsewhere,
    explain_outside,
    logs_named,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import ContainerEnd
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._process import role_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._quiet import not_failed, still
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import LIKELY

# Classes that show only where an asynchronous failure surfaced, or what a peer saw of it.
_SURFACED = ("cuda-illegal-memory-access", "cuda-launch-failure", "driver-unknown-error")


def decide(
    parts: List[Part], logs: List[Log], end: Optional[ContainerEnd], observed: Optional[float]
) -> Decision:
    """Judges an attempt."""
    choice = choose(parts, _ended_badly(parts, end))
    decision = Decision(parts=parts, choice=choice)
    if choice.first is not None and choice.level != "request":
        _failed(decision, choice.first)
        explain_outside(decision, logs, end)
    else:
        not_failed(decision, logs, end, observed)
        if choice.first is not None:
            _rejected(decision, choice.first, still(parts, end))
    _doubt(decision)
    doubt_without_peers(decision)
    return decision


def _ended_badly(parts: List[Part], end: Optional[ContainerEnd]) -> bool:
    """Whether the container ended with an error that nobody asked for."""
    if end is None or not end.exited or end.exit_code in (0, 130, 143):
        return False
    return all(part.run.stop is None for part in parts)


def _failed(decision: Decision, first: Candidate) -> None:
    finding, choice = first.finding, decision.choice
    decision.outcome = "failed"
    _place(decision, first)
    decision.advice = finding.row.advice
    if finding.is_oom:
        decision.memory = memory_of(first.block.whole)
    level = choice.level
    others = len({one.finding.failure_class for one in choice.followed} - {finding.failure_class})
    if level == "cause":
        sure = finding.role != LIKELY or finding.is_oom
        decision.confidence = HIGH if sure and finding.failure_class not in _SURFACED else MEDIUM
        if (
            first.block.cut
            or first.block.detached
            or (finding.is_oom and not (choice.fatal and finding.placed))
        ):
            decision.confidence = MEDIUM
        decision.reason = "the text names a cause and nothing failed before it"
        if others:
            decision.reason += "; other kinds of failure that followed: {0}".format(others)
        if decision.confidence == MEDIUM:
            decision.reason = "the text usually names the cause and nothing failed before it, "
            decision.reason += "but it may only be where it surfaced"
    elif level == "warning":
        decision.confidence = MEDIUM
        decision.reason = "only a warning names a cause, and what failed afterwards fits it"
    elif level == "symptom":
        decision.confidence = MEDIUM if len(decision.parts) > 1 or finding.row.where == ("nccl",) else LOW
        decision.reason = "the text names a symptom and no cause was found near it"
    elif level == "unknown":
        decision.confidence = LOW
        decision.reason = (
            "the first uncaught exception; its text is in no table, its stage is taken from the traceback"
        )
    else:
        decision.confidence = LOW
        decision.reason = "every failure found is a consequence of something that these logs do not show"
        decision.message = ELSEWHERE.format(logs_named(decision), elsewhere(decision)) + decision.message


def _place(decision: Decision, first: Candidate) -> None:
    block, finding = first.block, first.finding
    decision.stage, decision.substage = finding.stage or "container", finding.substage or "start"
    decision.failure_class = finding.failure_class
    if first.finding.failure_class == "worker-failed":
        decision.failure_class = (
            "host-oom-killed" if _vanished(decision) and finding.stage == "weights" else "worker-failed"
        )
    elif (
        finding.row.key in ("host-oom-killed:exit-9", "host-oom-killed:core-9") and finding.stage != "weights"
    ):
        decision.failure_class = (
            "worker-died"  # loading is what fills a host's memory; elsewhere a kill is only a kill
        )
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
