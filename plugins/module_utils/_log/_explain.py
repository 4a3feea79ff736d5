# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel's log and the container's state add to a failure, and where to look when nothing does.

(private to the collection)
"""

from __future__ import annotations

import re
from typing import List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._decision import (
    HIGH,
    LOW,
    MEDIUM,
    Decision,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import (
    ContainerEnd,
    KernelWord,
    kernel_word,
)

ELSEWHERE = "The cause is not in {0}; look at {1}. "


# Failures that a host sees of another one: who is at fault stands in the log of that other one.
_OF_A_PEER = (
    "rendezvous-timeout",
    "rendezvous-refused",
    "handshake-no-answer",
    "engine-stalled-rpc-timeout",
    "nccl-collective-timeout",
    "nccl-unknown",
    "peer-lost",
)
_JOINED = re.compile(r"\b(\d+)/(\d+) clients joined")
_MOST_NODES = 1024


def doubt_without_peers(decision: Decision) -> None:
    """A failure that is seen of a peer is never sure while the log of that peer is missing."""
    absent = _absent_nodes(decision)
    if decision.outcome != "failed" or decision.failure_class not in _OF_A_PEER or not absent:
        return
    names = _nodes(absent)
    decision.confidence = LOW
    decision.reason += "; the log of {0} is not here, and the cause may stand there".format(names)
    decision.advice = "Look at {0}: its log and the state of its container. ".format(names) + decision.advice


def _nodes(numbers: List[int]) -> str:
    if len(numbers) == 1:
        return "node {0}".format(numbers[0])
    more = " and {0} more".format(len(numbers) - 8) if len(numbers) > 8 else ""
    return "nodes " + ", ".join(map(str, numbers[:8])) + more


def _absent_nodes(decision: Decision) -> List[int]:
    """Nodes that the launch has by its own words, and that no log is here of."""
    seen = {part.log.node for part in decision.parts}
    count = max(seen, default=0) + 1
    for part in decision.parts:
        nodes = part.run.options.get("nnodes")
        count = max(count, nodes if isinstance(nodes, int) else 0)
        world, local = part.run.world_size or 0, part.run.local_world_size or 0
        count = max(count, -(-world // local) if local else 0)
    if count < 2 and decision.choice.first is not None:
        joined = _JOINED.search(decision.choice.first.block.whole)
        # Without a word on hosts: somebody did not come, and with one log that is another host or process.
        count = 2 if joined is not None and int(joined.group(1)) < int(joined.group(2)) else count
    return [node for node in range(min(count, _MOST_NODES)) if node not in seen]


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
    absent = _absent_nodes(decision)
    return _nodes(absent) if absent else "the kernel log and the container state of each node"


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
