# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a container gets: the GPUs it asked for, room to talk, no restarts, no filters."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Finding
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    boundary,
    document,
    fact,
    judged,
    verdict,
    with_engine,
)


def one(rule: str, **changes: Any) -> Finding:
    """The finding about the engine of one host."""
    result = judged([with_engine(document(1), **changes)], boundary(gpu_count=4, vllm="0.27.1"))
    return about(result, rule, "n1")


def inside(count: int, **more: Any) -> dict[str, Any]:
    uuids = [f"GPU-00000001-0000-4000-8000-{number:012}" for number in range(count)]
    return fact({"uuids": uuids, "unknown_minors": [], "cgroup": {"allowed": None}, **more})


def test_all_gpus_are_seen() -> None:
    answer = one("container.devices").answer
    assert (answer.verdict, answer.found) == ("pass", "4 of 4 GPUs")


def test_t34_a_container_without_devices_is_not_a_broken_host() -> None:
    answer = one("container.devices", visible_devices=inside(0)).answer
    assert answer.verdict == "fail"
    assert "the host has 4 GPUs and the container lost its devices; the host is not broken" in answer.reason
    assert "recreate the container" in answer.remedy


def test_t34_a_cgroup_that_lost_the_devices() -> None:
    allowed = {"allowed": ["c 1:3 rwm", "c 5:0 rwm"]}
    answer = one("container.devices", visible_devices=inside(4, cgroup=allowed)).answer
    assert answer.verdict == "fail"
    assert "its" not in answer.found
    assert "no longer allows them" in answer.reason
    fine = {"allowed": ["c 195:* rwm"]}
    assert one("container.devices", visible_devices=inside(4, cgroup=fine)).answer.verdict == "pass"


@pytest.mark.parametrize("name", ["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
@pytest.mark.parametrize("value", ["none", "void", ""])
def test_t34_a_filter_is_told_from_a_broken_container(name: str, value: str) -> None:
    answer = one("container.devices", visible_devices=inside(0), environment=[f"{name}={value}"]).answer
    assert answer.verdict == "fail"
    assert f"{name}={value or '(empty)'} hides the GPUs" in answer.reason


def test_t34_a_container_that_never_asked() -> None:
    request = {"modes": [], "device_requests": []}
    answer = one("container.devices", visible_devices=inside(0), gpu_request=request, environment=[]).answer
    assert "did not ask for GPUs" in answer.reason


def test_fewer_than_asked_for() -> None:
    answer = one("container.devices", visible_devices=inside(3)).answer
    assert (answer.verdict, answer.found) == ("fail", "vllm: 3 of 4 GPUs")


def test_asked_for_by_uuid() -> None:
    wanted = ["GPU-00000001-0000-4000-8000-000000000000", "GPU-00000001-0000-4000-8000-000000000001"]
    request = {"modes": ["x"], "device_requests": [{"Count": 0, "DeviceIDs": wanted}]}
    assert one("container.devices", visible_devices=inside(2), gpu_request=request).answer.verdict == "pass"
    assert one("container.devices", visible_devices=inside(3), gpu_request=request).answer.verdict == "fail"


@pytest.mark.parametrize("outcome", ["denied", "timeout", "error", "absent"])
def test_t29_devices_that_were_not_read_are_undecided(outcome: str) -> None:
    assert one("container.devices", visible_devices=fact(None, outcome, "no")).answer.verdict == "undecided"


def test_an_engine_that_does_not_run_has_no_devices_to_see() -> None:
    assert one("container.devices", state={"running": False}).answer.verdict == "not applicable"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (["NVIDIA_VISIBLE_DEVICES=all"], "pass"),
        (["CUDA_VISIBLE_DEVICES=GPU-1,GPU-2"], "pass"),
        (["CUDA_VISIBLE_DEVICES=0,1"], "warn"),
        (["CUDA_VISIBLE_DEVICES=0,1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"], "pass"),
        (["CUDA_VISIBLE_DEVICES="], "warn"),
    ],
)
def test_visibility_variables(environment: list[str], expected: str) -> None:
    assert one("container.visibility", environment=environment).answer.verdict == expected


@pytest.mark.parametrize(
    ("policy", "expected"), [("no", "pass"), ("", "pass"), ("unless-stopped", "warn"), ("on-failure", "warn")]
)
def test_restart_policy(policy: str, expected: str) -> None:
    assert one("container.restart", restart_policy={"Name": policy}).answer.verdict == expected


@pytest.mark.parametrize(
    ("size", "ipc", "expected"),
    [
        (64 * 2**20, "private", "fail"),
        (16 * 2**30, "private", "pass"),
        (64 * 2**20, "host", "pass"),  # then the host's own counts
        (None, "private", "undecided"),
        (0, "private", "undecided"),
    ],
)
def test_shared_memory(size: int | None, ipc: str, expected: str) -> None:
    assert one("container.shm", limits__ShmSize=size, limits__IpcMode=ipc).answer.verdict == expected


@pytest.mark.parametrize(
    ("ulimits", "expected"),
    [
        ([{"Name": "memlock", "Soft": -1, "Hard": -1}], "pass"),
        ([{"Name": "memlock", "Soft": 65536, "Hard": 65536}], "warn"),
        (None, "pass"),  # what the container engine's own limit gives
    ],
)
def test_locked_memory(ulimits: Any, expected: str) -> None:
    assert one("container.memlock", limits__Ulimits=ulimits).answer.verdict == expected


def test_network_of_a_launch_over_two_hosts() -> None:
    documents = [with_engine(document(1), network={"mode": "bridge"}), with_engine(document(2))]
    result = judged(documents)
    assert verdict(result, "container.network", "n1") == "warn"
    assert verdict(result, "container.network", "n2") == "pass"
