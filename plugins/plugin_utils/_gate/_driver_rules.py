# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver and its CUDA (private to the collection, controller only; pure).

A driver branch is a floor, not a pass: the CUDA of the image may still be newer than what the driver
offers. Minor versions of one major run with restrictions (https://docs.nvidia.com/deploy/cuda-
compatibility/minor-version-compatibility.html).
"""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured, first_ok
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import as_version
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    equal_over,
    failed,
    not_applicable,
    passed,
    undecided,
    unmeasured,
    warned,
)

UPGRADE = (
    "upgrade the driver of the host to the branch {branch} or newer and reboot, or build vLLM yourself for "
    "the CUDA of this driver (that is not the official image and is marked as such)"
)
FINISH_AND_REBOOT = "finish the upgrade of all driver packages, then reboot the host"


def no_driver_here(host: HostFacts) -> Answer | None:
    """Why there is no driver to judge; None when a driver is to be expected."""
    vendors = host.fact("vendors")
    if vendors.ok and "nvidia" not in vendors.value and not host.gpu_list:
        return not_applicable("no NVIDIA GPU on this host; see gpu.model")
    return None


def loaded_driver(host: HostFacts) -> Measured:
    """The version of the loaded driver, from the kernel or, failing that, from the driver itself."""
    return first_ok(host.fact("driver"), host.fact("driver_told"))


def branch_of(version: str) -> int | None:
    """580 of 580.159.04."""
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else None


def driver_branch(case: Case, host: HostFacts) -> Answer:
    """The loaded driver is of the wanted branch or newer."""
    wanted = case.boundary.value("driver_branch")
    if wanted is None:
        return not_applicable("the boundary states no driver branch")
    none = no_driver_here(host)
    if none is not None:
        return none
    fact = loaded_driver(host)
    if not fact.ok:
        return unmeasured("the version of the loaded driver", fact).want(f"r{wanted} or newer")
    branch = branch_of(str(fact.value))
    if branch is None:
        return undecided(str(fact.value), "the driver's version is not understood", "report it", fact)
    if branch < wanted:
        reason = f"the driver is of the branch r{branch}, the model's image needs r{wanted} or newer"
        answer = failed(str(fact.value), reason, UPGRADE.format(branch=wanted), fact)
    else:
        answer = passed(str(fact.value), fact)
    return answer.want(f"r{wanted} or newer")


def driver_agreement(_case: Case, host: HostFacts) -> Answer:
    """What new processes load is what the kernel has loaded."""
    none = no_driver_here(host)
    if none is not None:
        return none
    wanted = "loaded module = user libraries"
    fact = host.fact("driver_agreement")
    state = (fact.value or {}).get("state") if isinstance(fact.value, dict) else None
    told = _three_views(host)
    meaning = fact.value.get("meaning", "") if isinstance(fact.value, dict) else ""
    if state == "user libraries differ":
        return failed(told, meaning, FINISH_AND_REBOOT, fact).want(wanted)
    if state in ("no driver", "not loaded") and fact.ok:
        remedy = "install the driver" if state == "no driver" else "find out why the module is not loaded"
        return failed(told or state, meaning, remedy, fact).want(wanted)
    if not fact.ok or state in (None, "unmeasured"):
        shown = fact if not fact.ok else Measured(None, "absent", fact.source, meaning)
        return unmeasured("the agreement of loaded module and user libraries", shown).want(wanted)
    return passed(told, fact).want(wanted)


def driver_on_disk(_case: Case, host: HostFacts) -> Answer:
    """The module that the next boot loads is the loaded one."""
    none = no_driver_here(host)
    if none is not None:
        return none
    wanted = "module on disk = loaded module"
    loaded, disk = loaded_driver(host), host.fact("driver_on_disk")
    for what, fact in (("the loaded driver", loaded), ("the module on disk", disk)):
        if not fact.ok:
            return unmeasured(what, fact).want(wanted)
    if loaded.value != disk.value:
        reason = (
            "another driver takes over at the next boot; engines that run now go on, later starts may not"
        )
        return warned(_three_views(host), reason, FINISH_AND_REBOOT, loaded, disk).want(wanted)
    return passed(str(disk.value), loaded, disk).want(wanted)


def _three_views(host: HostFacts) -> str:
    loaded, disk = loaded_driver(host), host.fact("driver_on_disk")
    libraries = host.value("driver_libraries") or {}
    versions = sorted({str(version) for version in libraries.values() if version})
    parts = [f"loaded {loaded.value}" if loaded.ok else "", f"on disk {disk.value}" if disk.ok else ""]
    parts.append(f"user libraries {', '.join(versions)}" if versions else "")
    return "; ".join(part for part in parts if part)


def driver_cuda(case: Case, host: HostFacts) -> Answer:
    """The CUDA that the driver offers reaches the one that the model's build needs."""
    wanted = case.boundary.value("cuda")
    if wanted is None:
        return not_applicable("the boundary states no CUDA version")
    none = no_driver_here(host)
    if none is not None:
        return none
    fact = first_ok(host.fact("cuda_ceiling"), host.fact("cuda_shown"))
    if not fact.ok:
        return unmeasured("the CUDA version that the driver offers", fact).want(f"CUDA {wanted} or newer")
    return compare_cuda(str(fact.value), str(wanted), "the model's build", fact).want(
        f"CUDA {wanted} or newer"
    )


