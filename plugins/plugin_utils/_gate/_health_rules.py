# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the state of the GPUs (private to the collection, controller only; pure).

Recovery actions and row remapping: https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/ and the field
NVML_FI_DEV_GET_GPU_RECOVERY_ACTION of https://docs.nvidia.com/deploy/nvml-api/. Xid codes:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. The gate reports; it resets nothing.
"""

from __future__ import annotations

import datetime
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Gpu, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    failed,
    not_applicable,
    over_gpus,
    passed,
    unmeasured,
    warned,
    without_gpus,
)

RESET = "drain the host, then reset the GPU or reboot"
REPLACE = "take the GPU out of service and have it replaced"

# Codes after which a GPU or its links are not to be trusted until someone looked.
GRAVE_XIDS = {48, 61, 62, 64, 74, 79, 95, 119, 120, 140, 143, 144, 145, 146, 147, 148, 149, 150, 157}
SLOWDOWNS = {"hw slowdown", "sw thermal slowdown", "hw thermal slowdown", "hw power brake slowdown"}


def _not_told(fact: Measured, what: str) -> Answer | None:
    """A state that this GPU or driver does not have is none to judge; one that failed to be read is
    unknown.
    """
    if fact.ok:
        return None
    return unmeasured(what, fact)


def gpu_mig(_case: Case, host: HostFacts) -> Answer:
    """No GPU is split into instances, and none will be after a reset."""

    def judge(gpu: Gpu) -> Answer | None:
        now, pending = gpu.fact("mig"), gpu.fact("mig_pending")
        if now.outcome == ABSENT:
            return None  # a GPU that cannot be split says so
        if not now.ok:
            return unmeasured("MIG mode", now)
        if now.value:
            reason = "MIG is on: the GPU is split, and a launch gets a slice of it"
            return failed("MIG on", reason, "drain the host and turn MIG off", now)
        if pending.ok and pending.value:
            return failed(
                "MIG on after a reset", "MIG will be on after the next reset", "turn it off", pending
            )
        return None

    return over_gpus(host, judge, "MIG off").want("MIG off")


def gpu_ecc(_case: Case, host: HostFacts) -> Answer:
    """Memory is checked for errors, and has none that could not be corrected."""

    def judge(gpu: Gpu) -> Answer | None:
        now, pending, errors = gpu.fact("ecc"), gpu.fact("ecc_pending"), gpu.fact("ecc_errors_since_boot")
        if not now.ok:
            return unmeasured("ECC mode", now)
        if not now.value:
            return warned("ECC off", "errors of the memory would go unnoticed", "turn ECC on and reset", now)
        if pending.ok and pending.value != now.value:
            return warned("ECC changes at a reset", "the ECC mode changes at the next reset", RESET, pending)
        count = errors.value.get("uncorrectable") if errors.ok else 0
        if count:
            found = f"{count} uncorrectable errors since boot"
            return warned(found, "memory of the GPU had errors that could not be corrected", RESET, errors)
        return None

    return over_gpus(host, judge, "ECC on").want("ECC on, no uncorrectable error")


def gpu_remap(_case: Case, host: HostFacts) -> Answer:
    """No row of the memory waits for a remapping or could not be remapped."""

    def judge(gpu: Gpu) -> Answer | None:
        pending, failure = gpu.fact("remapping_pending"), gpu.fact("remapping_failed")
        if failure.ok and failure.value:
            return failed(
                "remapping failed", "a row of the GPU's memory could not be replaced", REPLACE, failure
            )
        if pending.ok and pending.value:
            return failed(
                "remapping pending", "a row of the memory is replaced at the next reset", RESET, pending
            )
        return _not_told(failure, "the state of row remapping") or _not_told(pending, "pending row remapping")

    return over_gpus(host, judge, "none").want("no row remapping pending or failed")


def gpu_recovery(_case: Case, host: HostFacts) -> Answer:
    """The driver advises nothing for any GPU."""
    answered = [gpu for gpu in host.gpu_list if gpu.answered]
    if answered and all(gpu.fact("recovery_action").outcome == ABSENT for gpu in answered):
        return not_applicable("this driver or GPU does not tell a recovery action")

    def judge(gpu: Gpu) -> Answer | None:
        fact = gpu.fact("recovery_action")
        if not fact.ok:
            return unmeasured("the recovery action", fact)
        if str(fact.value).lower() != "none":
            reason = f"the driver advises for this GPU: {fact.value}"
            return failed(str(fact.value), reason, f"drain the host, then: {fact.value}", fact)
        return None

    return over_gpus(host, judge, "none").want("recovery action none")


def gpu_xid(_case: Case, host: HostFacts) -> Answer:
    """No GPU error stands in the kernel log since boot; one that concerns the hardware counts as required."""
    wanted = "no Xid since boot"
    none = without_gpus(host)
    if none is not None and none.verdict == "not applicable":
        return none
    fact = host.fact("xid")
    events = [event for event in fact.value or () if not event.get("harmless") and _since_boot(host, event)]
    if events:
        return _judge_xids(events, fact).want(wanted)
    if not fact.ok:
        return unmeasured("the kernel log", fact).want(wanted)
    return passed("none", fact).want(wanted)


def _since_boot(host: HostFacts, event: dict[str, Any]) -> bool:
    """Whether an event is of this boot; one without a time may be."""
    clock, boot, when = host.value("clock"), host.value("boot"), event.get("time")
    began = (boot or {}).get("began")
    if when is None or not began or not clock:
        return True
    return _utc(float(when)) >= str(began)


def _utc(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _judge_xids(events: list[dict[str, Any]], fact: Measured) -> Answer:
    shown = []
    for event in events:
        kind = "SXid" if event.get("kind") == "sxid" else "Xid"
        meaning = f" ({event['meaning']})" if event.get("meaning") else ""
        shown.append(f"{kind} {event.get('code')} at {event.get('pci_address')}{meaning}")
    found = "; ".join(dict.fromkeys(shown))
    grave = [event for event in events if event.get("kind") == "xid" and event.get("code") in GRAVE_XIDS]
    if grave:
        reason = f"the kernel log tells of a fault of the GPU or its links: Xid {grave[0]['code']}"
        answer = failed(found, reason, RESET, fact)
        return Answer(answer.verdict, found, reason, RESET, facts=(fact,), required=True)
    reason = "the kernel log has GPU errors since boot; this kind comes mostly from an application"
    return warned(
        found, reason, "look at what ran then; clear it with a reboot before a measured start", fact
    )


def gpu_clocks(_case: Case, host: HostFacts) -> Answer:
    """No GPU is slowed down by heat or power."""

    def judge(gpu: Gpu) -> Answer | None:
        fact = gpu.fact("clock_event_reasons")
        if not fact.ok:
            return unmeasured("the reasons for lower clocks", fact)
        slow = sorted(SLOWDOWNS & {str(reason) for reason in fact.value})
        if slow:
            reason = f"the GPU runs slower than it could: {', '.join(slow)}"
            return warned(", ".join(slow), reason, "check cooling and power of the host", fact)
        return None

    return over_gpus(host, judge, "no slowdown").want("no slowdown by heat or power")


def gpu_persistence(_case: Case, host: HostFacts) -> Answer:
    """The driver keeps the GPUs initialised."""

    def judge(gpu: Gpu) -> Answer | None:
        fact = gpu.fact("persistence")
        if not fact.ok:
            return unmeasured("persistence mode", fact)
        if not fact.value:
            reason = "without persistence mode the first use of a GPU is slow and settings are lost"
            return warned("off", reason, "enable nvidia-persistenced", fact)
        return None

    return over_gpus(host, judge, "on").want("persistence mode on")


RULES = (
    Rule("gpu.mig", "MIG", REQUIRED, host=gpu_mig, reads=("mig",)),
    Rule("gpu.remap", "row remapping", REQUIRED, host=gpu_remap, reads=("remapping_failed",)),
    Rule("gpu.recovery", "recovery action", REQUIRED, host=gpu_recovery, reads=("recovery_action",)),
    Rule("gpu.ecc", "ECC", ADVISORY, host=gpu_ecc, reads=("ecc",)),
    Rule("gpu.xid", "GPU errors in the kernel log", ADVISORY, host=gpu_xid, reads=("xid",)),
    Rule("gpu.clocks", "GPU clocks", ADVISORY, host=gpu_clocks, reads=("clock_event_reasons",)),
    Rule("gpu.persistence", "persistence mode", ADVISORY, host=gpu_persistence, reads=("persistence",)),
)
