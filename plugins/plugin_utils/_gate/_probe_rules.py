# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what only a start can tell; judged when it was asked for (private, controller only; pure)."""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import SKIPPED
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    REQUIRED,
    Answer,
    Case,
    Rule,
    failed,
    not_applicable,
    passed,
    unmeasured,
)

FREE = "free the GPUs of the host first, or run the gate without this probe"
TOOLKIT = "repair the container toolkit of the host; see whether the same image sees GPUs on another host"


def _not_asked(host: HostFacts, name: str, variable: str) -> Answer | None:
    fact = host.fact(name)
    if fact.outcome == SKIPPED and not fact.message.startswith("refused"):
        return not_applicable(f"not asked for ({variable})")
    return None


def probe_container(_case: Case, host: HostFacts) -> Answer:
    """A new container with all GPUs sees those of the host."""
    none = _not_asked(host, "probe_container", "gate_probe_container")
    if none is not None:
        return none
    wanted = "a new container sees the host's GPUs"
    fact = host.fact("probe_container")
    if not fact.ok:
        return unmeasured("the view of a new container", fact, FREE).want(wanted)
    return _same(host, {str(uuid) for uuid in fact.value}, "a new container", fact).want(wanted)


def probe_cuda(_case: Case, host: HostFacts) -> Answer:
    """CUDA initialises, and has the GPUs of the host."""
    none = _not_asked(host, "probe_cuda", "gate_probe_cuda")
    if none is not None:
        return none
    wanted = "CUDA initialises on the host's GPUs"
    fact = host.fact("probe_cuda")
    if not fact.ok:
        return unmeasured("whether CUDA initialises", fact, FREE).want(wanted)
    if fact.value.get("init") != 0:
        remedy = "see driver.agreement, fabric.state and the compat library of the image"
        return failed(f"cuInit gives {fact.value.get('init')}", fact.message, remedy, fact).want(wanted)
    uuids, count = fact.value.get("uuids"), fact.value.get("count")
    if uuids is None:  # a libcuda that does not tell them: numbers are all that can be compared
        mine = len(set(host.uuids))
        told = f"{count} of {mine} GPUs, by number only"
        answer = (
            passed(told) if count == mine else failed(told, f"CUDA has {count} of the host's GPUs", TOOLKIT)
        )
        return answer.want(wanted)
    return _same(host, {str(uuid) for uuid in uuids}, "CUDA", fact).want(wanted)


def _same(host: HostFacts, seen: set[str], who: str, fact: Measured) -> Answer:
    mine = set(host.uuids)
    if seen == mine:
        return passed(f"{len(seen)} of {len(mine)} GPUs", fact)
    reason = f"{who} has {len(seen & mine)} of the host's {len(mine)} GPUs"
    strange = seen - mine
    reason += f" and {len(strange)} that the host does not list" if strange else ""
    return failed(f"{len(seen & mine)} of {len(mine)} GPUs", reason, TOOLKIT, fact)


RULES = (
    Rule(
        "probe.container",
        "a new container's GPUs",
        REQUIRED,
        host=probe_container,
        reads=("probe_container",),
    ),
    Rule("probe.cuda", "CUDA initialises", REQUIRED, host=probe_cuda, reads=("probe_cuda",)),
)
