# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs there are and how many: by name, capability and memory, over the group, each once."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    bad,
    boundary,
    changed,
    document,
    fact,
    judged,
    verdict,
)


def test_t32_two_trays_have_eight() -> None:
    result = judged([document(1), document(2)])
    assert (verdict(result, "gpu.count"), verdict(result, "gpu.memory")) == ("pass", "pass")


def test_t32_one_tray_has_not() -> None:
    result = judged([document(1)])
    finding = about(result, "gpu.count")
    assert finding.answer.verdict == "fail"
    assert "has 4 GPUs, 8 are needed" in finding.answer.reason
    assert result.verdict == "fail"


def test_t32_four_and_three_fail_and_name_the_host() -> None:
    result = judged([document(1), document(2, count=3)])
    finding = about(result, "gpu.count")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n2",))
    assert finding.answer.found == "7 GPUs: 4 on n1, 3 on n2"
    assert result.odd_hosts() == {"n2": ["gpu.count"]}
    assert verdict(result, "gpu.even") == "fail"


def test_t32_eight_b300_fail_on_the_model_against_gb300() -> None:
    result = judged([document(1, "b300")])
    finding = about(result, "gpu.model", "n1")
    assert finding.answer.verdict == "fail"
    assert "NVIDIA B300 SXM6 AC is not GB300" in finding.answer.reason
    assert bad(result) == {"gpu.model": "fail"}


def test_eight_b300_pass_their_own_boundary() -> None:
    assert judged([document(1, "b300")], boundary("b300")).verdict == "pass"


def test_gb300_is_no_b300() -> None:
    assert verdict(judged([document(1)], boundary("b300")), "gpu.model", "n1") == "fail"


def test_t32_a_host_under_two_names_counts_once() -> None:
    result = judged([document(1), document(1)])
    assert verdict(result, "gpu.count") == "fail"
    finding = about(result, "gpu.twins")
    assert finding.answer.verdict == "warn"
    assert finding.answer.found == "n1 = n2"


def test_a_gpu_that_is_listed_twice_counts_once() -> None:
    made = document(1)
    made["gpu"]["gpus"].append(made["gpu"]["gpus"][0])
    result = judged([made, document(2)], boundary(gpu_count=9))
    assert verdict(result, "gpu.count") == "fail"
    assert verdict(result, "gpu.twins") == "warn"


def test_a_workstation_has_a_gb300_too() -> None:
    made = changed(document(1), gpu__gpus__0__identity__memory_total=fact(252_000_000_000))
    finding = about(judged([made, document(2)]), "gpu.model", "n1")
    assert finding.answer.verdict == "fail"
    assert "it is a dgx_station_gb300" in finding.answer.reason


@pytest.mark.parametrize("what", ["name", "compute_capability", "memory_total"])
@pytest.mark.parametrize("outcome", ["absent", "error", "timeout", "denied"])
def test_t29_an_unmeasured_model_is_undecided(what: str, outcome: str) -> None:
    changes: dict[str, Any] = {f"gpu__gpus__1__identity__{what}": fact(None, outcome, "no answer")}
    result = judged([changed(document(1), **changes), document(2)])
    assert verdict(result, "gpu.model", "n1") == "undecided"
    assert verdict(result, "gpu.model", "n2") == "pass"
    assert result.verdict == "undecided"


def test_t29_a_name_that_nobody_knows_is_no_pass() -> None:
    made = changed(document(1), gpu__gpus__0__identity__name=fact("NVIDIA Graphics Device"))
    assert verdict(judged([made, document(2)]), "gpu.model", "n1") == "fail"


def test_t29_hardware_that_the_collection_does_not_know_is_undecided() -> None:
    result = judged([document(1)], boundary("rubin", gpu_count=4))
    assert verdict(result, "gpu.model", "n1") == "undecided"


def test_t29_no_list_of_gpus_is_not_zero_gpus() -> None:
    made = document(1)
    made["gpu"]["gpus"] = []
    made["gpu"]["counts"] = {
        name: fact(None, "timeout", "no end within 60 s") for name in made["gpu"]["counts"]
    }
    result = judged([made, document(2)])
    assert verdict(result, "gpu.count") == verdict(result, "gpu.memory") == "undecided"
    assert about(result, "gpu.count").hosts == ("n1",)
    assert result.verdict == "undecided"


