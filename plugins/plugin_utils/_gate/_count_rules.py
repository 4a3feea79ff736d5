# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about which GPUs there are and how many (private to the collection, controller only; pure).

Models are told apart by name, compute capability and memory: a GB300 is no B300, and a workstation has a
GB300 too. GPUs and memory are counted over the launch group, each GPU once by its UUID, also when one host
has two names.
"""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary_hardware import Hardware, kind_of
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Gpu, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    describe_values,
    failed,
    name_hosts,
    not_applicable,
    odd_ones,
    over_gpus,
    passed,
    undecided,
    unmeasured,
    warned,
)

GB = 1e9
OTHER_VENDORS = {"amd": "AMD", "intel": "Intel"}


def gpu_model(case: Case, host: HostFacts) -> Answer:
    """Every GPU of the host is of the wanted model."""
    wanted = case.boundary.value("gpu_model")
    if wanted is None:
        return not_applicable("the boundary names no GPU model")
    answer = _other_vendor(host) or _model(case.hardware, host, str(wanted))
    return answer.want(_describe(case.hardware) or str(wanted))


def _describe(hardware: Hardware | None) -> str:
    if hardware is None:
        return ""
    low, high = hardware.memory_gb
    major, minor = hardware.capability
    return f"{hardware.name}, compute capability {major}.{minor}, {low:g} to {high:g} GB each"


def _other_vendor(host: HostFacts) -> Answer | None:
    """A host with GPUs of another maker is named as such and not judged; one without any fails."""
    vendors = host.fact("vendors")
    if host.gpu_list:
        return None
    if not vendors.ok:
        return unmeasured("the maker of the GPUs", vendors)
    others = [OTHER_VENDORS[name] for name in vendors.value if name in OTHER_VENDORS]
    if "nvidia" in vendors.value:
        return None
    if "amd" in vendors.value:
        reason = "the host has AMD GPUs; this collection measures NVIDIA's and does not judge others"
        return undecided("AMD GPUs", reason, "judge AMD hosts with their vendor's tools", vendors)
    found = f"no GPU on the PCI bus but {', '.join(others)}" if others else "no GPU on the PCI bus"
    reason = "the host has no GPU that could be used"
    return failed(found, reason, "take the host out of the launch group, or repair it", vendors)


def _model(hardware: Hardware | None, host: HostFacts, wanted: str) -> Answer:
    if hardware is None:
        reason = f"the collection does not know what {wanted} looks like on a host"
        return undecided("not judged", reason, "name a hardware of the collection's table in the boundary")

    def judge(gpu: Gpu) -> Answer | None:
        return _judge_model(hardware, gpu)

    names = ", ".join(dict.fromkeys(str(gpu.value("name")) for gpu in host.gpu_list))
    return over_gpus(host, judge, f"{len(host.gpu_list)} x {names}")


def _judge_model(hardware: Hardware, gpu: Gpu) -> Answer | None:
    name, capability, memory = gpu.fact("name"), gpu.fact("compute_capability"), gpu.fact("memory_total")
    if not name.ok:
        return unmeasured("the GPU's name", name)
    if not hardware.names(str(name.value)):
        reason = f"{name.value} is not {hardware.name}"
        return failed(str(name.value), reason, _choose_other(name.value), name)
    wanted = "{}.{}".format(*hardware.capability)
    if not capability.ok:
        return unmeasured("the GPU's compute capability", capability)
    if str(capability.value) != wanted:
        reason = f"{name.value} has compute capability {capability.value}, {hardware.name} has {wanted}"
        return failed(f"{name.value} {capability.value}", reason, _choose_other(name.value), name, capability)
    if not memory.ok:
        return unmeasured("the GPU's memory", memory)
    size = memory.value / GB
    low, high = hardware.memory_gb
    if not low <= size <= high:
        kind = kind_of(str(name.value), size)
        reason = f"a {hardware.name} of this kind has {low:g} to {high:g} GB, this one {size:.0f} GB"
        reason += f": it is a {kind}" if kind else ""
        return failed(f"{name.value} with {size:.0f} GB", reason, _choose_other(name.value), name, memory)
    return None


def _choose_other(name: object) -> str:
    return f"use hosts of the wanted model, or a boundary that is made for {name}"


def seen_gpus(case: Case) -> dict[str, tuple[str, float | None]]:
    """Every GPU of the group that answers, once, by UUID: its first host, and its memory in GB."""
    found: dict[str, tuple[str, float | None]] = {}
    for host in case.measured:
        for gpu in host.gpu_list:
            uuid, memory = gpu.value("uuid"), gpu.value("memory_total")
            if uuid is not None and gpu.answered:
                found.setdefault(str(uuid), (host.name, None if memory is None else memory / GB))
    return found


def _uncounted(case: Case) -> tuple[str, ...]:
    """Hosts whose GPUs are not known. One that is silent beside others is lost, and that is known."""
    hosts = [
        host.name
        for host in case.measured
        if not host.gpus.ok or (host.gpu_list and not any(gpu.answered for gpu in host.gpu_list))
    ]
    return (*(host.name for host in case.missing), *hosts)


def gpu_count(case: Case) -> Answer:
    """The group has the GPUs that the model and the launch need."""
    wanted = case.boundary.value("gpu_count")
    if wanted is None:
        return not_applicable("the boundary states no number of GPUs")
    if case.launch is not None:
        wanted = max(wanted, case.launch.gpus)
    seen = seen_gpus(case)
    per_host = {host.name: 0 for host in case.measured}
    for host, _memory in seen.values():
        per_host[host] += 1
    counts = ", ".join(f"{count} on {name}" for name, count in list(per_host.items())[:6])
    found = f"{len(seen)} GPUs: {counts}{' ...' if len(per_host) > 6 else ''}"
    return _enough_gpus(case, int(wanted), len(seen), found, per_host).want(
        f"{wanted} GPUs in the launch group"
    )


def _enough_gpus(case: Case, wanted: int, count: int, found: str, per_host: dict[str, int]) -> Answer:
    if count >= wanted:
        return passed(found)
    uncounted = _uncounted(case)
    if uncounted:
        reason = f"the GPUs of {name_hosts(uncounted)} are not known, the others have {count} of {wanted}"
        return Answer("undecided", found, reason, "measure these hosts too", hosts=uncounted)
    full = max(per_host.values(), default=0)
    if case.hardware is not None:
        full = max(full, min(case.hardware.gpus_per_host, wanted))
    short = tuple(name for name, number in per_host.items() if number < full)
    reason = f"the launch group has {count} GPUs, {wanted} are needed"
    remedy = "add hosts to the launch group"
    if short:
        reason += f"; fewer than {full} on {name_hosts(short)}"
        remedy = f"bring the missing GPUs of {name_hosts(short)} back, or add hosts to the launch group"
    return Answer("fail", found, reason, remedy, hosts=short)


def gpu_memory(case: Case) -> Answer:
    """The GPUs of the group hold the model."""
    wanted, least = case.boundary.value("memory_gb"), case.boundary.checkpoint_gb
    if wanted is None:
        return not_applicable("the boundary states no memory")
    seen = seen_gpus(case)
    known = sum(memory for _host, memory in seen.values() if memory is not None)
    unread = tuple(dict.fromkeys(host for host, memory in seen.values() if memory is None))
    found = f"{known:.0f} GB on {len(seen)} GPUs"
    target = f"{wanted:g} GB in the launch group"
    if known >= wanted:
        return passed(found).want(target)
    uncounted = tuple(dict.fromkeys((*_uncounted(case), *unread)))
    if uncounted:
        reason = f"the GPU memory of {name_hosts(uncounted)} is not known; of the others it is {known:.0f} GB"
        return Answer("undecided", found, reason, "measure these hosts too", target, hosts=uncounted)
    if least is not None and known >= least:
        reason = (
            f"{known:.0f} GB are less than the recipe's {wanted:g} GB, which is an estimate; the checkpoint "
            f"itself has about {least:g} GB, so that little is left for the cache"
        )
        return warned(found, reason, "add hosts, or expect a small context").want(target)
    reason = f"the model needs {wanted:g} GB of GPU memory, the launch group has {known:.0f} GB"
    return failed(found, reason, "add hosts to the launch group").want(target)


def gpu_even(case: Case) -> Answer:
    """Every host has the same number of GPUs: vLLM takes the same share of each."""
    values = {
        host.name: str(len({gpu.value("uuid") for gpu in host.gpu_list if gpu.answered}))
        for host in case.measured
        if any(gpu.answered for gpu in host.gpu_list)
    }
    wanted = "the same number of GPUs on every host"
    usual, odd = odd_ones(values) if values else ("", ())
    if odd:
        reason = "vLLM takes the same number of GPUs on every host of a launch"
        if usual:
            reason += f"; the odd one is {name_hosts(odd)}"
        found = describe_values({name: f"{count} GPUs" for name, count in values.items()})
        return Answer("fail", found, reason, f"see gpu.lost on {name_hosts(odd)}", wanted, hosts=odd)
    lacking = _uncounted(case)
    if lacking:
        reason = f"the GPUs of {name_hosts(lacking)} are not known"
        return Answer("undecided", "not measured", reason, "measure these hosts too", wanted, hosts=lacking)
    if len(values) < 2:
        one = len(case.hosts) == 1
        return not_applicable("the launch group has one host" if one else "fewer than two hosts have GPUs")
    return passed(f"{usual} GPUs on each of {len(values)} hosts").want(wanted)


def gpu_lost(_case: Case, host: HostFacts) -> Answer:
    """Every GPU on the PCI bus is there for the driver's tools too."""
    wanted = "as many GPUs by NVML and nvidia-smi as on the PCI bus"
    vendors = host.fact("vendors")
    if not host.gpu_list and vendors.ok and "nvidia" not in vendors.value:
        return not_applicable("no NVIDIA GPU on this host; see gpu.model")
    pci = host.counts.get("pci")
    lost = [gpu for gpu in host.gpu_list if gpu.missing_from]
    told = [
        f"{name} {fact.value if fact.ok else fact.outcome}"
        for name, fact in host.counts.items()
        if name in ("pci", "nvml", "nvidia_smi_query")
    ]
    found = "GPUs by source: " + ", ".join(told)
    if lost:
        names = ", ".join(gpu.address for gpu in lost)
        reason = f"{names} is on the bus or was, but not seen by {', '.join(lost[0].missing_from)}"
        remedy = (
            "see the kernel log for Xid lines of this address; drain the host, reboot, replace if it repeats"
        )
        return failed(found, reason, remedy).want(wanted)
    answered = [
        fact for name, fact in host.counts.items() if name in ("nvml", "nvidia_smi_query") and fact.ok
    ]
    failures = [
        fact
        for name, fact in host.counts.items()
        if name in ("nvml", "nvidia_smi_query") and not fact.ok and fact.outcome == "error"
    ]
    if failures and host.gpu_list:
        reason = failures[0].message
        remedy = "read the message; a lost GPU needs a reset or a reboot, libraries of two versions a reboot"
        return failed(found, reason, remedy, *failures).want(wanted)
    if not answered:
        fact = next(
            (host.counts[name] for name in ("nvml", "nvidia_smi_query") if name in host.counts), vendors
        )
        return unmeasured("what the driver's tools list", fact).want(wanted)
    if (
        pci is not None
        and pci.ok
        and any(fact.value is not None and fact.value < pci.value for fact in answered)
    ):
        reason = f"{pci.value} GPUs are on the PCI bus, the driver's tools list fewer"
        return failed(found, reason, "see the kernel log for the missing address", pci).want(wanted)
    return passed(found, *answered).want(wanted)