def compare_cuda(ceiling: str, needed: str, whose: str, *facts: Measured) -> Answer:
    """A driver's CUDA against one that is needed: an older major fails, an older minor is a warning."""
    have, need = as_version(ceiling), as_version(needed)
    if not have or not need:
        return undecided(
            f"{ceiling} against {needed}", "a CUDA version is not understood", "report it", *facts
        )
    if have >= need:
        return passed(f"driver offers CUDA {ceiling}", *facts)
    found = f"driver offers CUDA {ceiling}, {whose} has {needed}"
    if have[0] == need[0]:
        reason = (
            f"{whose} has CUDA {needed}, newer than the {ceiling} of the driver: compiled kernels run, code "
            "that is compiled at run time (PTX) may not"
        )
        remedy = f"use a driver that offers CUDA {needed}, or an image with CUDA {ceiling}"
        return warned(found, reason, remedy, *facts)
    reason = f"the driver offers CUDA {ceiling} only, {whose} needs {needed}"
    return failed(found, reason, UPGRADE.format(branch=_branch_for(need[0])), *facts)


def _branch_for(major: int) -> str:
    """The first branch of a CUDA major: https://docs.nvidia.com/deploy/cuda-compatibility/"""
    return {12: "r525", 13: "r580"}.get(major, f"that offers CUDA {major}")


def driver_equal(case: Case) -> Answer:
    """All hosts of the group have the same driver."""
    facts = {host.name: loaded_driver(host) for host in case.measured if no_driver_here(host) is None}
    values = {name: str(fact.value) for name, fact in facts.items() if fact.ok}
    unread = {name: fact for name, fact in facts.items() if not fact.ok}
    return equal_over(case, "the driver", values, unread, "bring all hosts to one driver version").want(
        "one driver version in the launch group"
    )


RULES = (
    Rule("driver.branch", "driver branch", REQUIRED, host=driver_branch, reads=("driver",)),
    Rule(
        "driver.agreement",
        "loaded module and user libraries",
        REQUIRED,
        host=driver_agreement,
        reads=("driver_agreement",),
    ),
    Rule(
        "driver.on_disk", "module for the next boot", ADVISORY, host=driver_on_disk, reads=("driver_on_disk",)
    ),
    Rule("driver.cuda", "CUDA of the driver", REQUIRED, host=driver_cuda, reads=("cuda_ceiling",)),
    Rule("driver.equal", "same driver on all hosts", REQUIRED, group=driver_equal, reads=("driver",)),
)
