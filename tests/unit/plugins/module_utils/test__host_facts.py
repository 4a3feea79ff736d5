# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any, Dict

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _host_facts, _kernel_log, _packages
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import plain
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe

NOW = 1796070315.0
XID = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def host_of(answers: Dict[str, Probe]) -> Dict[str, Any]:
    document = plain(_host_facts.host_document(answers))
    json.dumps(document)
    return document  # type: ignore[no-any-return]


def good(name: str, value: Any) -> Dict[str, Probe]:
    return {name: Probe(name, "ok", value, source=name)}


def bad(name: str, outcome: str) -> Dict[str, Probe]:
    return {name: Probe(name, outcome, message="why not", source=name)}


DPKG = _packages.parse_dpkg(
    "nvidia-driver-580\t580\tamd64\tinstalled\thold\ntzdata\t1\tall\tinstalled\tinstall\n"
)


def test_packages_of_the_tool_that_the_host_has() -> None:
    packages = host_of({**good("packages.dpkg", DPKG), **bad("packages.rpm", "absent")})["packages"]
    assert packages["count"]["value"] == 2
    assert [row["name"] for row in packages["relevant"]["value"]] == ["nvidia-driver-580"]
    assert packages["held"]["value"] == ["nvidia-driver-580"]
    assert packages["unfinished"]["value"] == []


@pytest.mark.parametrize("outcome", ["timeout", "error", "denied"])
def test_t1_a_package_tool_that_failed_leaves_the_packages_unmeasured(outcome: str) -> None:
    packages = host_of({**bad("packages.dpkg", outcome), **bad("packages.rpm", "absent")})["packages"]
    for name in ("count", "relevant", "held", "unfinished"):
        assert (packages[name]["value"], packages[name]["outcome"]) == (None, outcome)


def test_a_host_without_package_tools() -> None:
    packages = host_of({**bad("packages.dpkg", "absent"), **bad("packages.rpm", "absent")})["packages"]
    assert packages["count"]["outcome"] == "absent"


@pytest.mark.parametrize(
    ("answers", "value", "outcome"),
    [
        (
            good("packages.reboot_required", "linux-base\nlinux-image\nlinux-base\n"),
            ["linux-base", "linux-image"],
            "ok",
        ),
        (bad("packages.reboot_required", "absent"), [], "ok"),
        (bad("packages.reboot_required", "denied"), None, "denied"),
        ({}, None, "skipped"),
    ],
)
def test_a_reboot_that_is_waited_for(answers: Dict[str, Probe], value: Any, outcome: str) -> None:
    fact = host_of(answers)["packages"]["reboot_required"]
    assert (fact["value"], fact["outcome"]) == (value, outcome)


def kernel_log(name: str) -> Dict[str, Probe]:
    return good(name, {"events": _kernel_log.parse("[  100.0] " + XID, name, NOW, NOW), "begins": NOW})


def test_one_readable_kernel_log_is_enough_and_each_message_stands_once() -> None:
    answers = {
        **bad("kernel.journal", "error"),
        **kernel_log("kernel.dmesg"),
        **kernel_log("kernel.log_file"),
    }
    facts = host_of(answers)["kernel_log"]
    [event] = facts["events"]["value"]
    assert facts["events"]["outcome"] == "ok"
    assert facts["events"]["source"] == "kernel.dmesg, kernel.log_file"
    assert (event["at"], event["sources"]) == ("2026-11-30T20:26:55Z", ["kernel.dmesg", "kernel.log_file"])
    assert facts["counts"]["value"][0]["count"] == 1


def test_t1_a_kernel_log_that_nobody_may_read_is_denied_and_not_empty() -> None:
    answers = {
        **bad("kernel.dmesg", "denied"),
        **bad("kernel.journal", "absent"),
        **bad("kernel.log_file", "absent"),
    }
    assert host_of(answers)["kernel_log"]["events"]["outcome"] == "denied"


def test_the_timeline_joins_packages_boots_and_driver_loads() -> None:
    load = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
    answers = {
        **good("changes.boots", {"events": [{"time": NOW, "what": "boot a", "kind": "boot"}], "begins": NOW}),
        **good(
            "kernel.dmesg",
            {"events": _kernel_log.parse("[  100.0] " + load, "dmesg", NOW, NOW), "begins": NOW - 9},
        ),
        **good(
            "packages.rpm",
            [
                {
                    "name": "nvidia-driver",
                    "version": "580",
                    "installed": NOW - 5,
                    "held": False,
                    "status": "installed",
                }
            ],
        ),
        **bad("changes.apt", "absent"),
    }
    changes = host_of(answers)["changes"]
    assert [(event["what"], event["source"]) for event in changes["events"]] == [
        ("installed nvidia-driver 580", "rpm database"),
        ("boot a", "journal boots"),
        ("kernel module nvidia 580.159.04 was loaded", "kernel log"),
    ]
    assert "kernel log: silent before 2026-11-30T20:25:06Z" in changes["gaps"]
    assert "journal boots: silent before 2026-11-30T20:25:15Z" in changes["gaps"]
    assert "apt history: not there (why not)" in changes["gaps"]
    assert "dpkg log: not there (not asked in this run)" in changes["gaps"]


def test_space_stands_by_path_and_a_dead_server_costs_its_own_path() -> None:
    answers = {**good("host.space./", {"free": 1}), **bad("host.space./mnt/models", "timeout")}
    space = host_of(answers)["space"]
    assert space["/"]["value"] == {"free": 1}
    assert space["/mnt/models"]["outcome"] == "timeout"


def test_t47_a_run_without_any_answer_says_of_everything_that_it_was_not_asked() -> None:
    document = host_of({})
    assert document["system"]["outcome"] == "skipped"
    assert document["kernel_log"]["events"]["outcome"] == "skipped"
    assert document["packages"]["count"]["outcome"] == "skipped"
