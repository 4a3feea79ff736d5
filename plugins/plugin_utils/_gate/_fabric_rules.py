# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about NVLink between GPUs and hosts (private to the collection, controller only; pure).

State 3 alone is no proof: its status, the health and, on racks, the cluster's UUID count too
(https://github.com/Azure/azhpc-images/issues/506). On one board with NVSwitch the UUID is zero, and that is
normal. Clique 0 is a clique like any other. IMEX belongs on racks only: https://docs.nvidia.com/multi-node-
nvlink-systems/imex-guide/
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary_hardware import NVSWITCH, RACK
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._driver_rules import loaded_driver
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Gpu, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    equal_over,
    failed,
    name_hosts,
    not_applicable,
    over_gpus,
    passed,
    unmeasured,
    warned,
)

RESTART_FABRIC = "repair the fabric (fabric manager, NVLink subnet manager, partition), then reboot the host"
NO_MEMBER = "no host has GPUs of the boundary's model; see gpu.model"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"


def _kind(case: Case) -> str:
    return case.hardware.fabric if case.hardware else ""


def _without_fabric(case: Case) -> Answer | None:
    if case.hardware is None:
        return not_applicable("the boundary's hardware is not in the collection's table")
    if not case.hardware.fabric:
        return not_applicable(f"{case.hardware.id} has no NVSwitch fabric")
    return None


def _wanted_gpu(case: Case, gpu: Gpu) -> bool:
    """Whether the GPU is of the boundary's model; another one is a matter of gpu.model."""
    name = gpu.value("name")
    return name is None or case.hardware is None or case.hardware.names(str(name))


def fabric_state(case: Case, host: HostFacts) -> Answer:
    """Every GPU has joined the fabric, and the fabric is well."""
    none = _without_fabric(case)
    if none is not None:
        return none
    other = _other_gpus(case, host)
    if other is not None:
        return other

    def judge(gpu: Gpu) -> Answer | None:
        return _judge_state(gpu, _kind(case) == RACK)

    return over_gpus(host, judge, "completed").want("fabric completed, healthy")


def _judge_state(gpu: Gpu, rack: bool) -> Answer | None:
    state, status, health = gpu.fact("fabric_state"), gpu.fact("fabric_status"), gpu.fact("fabric_health")
    if not state.ok:
        return unmeasured("the state of the fabric", state)
    words = str(state.value).lower()
    if words != "completed":
        reason = (
            f"the GPU has not joined the NVLink fabric ({words}): CUDA error 802 or a hanging NCCL follows"
        )
        return failed(words, reason, RESTART_FABRIC, state)
    if not status.ok:
        return unmeasured("the status of the fabric", status)
    if str(status.value).lower() not in ("success", "0"):
        reason = f"the fabric says completed, yet its status is {status.value}"
        return failed(f"completed, {status.value}", reason, RESTART_FABRIC, state, status)
    if rack and _is_zero(gpu.fact("fabric_cluster_uuid")):
        reason = (
            "the fabric says completed, yet the tray belongs to no NVLink domain (the cluster's UUID is zero)"
        )
        return failed("completed, no domain", reason, RESTART_FABRIC, state, gpu.fact("fabric_cluster_uuid"))
    if health.ok and str(health.value).lower() == "unhealthy":
        return failed("unhealthy", "the fabric calls the GPU's links unhealthy", RESTART_FABRIC, health)
    if health.ok and str(health.value).lower().startswith("limited"):
        return warned(str(health.value), "the fabric works with limited capacity", RESTART_FABRIC, health)
    return None


def _is_zero(fact: Measured) -> bool:
    return fact.ok and not str(fact.value).replace("-", "").strip("0")


