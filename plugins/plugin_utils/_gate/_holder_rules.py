# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about who uses the GPUs (private to the collection, controller only; pure).

A GPU is free, or held by an engine of the launch group. What else holds it is foreign, and what is left of
something that ended is stale; both are named with process, owner, age and memory, and nothing is ever
stopped here.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_holders import stale_reasons
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import name_runtimes
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    failed,
    not_applicable,
    passed,
    undecided,
    unmeasured,
    warned,
    without_gpus,
)

MIB = 1024 * 1024
# Used memory on an idle GPU that nobody holds: the driver's own, which the older NVML call counts as used.
IDLE_BYTES = 1024 * MIB
IDLE_SHARE = 0.02
# States of a container that has no processes.
ENDED = ("created", "exited", "dead", "removing")
WANTED = "GPUs free, or held by an engine of this group"
ASK_OWNER = (
    "ask the owner to end it, or take the host out of the launch group; nothing is stopped by the gate"
)


def gpu_holders(case: Case, host: HostFacts) -> Answer:
    """No foreign or stale process holds a GPU."""
    none = without_gpus(host)
    if none is not None:
        return none.want(WANTED)
    fact = host.fact("holders")
    if fact.value is None:
        return unmeasured("the processes on the GPUs", fact).want(WANTED)
    holders = [holder for holder in fact.value if not holder.get("daemon")]
    own, others = _sort(case, host, holders)
    stale = [(holder, reasons) for holder in others if (reasons := _stale(host, holder))]
    if stale:
        holder, reasons = stale[0]
        reason = f"a left-over process holds GPU memory: {'; '.join(reasons)}"
        return failed(_describe(holder, len(others)), reason, ASK_OWNER, fact).want(WANTED)
    if others:
        reason = "a process that belongs to no engine of this group holds a GPU"
        return failed(_describe(others[0], len(others)), reason, ASK_OWNER, fact).want(WANTED)
    return (_nobody_else(host, own) or passed(_own(own), fact)).want(WANTED)


def _nobody_else(host: HostFacts, own: list[Mapping[str, Any]]) -> Answer | None:
    """Memory in use on a GPU that no visible process holds, or processes that could not be read."""
    unread = [gpu for gpu in host.gpu_list if gpu.answered and not gpu.fact("processes").ok]
    if unread:
        return unmeasured(f"the processes on {unread[0].address}", unread[0].fact("processes"))
    held = {str(entry.get("uuid")) for holder in own for entry in holder.get("gpus", ())}
    for gpu in host.gpu_list:
        used, total = gpu.value("memory_used"), gpu.value("memory_total")
        if used is None or total is None or str(gpu.value("uuid")) in held:
            continue
        if used > max(IDLE_BYTES, 0 if gpu.value("memory_reserved") is not None else total * IDLE_SHARE):
            found = f"{used // MIB} MiB in use on {gpu.address}, held by no visible process"
            reason = "GPU memory is in use, and no process on the host accounts for it"
            return failed(found, reason, "find the holder as root on the host itself; a reboot frees it")
    fact = host.fact("holders")
    if not fact.ok and not all(gpu.fact("processes").ok for gpu in host.gpu_list if gpu.answered):
        return unmeasured("the processes on the GPUs", fact)
    silent = [gpu for gpu in host.gpu_list if not gpu.answered]
    if silent and len(silent) == len(host.gpu_list):
        problem = host.problems[0] if host.problems else "the driver's tools told nothing about any GPU"
        return undecided("not measured", f"no GPU answered: {problem}", "see gpu.lost")
    return None


