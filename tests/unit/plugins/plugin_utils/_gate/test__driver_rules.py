# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver: its branch is a floor, and what new processes load must be what the kernel has."""

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
    with_engine,
)


def driver(version: str, cuda: str) -> dict[str, Any]:
    return {
        "gpu__driver__loaded": fact(version),
        "gpu__driver__on_disk": fact(version),
        "gpu__driver__cuda_of_driver": fact(cuda),
    }


def both(**changes: Any) -> list[dict[str, Any]]:
    return [changed(document(number), **changes) for number in (1, 2)]


def test_a_healthy_group_passes_with_nothing_to_say() -> None:
    result = judged([document(1), document(2)])
    assert bad(result) == {}
    assert result.verdict == "pass"


@pytest.mark.parametrize(
    ("version", "cuda", "branch", "ceiling"),
    [
        ("575.57.08", "12.9", "fail", "fail"),
        ("580.65.06", "13.0", "pass", "pass"),
        ("580.159.04", "13.0", "pass", "pass"),
        ("595.45.04", "13.2", "pass", "pass"),
        ("620.10.01", "13.5", "pass", "pass"),
    ],
)
def test_branch_and_cuda_of_the_driver(version: str, cuda: str, branch: str, ceiling: str) -> None:
    result = judged(both(**driver(version, cuda)))
    assert (verdict(result, "driver.branch"), verdict(result, "driver.cuda")) == (branch, ceiling)
    assert result.verdict == ("pass" if branch == "pass" else "fail")


@pytest.mark.parametrize(
    ("version", "ceiling", "image", "expected"),
    [
        ("580.159.04", "13.0", "13.0.2", "pass"),
        ("580.159.04", "13.0", "13.2.0", "warn"),  # r580 is a floor, and no clean pass for a newer CUDA
        ("580.159.04", "13.0", "13.1.1", "warn"),
        ("595.45.04", "13.2", "13.2.0", "pass"),
        ("580.159.04", "13.0", "12.9.1", "pass"),
        ("575.57.08", "12.9", "13.0.2", "fail"),
    ],
)
def test_t30_cuda_of_the_image_against_the_driver(
    version: str, ceiling: str, image: str, expected: str
) -> None:
    made = changed(document(1), **driver(version, ceiling))
    cuda = fact({"image_cuda_version": image, "torch_build": "12.8"})
    result = judged([with_engine(made, cuda=cuda)], boundary(driver_branch=570))
    finding = about(result, "image.cuda", "n1")
    assert finding.answer.verdict == expected
    if expected == "warn":
        assert "PTX" in finding.answer.reason
        assert result.verdict == "warn"


def test_t48_the_newest_of_the_image_counts_and_each_is_named() -> None:
    cuda = fact({"image_cuda_version": "13.0.2", "torch_build": "13.2"})
    finding = about(judged([with_engine(document(1), cuda=cuda)], boundary(vllm="0.1")), "image.cuda", "n1")
    assert finding.answer.verdict == "warn"
    assert "image (13.0.2)" in finding.answer.found
    assert "torch (13.2)" in finding.answer.found


def test_a_compat_library_is_named() -> None:
    made = changed(document(1), **driver("580.159.04", "13.0"))
    engine = {
        "cuda": fact({"image_cuda_version": "13.2.0"}),
        "loaded_libraries": fact([{"path": "/usr/local/cuda-13.2/compat/libcuda.so.595.45.04"}]),
    }
    finding = about(judged([with_engine(made, **engine)], boundary(vllm="0.1")), "image.cuda", "n1")
    assert "/usr/local/cuda-13.2/compat/libcuda.so.595.45.04" in finding.answer.found
    assert "803 or 804" in finding.answer.reason


def test_remedy_for_an_old_driver_is_a_true_one() -> None:
    remedy = about(judged(both(**driver("575.57.08", "12.9"))), "driver.branch").answer.remedy
    assert "upgrade the driver" in remedy
    assert "not the official image" in remedy
    assert "cu129" not in remedy


@pytest.mark.parametrize("outcome", ["absent", "error", "timeout", "denied", "skipped"])
def test_t29_an_unmeasured_driver_is_undecided(outcome: str) -> None:
    unknown = fact(None, outcome, "no answer")
    result = judged(both(gpu__driver__loaded=unknown, gpu__driver__told_by_the_driver=unknown))
    assert verdict(result, "driver.branch") == "undecided"
    assert verdict(result, "driver.equal") == "undecided"
    assert result.verdict == "undecided"
    assert not result.good


def test_a_driver_that_only_the_driver_tells_counts() -> None:
    result = judged(both(gpu__driver__loaded=fact(None, "absent", "no such file")))
    assert verdict(result, "driver.branch") == "pass"


def test_t31_mixed_drivers_fail_by_name_of_host() -> None:
    documents = [document(number) for number in (1, 2, 3)]
    documents[1] = changed(documents[1], **driver("580.95.05", "13.0"))
    finding = about(judged(documents), "driver.equal")
    assert finding.answer.verdict == "fail"
    assert finding.hosts == ("n2",)
    assert "580.95.05: n2" in finding.answer.found


def test_two_hosts_apart_have_no_odd_one() -> None:
    documents = [document(1), changed(document(2), **driver("580.95.05", "13.0"))]
    finding = about(judged(documents), "driver.equal")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n1", "n2"))


def test_t35_upgraded_libraries_fail_before_the_restart_that_would() -> None:
    agreement = {"state": "user libraries differ", "meaning": "new starts fail", "unmeasured": []}
    changes = {
        "gpu__driver__agreement": fact(agreement),
        "gpu__driver__new_processes_load": fact({"libcuda.so.1": "580.178.04"}),
        "gpu__driver__on_disk": fact("580.178.04"),
    }
    result = judged([changed(document(1), **changes), document(2)])
    finding = about(result, "driver.agreement", "n1")
    assert finding.answer.verdict == "fail"
    assert finding.answer.found == "loaded 580.173.02; on disk 580.178.04; user libraries 580.178.04"
    assert "reboot" in finding.answer.remedy
    assert verdict(result, "driver.on_disk", "n1") == "warn"
    assert verdict(result, "driver.agreement", "n2") == "pass"


@pytest.mark.parametrize(
    ("state", "outcome", "expected"),
    [
        ("equal", "ok", "pass"),
        ("no driver", "ok", "fail"),
        ("not loaded", "ok", "fail"),
        ("unmeasured", "ok", "undecided"),
        ("equal", "timeout", "undecided"),
    ],
)
def test_agreement(state: str, outcome: str, expected: str) -> None:
    agreement = fact({"state": state, "meaning": "why", "unmeasured": []}, outcome, "no answer")
    assert (
        verdict(judged([changed(document(1), gpu__driver__agreement=agreement)]), "driver.agreement")
        == expected
    )


def test_a_module_on_disk_that_cannot_be_read_is_no_reason_to_stop() -> None:
    result = judged(both(gpu__driver__on_disk=fact(None, "absent", "modinfo: not found")))
    assert verdict(result, "driver.on_disk") == "undecided"
    assert result.verdict == "pass"


def test_a_boundary_without_limits_on_the_driver_does_not_judge_it() -> None:
    result = judged([document(1)], boundary(gpu_count=4))
    assert verdict(result, "driver.branch") == verdict(result, "driver.cuda") == "not applicable"