def twins(case: Case) -> Answer:
    """No two names of the group are one host."""
    owners: dict[str, list[str]] = {}
    for host in case.measured:
        for uuid in host.uuids:
            owners.setdefault(uuid, []).append(host.name)
    groups = {tuple(dict.fromkeys(names)) for names in owners.values() if len(set(names)) > 1}
    if groups:
        pairs = "; ".join(" = ".join(names) for names in sorted(groups))
        reason = f"these names show the same GPUs, which are counted once: {pairs}"
        return warned(pairs, reason, "keep one name of each host in the inventory")
    doubled = [host.name for host in case.measured if len(set(host.uuids)) != len(host.uuids)]
    if doubled:
        reason = f"a GPU is listed twice on {name_hosts(doubled)}; it is counted once"
        return warned(reason, reason, "report it with the record of the host")
    return passed(f"{len(owners)} GPUs, each on one host") if owners else not_applicable("no GPU was read")


RULES = (
    Rule(
        "gpu.model",
        "GPU model",
        REQUIRED,
        host=gpu_model,
        reads=("name", "compute_capability", "memory_total"),
    ),
    Rule("gpu.lost", "all GPUs answer", REQUIRED, host=gpu_lost, reads=("nvml", "pci")),
    Rule("gpu.count", "number of GPUs", REQUIRED, group=gpu_count, reads=("gpus",)),
    Rule("gpu.memory", "GPU memory", REQUIRED, group=gpu_memory, reads=("memory_total",)),
    Rule("gpu.even", "same number on every host", REQUIRED, group=gpu_even, reads=("gpus",)),
    Rule("gpu.twins", "each GPU once", ADVISORY, group=twins, reads=("uuid",)),
)