def fabric_domain(case: Case) -> Answer:
    """All trays of the group stand in one NVLink domain."""
    none = _without_fabric(case)
    if none is not None:
        return none
    if _kind(case) != RACK:
        return not_applicable("the hosts of this hardware share no NVLink")
    wanted = "one cluster UUID and one clique over all hosts"
    if len(case.hosts) < 2:
        return not_applicable("the launch group has one host")
    values: dict[str, str] = {}
    unread: dict[str, Measured] = {}
    members = _members(case)
    if case.measured and not members:
        return not_applicable(NO_MEMBER)
    for host in members:
        told = [_domain(gpu) for gpu in host.gpu_list if gpu.answered]
        known = {f"domain {fact.value[0]} clique {fact.value[1]}" for fact in told if fact.ok}
        if not told or not all(fact.ok for fact in told):
            silent = Measured(None, ABSENT, "", "no GPU answered; see gpu.lost")
            unread[host.name] = next((fact for fact in told if not fact.ok), silent)
        elif len(known) > 1:
            reason = f"the GPUs of {host.name} stand in different domains"
            answer = failed("; ".join(sorted(known)), reason, RESTART_FABRIC)
            return Answer(answer.verdict, answer.found, reason, RESTART_FABRIC, wanted, hosts=(host.name,))
        else:
            values[host.name] = next(iter(known))
    remedy = "use trays of one NVLink domain, or repair the partition; else NCCL has no NVLink between them"
    return equal_over(case, "the NVLink domain", values, unread, remedy).want(wanted)


def _domain(gpu: Gpu) -> Measured:
    cluster, clique = gpu.fact("fabric_cluster_uuid"), gpu.fact("fabric_clique_id")
    if gpu.value("fabric_state") not in (None, "completed"):
        return Measured(None, ABSENT, cluster.source, "the fabric is not completed; see fabric.state")
    if not cluster.ok:
        return cluster
    return Measured((cluster.value, clique.value), source=cluster.source) if clique.ok else clique


def fabric_manager(case: Case, host: HostFacts) -> Answer:
    """On boards with NVSwitch the fabric manager runs, in the driver's own version."""
    none = _without_fabric(case)
    if none is not None:
        return none
    if _kind(case) != NVSWITCH:
        return not_applicable("on racks the fabric manager runs on the switch trays, not here")
    wanted = "nvidia-fabricmanager active, of the driver's version"
    active, fact = service_active(host, "nvidia-fabricmanager")
    completed = [gpu.value("fabric_state") == "completed" for gpu in host.gpu_list if gpu.answered]
    if active is None:
        return unmeasured("the state of the fabric manager", fact).want(wanted)
    if not active:
        if completed and all(completed):
            return not_applicable("the fabric is completed without a manager here, as in a virtual machine")
        reason = "the fabric manager does not run; CUDA then fails with error 802"
        return failed("not active", reason, "start nvidia-fabricmanager, see its log", fact).want(wanted)
    return (_manager_version(host, fact) or passed("active", fact)).want(wanted)


def _manager_version(host: HostFacts, fact: Measured) -> Answer | None:
    """Fabric manager and driver must be of one version to the last digit."""
    driver = loaded_driver(host)
    for package in host.value("packages") or ():
        name, version = str(package.get("name", "")), str(package.get("version", ""))
        if "fabricmanager" in name.replace("-", "").lower() and driver.ok:
            if str(driver.value) not in version:
                reason = f"fabric manager {version} does not fit the driver {driver.value}"
                return failed(
                    version, reason, "install the fabric manager of the driver's version", fact, driver
                )
            return passed(f"active, {version}", fact, driver)
    return None


def service_active(host: HostFacts, name: str) -> tuple[bool | None, Measured]:
    """Whether a service runs, by systemd or by its process; None when neither could be asked."""
    units, daemons = host.fact("units"), host.fact("daemons")
    if units.ok:
        for unit in units.value:
            if str(unit.get("name", "")).removesuffix(".service") == name:
                return unit.get("active") == "active", units
    if daemons.ok:
        return any(daemon.get("name") == name for daemon in daemons.value), daemons
    return (False, units) if units.ok else (None, daemons if daemons.outcome != ABSENT else units)


def _other_gpus(case: Case, host: HostFacts) -> Answer | None:
    """Why a host without the boundary's GPUs has nothing to judge here."""
    if host.gpus.ok and not any(_wanted_gpu(case, gpu) for gpu in host.gpu_list):
        return not_applicable("the host has no GPU of the boundary's model; see gpu.model")
    return None


def _members(case: Case) -> list[HostFacts]:
    """The hosts with GPUs of the boundary's model."""
    return [host for host in case.measured if _other_gpus(case, host) is None]