def _sort(
    case: Case, host: HostFacts, holders: list[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Holders that are engines of the group or allowed, and the others."""
    pids = {pid for engine in host.engines for pid in engine.pids}
    containers = {engine.id for engine in host.engines if engine.id}
    own: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    for holder in holders:
        name = str(holder.get("command") or "")
        allowed = any(fnmatch.fnmatchcase(name, pattern) for pattern in case.options.allowed_processes)
        inside = holder.get("pid") in pids or not containers.isdisjoint(holder.get("container_ids") or ())
        # A process that outlived its container belongs to nothing, also when its command is an engine's.
        left = inside and bool(_outlived(host, holder))
        (own if allowed or (inside and not left) else others).append(holder)
    return own, others


def _outlived(host: HostFacts, holder: Mapping[str, Any]) -> list[str]:
    """Why a holder's container is gone; nothing where that is not known."""
    known = _containers_of(host, holder)
    if known is None:
        return []
    alone = {**holder, "in_proc": True, "state": "", "parent": None, "daemon": None}
    return stale_reasons(alone, *known)


def _containers_of(host: HostFacts, holder: Mapping[str, Any]) -> tuple[list[str], list[str]] | None:
    """The containers that run and those in every state, where the host's list is of the engine that runs a holder."""
    listed = host.value("listed_containers")
    if listed is None:
        return None
    cgroup = "\n".join(str(line) for line in holder.get("cgroup") or ())
    runtimes = {runtime.name for runtime in name_runtimes(cgroup, {}, [])}
    # Kubernetes has an engine of its own, and so has every user who runs a rootless one.
    if not runtimes & {"Docker", "Podman"} or "/user.slice/" in cgroup:
        return None
    running = [str(item["id"]) for item in listed if item.get("state") not in ENDED]
    return running, [str(item["id"]) for item in listed]


def _stale(host: HostFacts, holder: Mapping[str, Any]) -> list[str]:
    """What speaks for a left-over."""
    reasons = stale_reasons(holder, *(_containers_of(host, holder) or (None,)))
    if str(holder.get("command") or "").startswith("VLLM::"):
        reasons.insert(0, "it is a worker of a vLLM that is gone")
    return reasons


def _own(own: list[Mapping[str, Any]]) -> str:
    if not own:
        return "free"
    names = ", ".join(dict.fromkeys(f"{holder.get('command')} ({holder.get('pid')})" for holder in own[:3]))
    return f"held by this group's own: {names}{' ...' if len(own) > 3 else ''}"


def _describe(holder: Mapping[str, Any], count: int) -> str:
    used = [entry.get("memory_used") for entry in holder.get("gpus", ()) if entry.get("memory_used")]
    parts = [f"process {holder.get('pid')} {holder.get('command') or '(unknown command)'}"]
    parts.append(f"of {holder['user']}" if holder.get("user") else "")
    parts.append(f"since {holder['started']}" if holder.get("started") else "")
    parts.append(f"with {sum(used) // MIB} MiB" if used else "")
    cgroup = holder.get("cgroup") or ()
    parts.append(f"in {str(cgroup[0]).rpartition(':')[2][:60]}" if cgroup else "")
    more = f" and {count - 1} more" if count > 1 else ""
    return " ".join(part for part in parts if part) + more


def host_scheduler(_case: Case, host: HostFacts) -> Answer:
    """No scheduler puts variables of its own into an engine."""
    if not host.engines:
        return not_applicable("no engine on this host")
    found: dict[str, list[str]] = {}
    for engine in host.engines:
        for name in engine.environment:
            if name.startswith(("SLURM_", "PMI_", "PMIX_", "OMPI_", "PALS_", "LSB_", "FLUX_", "RAY_JOB")):
                found.setdefault(engine.name, []).append(name)
    if not found:
        return passed("none").want("no scheduler's variables")
    name, variables = next(iter(found.items()))
    shown = ", ".join(sorted(variables)[:4])
    reason = "a scheduler put variables into the engine, which may change ranks, devices or transport"
    remedy = "start the engine outside of the scheduler's job, or unset these variables"
    return warned(f"{name}: {shown}{' ...' if len(variables) > 4 else ''}", reason, remedy).want(
        "no scheduler's variables"
    )


RULES = (
    Rule("gpu.holders", "GPUs not held by others", REQUIRED, host=gpu_holders, reads=("holders",)),
    Rule("engine.scheduler", "scheduler's variables", ADVISORY, host=host_scheduler, reads=("engines",)),
)
