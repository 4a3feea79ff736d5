# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what a container gets of its host (private to the collection, controller only; pure).

Devices are compared as sets of UUIDs, for numbers change across the boundary. A container without devices
on a host that has them is told from a broken host and from a filter: after a reload of systemd a container
loses its device cgroup (https://github.com/NVIDIA/nvidia-container-toolkit/issues/48).
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._engines import (
    containers,
    over_engines,
    without_container,
    without_engine,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Engine, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    failed,
    not_applicable,
    passed,
    unmeasured,
    warned,
)

MIB = 1024 * 1024
# Docker's default of 64 MiB is too small for the queues between vLLM's processes.
SHM_LEAST = 1024 * MIB
NVIDIA_MAJOR = 195
NOTHING = ("none", "void", "")
FILTERS = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
RECREATE = (
    "recreate the container, with CDI or named device files, which a reload of systemd does not take away"
)


def container_devices(case: Case, host: HostFacts) -> Answer:
    """A running engine sees the GPUs of its host that it asked for."""
    none = without_engine(case, host)
    if none is not None:
        return none
    wanted = "the UUIDs inside are those asked for"
    running = [engine for engine in host.engines if engine.running]
    if not running:
        return not_applicable("no engine runs on this host")
    if not host.gpus.ok:
        return unmeasured("the list of GPUs", host.gpus).want(wanted)
    answers = [(engine, _devices(engine, set(host.uuids))) for engine in running]
    bad = [(engine, answer) for engine, answer in answers if answer.verdict != "pass"]
    told = "; ".join(dict.fromkeys(answer.found for _engine, answer in answers))
    return over_engines(bad, passed(told)).want(wanted)


def _devices(engine: Engine, on_host: set[str]) -> Answer:
    fact = engine.devices
    if not fact.ok:
        return unmeasured("the devices inside", fact)
    seen: dict[str, Any] = fact.value
    inside = {str(uuid) for uuid in seen.get("uuids") or ()}
    if seen.get("unknown_minors"):
        reason = f"the devices {seen['unknown_minors']} inside belong to no GPU that the driver names"
        return failed(f"{len(inside)} GPUs and unknown ones", reason, RECREATE, fact)
    if inside and _refused_by_cgroup(seen):
        reason = "the device files are there, but the container's cgroup no longer allows them"
        return failed(f"{len(inside)} GPUs, none allowed", reason, RECREATE, fact)
    asked = _asked_for(engine, on_host)
    hidden = [name for name in FILTERS if engine.environment.get(name, "all") in NOTHING]
    if not inside and on_host:
        if hidden:
            value = engine.environment[hidden[0]] or "(empty)"
            reason = f"{hidden[0]}={value} hides the GPUs: the host has {len(on_host)}"
            return failed("0 GPUs", reason, f"unset {hidden[0]}, or name the GPUs", fact)
        if asked is None:
            reason = f"the container did not ask for GPUs; the host has {len(on_host)}"
            return failed("0 GPUs", reason, "create the container with --gpus all", fact)
        reason = (
            f"the host has {len(on_host)} GPUs and the container lost its devices; the host is not broken"
        )
        return failed("0 GPUs", reason, RECREATE, fact)
    if asked is not None and inside != asked:
        reason = f"{len(inside)} GPUs inside, {len(asked)} asked for"
        return failed(f"{len(inside)} of {len(asked)} GPUs", reason, RECREATE, fact)
    return passed(f"{len(inside)} of {len(on_host)} GPUs", fact)


def _refused_by_cgroup(seen: dict[str, Any]) -> bool:
    """Whether the list of allowed devices, where it can be read, lacks the driver's."""
    allowed = (seen.get("cgroup") or {}).get("allowed")
    if not isinstance(allowed, list):
        return False
    return not any(line.startswith(("a ", f"c {NVIDIA_MAJOR}:", "c *:")) for line in map(str, allowed))


def _asked_for(engine: Engine, on_host: set[str]) -> set[str] | None:
    """The UUIDs that a container asked for; None when it asked for none, or by number."""
    if not engine.in_container:
        return None
    for request in engine.gpu_request.get("device_requests") or ():
        identifiers = [str(item) for item in request.get("DeviceIDs") or ()]
        if request.get("Count") == -1 or identifiers == ["all"]:
            return on_host
        if identifiers and all(item.startswith("GPU-") for item in identifiers):
            return set(identifiers)
    if engine.gpu_request.get("modes") and engine.environment.get("NVIDIA_VISIBLE_DEVICES") == "all":
        return on_host
    return None


def visibility(case: Case, host: HostFacts) -> Answer:
    """No variable hides GPUs or names them by number."""
    none = without_engine(case, host)
    if none is not None:
        return none
    wanted = "GPUs not filtered, or named by UUID"
    answers = []
    for engine in host.engines:
        for name in FILTERS:
            value = engine.environment.get(name)
            if value is None or value == "all" or value.startswith("GPU-"):
                continue
            if value in NOTHING:
                answers.append((engine, warned(f"{name}={value}", f"{name} hides all GPUs", f"unset {name}")))
            elif (
                engine.environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" and name == "CUDA_VISIBLE_DEVICES"
            ):
                reason = "CUDA counts in another order than nvidia-smi unless CUDA_DEVICE_ORDER=PCI_BUS_ID"
                answers.append((engine, warned(f"{name}={value}", reason, "name the GPUs by UUID")))
    return over_engines(answers, passed("not filtered")).want(wanted)


def restart_policy(case: Case, host: HostFacts) -> Answer:
    """No policy restarts a failed engine: it would repeat the fault and bury the first one."""
    none = without_container(case, host)
    if none is not None:
        return none
    answers = []
    for engine in containers(host):
        if engine.restart_policy not in ("no", ""):
            reason = "a restart repeats the fault, and the first one is buried in the log"
            remedy = "create the container with --restart no for a measured start"
            answers.append((engine, warned(engine.restart_policy, reason, remedy)))
    return over_engines(answers, passed("no")).want("restart policy no")


def shared_memory(case: Case, host: HostFacts) -> Answer:
    """The processes of an engine have room to talk to each other."""
    none = without_container(case, host)
    if none is not None:
        return none
    answers, told = [], []
    for engine in containers(host):
        if str(engine.limits.get("IpcMode") or "").startswith("host"):
            shm = host.fact("shm")
            size = shm.value.get("total") if shm.ok and isinstance(shm.value, dict) else None
            where = "the host's /dev/shm"
        else:
            size, where = engine.limits.get("ShmSize"), "/dev/shm"
        if not isinstance(size, int) or size <= 0:
            fact = Measured(None, ABSENT, "inspect", "no size was read")
            answers.append((engine, unmeasured(f"the size of {where}", fact)))
            continue
        told.append(f"{size // MIB} MiB ({where})")
        if size < SHM_LEAST:
            reason = f"{where} has {size // MIB} MiB; the processes of one engine share more than that"
            answers.append((engine, failed(f"{size // MIB} MiB", reason, "use --ipc host or --shm-size 16g")))
    return over_engines(answers, passed("; ".join(dict.fromkeys(told)))).want(
        "1 GiB or more of shared memory"
    )


def locked_memory(case: Case, host: HostFacts) -> Answer:
    """RDMA and pinned buffers may lock the memory that they need."""
    none = without_engine(case, host)
    if none is not None:
        return none
    answers = []
    engine_limits = _engine_default(host)
    for engine in containers(host):
        limit = _memlock(engine)
        if limit is None:
            limit = engine_limits
        if limit is None:
            fact = Measured(
                None, ABSENT, "inspect", "neither the container nor the container engine tells it"
            )
            answers.append((engine, unmeasured("the limit of locked memory", fact)))
        elif limit != -1:
            reason = (
                "locked memory is limited: RDMA registration fails beyond it, and NCCL falls back or stops"
            )
            answers.append((engine, warned(f"{limit} bytes", reason, "use --ulimit memlock=-1")))
    return over_engines(answers, passed("unlimited")).want("locked memory unlimited")


def _memlock(engine: Engine) -> int | None:
    for limit in engine.limits.get("Ulimits") or ():
        if limit.get("Name") == "memlock":
            return int(limit.get("Hard", 0))
    return None


def _engine_default(host: HostFacts) -> int | None:
    """What containers inherit from the container engine."""
    limits = host.value("limits") or {}
    for name in ("dockerd", "containerd"):
        found = (limits.get(name) or {}).get("Max locked memory")
        if found:
            return -1 if str(found[-1]) == "unlimited" else int(found[-1])
    return None


def network_mode(case: Case, host: HostFacts) -> Answer:
    """An engine over several hosts uses the host's network."""
    none = without_engine(case, host)
    if none is not None:
        return none
    if len(case.hosts) < 2:
        return not_applicable("the launch group has one host")
    answers = []
    for engine in containers(host):
        mode = str(engine.limits.get("network") or "")
        if mode != "host":
            reason = "ranks on other hosts reach published ports only, and interfaces have other names inside"
            answers.append((engine, warned(mode or "not told", reason, "use --network host")))
    return over_engines(answers, passed("host")).want("the host's network")


RULES = (
    Rule(
        "container.devices", "GPUs inside the container", REQUIRED, host=container_devices, reads=("devices",)
    ),
    Rule("container.visibility", "visibility variables", ADVISORY, host=visibility, reads=("engines",)),
    Rule("container.restart", "restart policy", ADVISORY, host=restart_policy, reads=("engines",)),
    Rule("container.shm", "shared memory", REQUIRED, host=shared_memory, reads=("engines",)),
    Rule("container.memlock", "locked memory", ADVISORY, host=locked_memory, reads=("engines",)),
    Rule("container.network", "network of the container", ADVISORY, host=network_mode, reads=("engines",)),
)