def test_an_amd_host_is_named_and_not_judged() -> None:
    made = document(1)
    made["gpu"].update(gpus=[], vendors=fact(["amd"]))
    made["gpu"]["counts"] = {"pci": fact(0), "nvml": fact(None, "absent", "no library")}
    result = judged([made])
    finding = about(result, "gpu.model", "n1")
    assert (finding.answer.verdict, finding.answer.found) == ("undecided", "AMD GPUs")
    assert verdict(result, "driver.branch", "n1") == "not applicable"
    assert not result.good


def test_a_host_without_any_gpu_fails() -> None:
    made = document(1)
    made["gpu"].update(gpus=[], vendors=fact([]))
    made["gpu"]["counts"] = {"pci": fact(0), "nvml": fact(None, "absent", "no library")}
    result = judged([made, document(2)])
    assert verdict(result, "gpu.model", "n1") == "fail"
    assert about(result, "gpu.count").hosts == ("n1",)


def lost(made: dict[str, Any]) -> dict[str, Any]:
    """The first GPU fell off the bus: the module still lists it, the driver's tools do not."""
    broken = made["gpu"]["gpus"][0]
    gone = fact(None, "absent", "no source that has it lists this GPU")
    broken["missing_from"] = ["gpu.nvml"]
    for section in ("identity", "state", "now"):
        broken[section] = dict.fromkeys(broken[section], gone)
    broken["identity"]["uuid"] = fact("GPU-lost", source="/proc/driver/nvidia/gpus")
    broken["processes"] = gone
    return made


def test_a_lost_gpu_is_named_and_not_counted() -> None:
    result = judged([lost(document(1)), document(2)])
    finding = about(result, "gpu.lost", "n1")
    assert finding.answer.verdict == "fail"
    assert "0000:06:00.0" in finding.answer.reason
    assert about(result, "gpu.count").hosts == ("n1",)
    assert "3 on n1" in about(result, "gpu.count").answer.found


def test_t36_fewer_by_the_driver_than_on_the_bus_fails_whatever_the_kernel_says() -> None:
    made = document(1, "b300", count=7)
    made["gpu"]["counts"]["pci"] = fact(8)
    harmless = {"kind": "not supported", "harmless": True, "code": None, "pci_address": None, "time": None}
    made["gpu"]["xid"] = fact([harmless])
    result = judged([made], boundary("b300"))
    assert verdict(result, "gpu.lost", "n1") == "fail"
    assert verdict(result, "gpu.xid", "n1") == "pass"


def test_t36_a_harmless_line_alone_decides_nothing() -> None:
    harmless = {"kind": "not supported", "harmless": True, "code": None, "pci_address": None, "time": None}
    made = changed(document(1), gpu__xid=fact([harmless]))
    assert judged([made, document(2)]).verdict == "pass"


@pytest.mark.parametrize(
    ("memory", "expected"),
    [(210, "pass"), (200, "warn"), (190, "fail")],  # times 8: 1680, 1600, 1520 GB
)
def test_memory_between_the_checkpoint_and_the_estimate_is_a_warning(memory: int, expected: str) -> None:
    documents = [document(1), document(2)]
    for made in documents:
        for entry in made["gpu"]["gpus"]:
            entry["identity"]["memory_total"] = fact(memory * 10**9)
    assert verdict(judged(documents), "gpu.memory") == expected


def test_two_hosts_with_seven_each_are_even() -> None:
    result = judged([document(1, "h200", 7), document(2, "h200", 7)], boundary("h200"))
    assert verdict(result, "gpu.even") == "pass"
    assert verdict(result, "gpu.count") == "pass"  # 14 of 12


def test_eight_and_seven_are_not() -> None:
    documents = [document(1, "h200"), document(2, "h200", 7), document(3, "h200")]
    finding = about(judged(documents, boundary("h200")), "gpu.even")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n2",))


def test_t29_hosts_without_gpus_agree_on_nothing() -> None:
    bare = [
        changed(
            document(n, count=0),
            gpu__vendors=fact([]),
            gpu__driver__loaded=fact(None, "absent", "no module"),
            gpu__driver__told_by_the_driver=fact(None, "absent", "no library"),
        )
        for n in (1, 2)
    ]
    result = judged(bare)
    assert verdict(result, "driver.equal") == "not applicable"
    assert about(result, "driver.equal").answer.reason == "fewer than two hosts have the driver"
    assert about(result, "gpu.even").answer.reason == "fewer than two hosts have GPUs"
    assert result.verdict == "fail"
