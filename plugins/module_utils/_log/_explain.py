# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel's log and the container's state add to a failure, and where to look when nothing does.

(private to the collection)
"""

from __future__ import annotations

from typing import List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._decision import HIGH, MEDIUM, Decision
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import (
    ContainerEnd,
    KernelWord,
    kernel_word,
)

ELSEWHERE = "The cause is not in {0}; look at {1}. "


def logs_named(decision: Decision) -> str:
    """This log, or these logs."""
    return "this log" if len({part.log.path for part in decision.parts}) == 1 else "these logs"


def elsewhere(decision: Decision) -> str:
    """The node or place that a consequence points to."""
    first = decision.choice.first
    nodes = sorted({part.log.node for part in decision.parts})
    missing = _ranks.missing_ranks(decision.parts)
    quiet = [
        part.log.node
        for part in decision.parts
        if not part.candidates and first is not None and part.log is not first.log
    ]
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


def explain_outside(decision: Decision, logs: List[Log], end: Optional[ContainerEnd]) -> None:
    since = min((part.start for part in decision.parts if part.start is not None), default=None)
    word = kernel_word(logs, decision.failure_class, decision.time, since)
    if word is not None:
        _kernel(decision, word)
    elif (
        end is not None and end.oom_killed and decision.choice.level in ("consequence", "symptom", "unknown")
    ):
        decision.failure_class, decision.confidence = "host-oom-killed", HIGH
        decision.reason = "the container state says OOMKilled and the log names no cause of its own"
        decision.advice = (
            "Compare the container's memory limit and the host's free memory with what this stage needs."
        )
        decision.message = decision.message.replace(
            ELSEWHERE.format(logs_named(decision), elsewhere(decision)), ""
        )


def _kernel(decision: Decision, word: KernelWord) -> None:
    decision.kernel = word
    decision.failure_class = word.failure_class
    decision.advice = word.finding.row.advice
    sure = (
        word.sure and decision.choice.first is not None and word.failure_class not in ("gpu-xid", "gpu-sxid")
    )
    decision.confidence = HIGH if sure else MEDIUM
    decision.reason = "the kernel log explains it" + (
        "" if word.sure else ", though its time can't be compared exactly"
    )
    decision.message = " ".join(word.block.header.split())[:400]
    if decision.line is None:
        decision.log, decision.line, decision.time = word.log, word.block.first, word.time
        decision.process = "kernel"
    if word.finding.stage and decision.stage == "none":
        decision.stage, decision.substage = word.finding.stage, word.finding.substage
