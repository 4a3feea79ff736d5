# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of the GPUs: what must stop a start, what only warns, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    changed,
    document,
    fact,
    judged,
    verdict,
)


def one(**changes: Any) -> list[dict[str, Any]]:
    """A group whose first host has a change in its third GPU."""
    return [changed(document(1), **{f"gpu__gpus__2__state__{k}": v for k, v in changes.items()}), document(2)]


@pytest.mark.parametrize(
    ("change", "rule", "expected"),
    [
        ({"mig": True}, "gpu.mig", "fail"),
        ({"mig_pending": True}, "gpu.mig", "fail"),
        ({"ecc": False}, "gpu.ecc", "warn"),
        ({"ecc_pending": False}, "gpu.ecc", "warn"),
        ({"ecc_errors_since_boot": {"correctable": 3, "uncorrectable": 1}}, "gpu.ecc", "warn"),
        ({"ecc_errors_since_boot": {"correctable": 3, "uncorrectable": 0}}, "gpu.ecc", "pass"),
        ({"remapping_pending": True}, "gpu.remap", "fail"),
        ({"remapping_failed": True}, "gpu.remap", "fail"),
        ({"recovery_action": "none"}, "gpu.recovery", "pass"),
        ({"recovery_action": "drain and reset"}, "gpu.recovery", "fail"),
        ({"recovery_action": "unknown (9)"}, "gpu.recovery", "fail"),
        ({"persistence": False}, "gpu.persistence", "warn"),
    ],
)
def test_one_gpu_of_four(change: dict[str, Any], rule: str, expected: str) -> None:
    result = judged(one(**{name: fact(value) for name, value in change.items()}))
    finding = about(result, rule, "n1")
    assert finding.answer.verdict == expected
    if expected != "pass":
        assert "1 of 4 GPUs (0002:06:00.0)" in finding.answer.found
        assert finding.answer.remedy
    assert verdict(result, rule, "n2") == "pass"


@pytest.mark.parametrize(
    ("name", "rule", "absent"),
    [
        ("mig", "gpu.mig", "pass"),  # a GPU that cannot be split says that it is not supported
        ("remapping_failed", "gpu.remap", "undecided"),
        ("recovery_action", "gpu.recovery", "undecided"),
        ("ecc", "gpu.ecc", "undecided"),
    ],
)
def test_t29_what_was_not_measured_is_no_pass(name: str, rule: str, absent: str) -> None:
    assert verdict(judged(one(**{name: fact(None, "absent", "not supported")})), rule, "n1") == absent
    for outcome in ("error", "timeout", "denied"):
        assert verdict(judged(one(**{name: fact(None, outcome, "no")})), rule, "n1") == "undecided"


def test_a_driver_without_recovery_actions_has_none_to_judge() -> None:
    made = document(1)
    for entry in made["gpu"]["gpus"]:
        entry["state"]["recovery_action"] = fact(None, "absent", "the driver is older than the call")
    assert verdict(judged([made, document(2)]), "gpu.recovery", "n1") == "not applicable"


def xid(code: int, time: float | None = 1796000000.0, kind: str = "xid") -> dict[str, Any]:
    return {
        "kind": kind,
        "code": code,
        "pci_address": "0002:06:00.0",
        "harmless": False,
        "meaning": "",
        "time": time,
    }


@pytest.mark.parametrize(
    ("code", "expected", "whole"),
    [(79, "fail", "fail"), (48, "fail", "fail"), (13, "warn", "warn"), (31, "warn", "warn")],
)
def test_xid_since_boot(code: int, expected: str, whole: str) -> None:
    result = judged([changed(document(1), gpu__xid=fact([xid(code)])), document(2)])
    finding = about(result, "gpu.xid", "n1")
    assert (finding.answer.verdict, result.verdict) == (expected, whole)
    assert f"Xid {code} at 0002:06:00.0" in finding.answer.found


def test_xid_of_an_earlier_boot_is_past() -> None:
    before = xid(79, time=1795000000.0)  # 2026-11-18, the boot was on 2026-11-29
    result = judged([changed(document(1), gpu__xid=fact([before])), document(2)])
    assert verdict(result, "gpu.xid", "n1") == "pass"


def test_a_kernel_log_that_only_root_may_read_is_undecided_and_said_once() -> None:
    denied = fact([], "denied", "dmesg: Operation not permitted")
    result = judged(
        [changed(document(1), gpu__xid=denied, gpu__holders=fact(None, "denied", "no")), document(2)]
    )
    assert verdict(result, "gpu.xid", "n1") == "undecided"
    assert result.needs_root() == {"n1": ["gpu.xid", "gpu.holders"]}
    assert result.verdict == "undecided"  # for the holders, which are required


def test_an_xid_found_in_a_log_that_was_not_read_whole_counts() -> None:
    result = judged([changed(document(1), gpu__xid=fact([xid(79)], "timeout", "cut")), document(2)])
    assert verdict(result, "gpu.xid", "n1") == "fail"


def test_clocks() -> None:
    hot = {"gpu__gpus__0__now__clock_event_reasons": fact(["sw power cap", "hw thermal slowdown"])}
    finding = about(judged([changed(document(1), **hot), document(2)]), "gpu.clocks", "n1")
    assert (finding.answer.verdict, "hw thermal slowdown" in finding.answer.found) == ("warn", True)
    assert "sw power cap" not in finding.answer.found


def test_no_gpu_that_answers_leaves_everything_undecided() -> None:
    made = document(1)
    gone = fact(None, "absent", "the driver did not come to this question")
    for entry in made["gpu"]["gpus"]:
        for section in ("identity", "state", "now"):
            entry[section] = dict.fromkeys(entry[section], gone)
        entry["identity"]["uuid"] = fact("GPU-x", source="/proc/driver/nvidia/gpus")
    made["gpu"]["problems"] = ["gpu.nvml: timeout: no answer within 60 s"]
    made["gpu"]["counts"].update(nvml=fact(None, "timeout", "hangs"), nvidia_smi_query=fact(None, "skipped"))
    result = judged([made, document(2)])
    rules = ("gpu.model", "gpu.lost", "gpu.mig", "gpu.remap", "gpu.recovery", "gpu.holders", "fabric.state")
    for rule in rules:
        assert verdict(result, rule, "n1") == "undecided", rule
    assert about(result, "gpu.count").hosts == ("n1",)
    assert result.verdict == "undecided"


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ("gpu.xid", {"gpu__xid": fact([{"kind": "xid", "code": 79, "time": float("inf")}])}),
        ("gpu.xid", {"gpu__xid": fact([{"kind": "xid", "code": 79, "time": "yesterday"}])}),
        ("gpu.model", {"gpu__gpus__0__identity__memory_total": fact(10**400)}),
        ("gpu.memory", {"gpu__gpus__0__identity__memory_total": fact(10**400)}),
    ],
)
def test_t29_values_that_no_rule_can_count_with_are_undecided(rule: str, changes: dict[str, Any]) -> None:
    finding = next(
        item
        for item in judged([changed(document(1), **changes), document(2)]).findings
        if item.rule.id == rule and item.answer.verdict != "pass"
    )
    assert (finding.answer.verdict, finding.answer.found) == ("undecided", "not understood")