def _without_imex(case: Case) -> Answer | None:
    if _kind(case) != RACK:
        return not_applicable("IMEX belongs on racks with NVLink between hosts")
    if len(case.hosts) < 2:
        return not_applicable("the launch group has one host: nothing is shared between hosts")
    return None


def imex_service(case: Case, host: HostFacts) -> Answer:
    """IMEX runs, and all nodes of its list are ready."""
    none = _without_imex(case) or _other_gpus(case, host)
    if none is not None:
        return none
    wanted = "nvidia-imex active, all nodes READY"
    active, fact = service_active(host, "nvidia-imex")
    remedy = "start nvidia-imex on all trays with one list of nodes (nodes_config.cfg)"
    if active is False:
        reason = "IMEX does not run: NCCL finds the rack's NVLink and then cannot use it"
        return failed("not active", reason, remedy, fact).want(wanted)
    status = host.fact("imex_status")
    if not status.ok:
        return unmeasured("the state of the IMEX domain", status).want(wanted)
    nodes = status.value.get("nodes") if isinstance(status.value, dict) else None
    if not isinstance(nodes, dict) or not nodes:
        reason = "nvidia-imex-ctl told no nodes"
        return Answer("undecided", "not understood", reason, "look at nvidia-imex-ctl -N", wanted, (status,))
    bad = [str(node.get("host")) for node in nodes.values() if str(node.get("status")).upper() != "READY"]
    if bad:
        reason = f"IMEX is not ready on {name_hosts(bad)}"
        return failed(f"{len(nodes) - len(bad)} of {len(nodes)} ready", reason, remedy, status).want(wanted)
    return passed(f"{len(nodes)} of {len(nodes)} ready", fact, status).want(wanted)


def imex_channel(case: Case, host: HostFacts) -> Answer:
    """The IMEX channel is there, by which processes join the domain."""
    none = _without_imex(case) or _other_gpus(case, host)
    if none is not None:
        return none
    fact = host.fact("imex_channels")
    if not fact.ok:
        return unmeasured("the IMEX channels", fact).want(CHANNEL)
    if CHANNEL not in fact.value:
        reason = "there is no IMEX channel 0; it is not made by default and is gone after a reboot"
        remedy = (
            "create the channel (nvidia-modprobe -c 0, or the module's option NVreg_CreateImexChannel0=1)"
        )
        return failed("no channel 0", reason, remedy, fact).want(CHANNEL)
    return passed("channel0", fact).want(CHANNEL)


def imex_nodes(case: Case) -> Answer:
    """All hosts have the same list of IMEX nodes."""
    none = _without_imex(case)
    if none is not None:
        return none
    values: dict[str, str] = {}
    unread: dict[str, Measured] = {}
    members = _members(case)
    if case.measured and not members:
        return not_applicable(NO_MEMBER)
    for host in members:
        fact = host.fact("imex_nodes")
        nodes: Any = fact.value.get("nodes") if fact.ok and isinstance(fact.value, dict) else None
        if nodes is None:
            unread[host.name] = (
                fact if not fact.ok else Measured(None, ABSENT, fact.source, "no list of nodes")
            )
        else:
            values[host.name] = ", ".join(sorted(str(node) for node in nodes))
    remedy = "write the same nodes_config.cfg on all trays and restart IMEX there"
    return equal_over(case, "the list of IMEX nodes", values, unread, remedy).want("one list of IMEX nodes")


RULES = (
    Rule(
        "fabric.state", "NVLink fabric", REQUIRED, host=fabric_state, reads=("fabric_state", "fabric_status")
    ),
    Rule("fabric.domain", "one NVLink domain", REQUIRED, group=fabric_domain, reads=("fabric_cluster_uuid",)),
    Rule("fabric.manager", "fabric manager", ADVISORY, host=fabric_manager, reads=("units", "daemons")),
    Rule("imex.service", "IMEX service", REQUIRED, host=imex_service, reads=("imex_status",)),
    Rule("imex.channel", "IMEX channel", REQUIRED, host=imex_channel, reads=("imex_channels",)),
    Rule("imex.nodes", "IMEX nodes", ADVISORY, group=imex_nodes, reads=("imex_nodes",)),
)
