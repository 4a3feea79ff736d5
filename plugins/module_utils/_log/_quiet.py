# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attempts whose logs name no failure: served, stopped, gone without a word, hung or under way (private to
the collection).
"""

from __future__ import annotations

from typing import List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log, Part
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._decision import (
    HIGH,
    LOW,
    MEDIUM,
    Decision,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._explain import explain_outside
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._hang import idle_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import (
    ContainerEnd,
    launch_error,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import Finding


def not_failed(
    decision: Decision, logs: List[Log], end: Optional[ContainerEnd], observed: Optional[float]
) -> None:
    parts = decision.parts
    serving = any(part.serving for part in parts)
    stopped = next((part for part in parts if part.run.stop is not None), None)
    spoke = any(part.run.lines for part in parts)
    if end is not None and end.exited and _died(decision, end, serving, stopped is not None, spoke):
        explain_outside(decision, logs, end)
        return
    if stopped is not None:
        _stopped(decision, stopped, serving)
        return
    if end is not None and end.exited and not spoke and end.started_at.startswith("0001-"):
        decision.outcome, decision.confidence = "unknown", HIGH
        decision.reason = "the container was created and never started"
        decision.message = "The container was never started."
        decision.advice = "Look at what was to start it."
        return
    if end is not None and end.exited:
        decision.outcome, decision.confidence = "stopped", MEDIUM if serving else LOW
        decision.reason = "the container ended with code {0}, and the log names no failure".format(
            end.exit_code
        )
        decision.message = "The container ended, with no word of why."
        decision.advice = "Look at who stopped the container."
        return
    idle = idle_of(parts, serving, observed)
    if idle is None and serving:
        decision.outcome, decision.confidence = "ready", still(parts, end)
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
        explain_outside(decision, logs, None)
        if decision.kernel is not None:
            decision.outcome, decision.stage = "failed", decision.kernel.finding.stage or "devices"
        return
    decision.outcome, decision.stage, decision.substage = idle.outcome, idle.stage, idle.substage
    decision.failure_class = "hang" if idle.outcome == "hung" else "none"
    if idle.outcome == "running":
        decision.stage = "none"
    decision.log, decision.line, decision.process, decision.rank = (
        idle.log,
        idle.line,
        idle.process,
        idle.rank,
    )
    decision.time, decision.message, decision.confidence = idle.time, idle.message, idle.confidence
    decision.reason, decision.advice = idle.reason, idle.advice
    if idle.outcome == "hung":
        explain_outside(decision, logs, end)


def still(parts: List[Part], end: Optional[ContainerEnd]) -> str:
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
        decision.failure_class, decision.confidence = (
            ("killed", MEDIUM) if end.exit_code == 137 else ("unclassified", LOW)
        )
        decision.reason = "the log simply ends; exit code {0} is all there is".format(end.exit_code)
    if not spoke:
        decision.message = "The container ended with code {0} before the engine wrote a line.".format(
            end.exit_code
        )
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
    if stop is not None and (stop.text.endswith("KeyboardInterrupt") or "SIGINT" in stop.text):
        decision.confidence, decision.reason = MEDIUM, "interrupted from a keyboard before it was ready"
        decision.message = "The start was interrupted."
        return
    marker = part.run.marker
    decision.stage, decision.substage, decision.failure_class = "api", "readiness", "readiness-timeout"
    decision.log, decision.line = part.log, stop.line if stop is not None else None
    decision.time = part.log.common(stop.time) if stop is not None else None
    decision.confidence = LOW
    decision.reason = (
        "told to stop from outside before it was ready, in stage {0}; the log can't say by whom".format(
            marker.stage if marker is not None else "container"
        )
    )
    decision.message = "The engine was told to stop before it was ready."
    decision.advice = "Look for a readiness or startup probe, or a person, that ended the start too early."
