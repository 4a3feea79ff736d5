# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink: the state alone proves nothing, a rack is one domain, and IMEX belongs on racks only."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    CLUSTER,
    about,
    boundary,
    changed,
    document,
    fact,
    judged,
    verdict,
)

ZERO = "00000000-0000-0000-0000-000000000000"


def gpus(made: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The host with a change in all of its GPUs."""
    count = len(made["gpu"]["gpus"])
    return changed(
        made, **{f"gpu__gpus__{n}__state__{k}": fact(v) for n in range(count) for k, v in changes.items()}
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "pass"),
        ({"fabric_clique_id": 0}, "pass"),  # clique 0 is one like any other
        ({"fabric_state": "not started"}, "fail"),
        ({"fabric_state": "in progress"}, "fail"),
        ({"fabric_state": "not supported"}, "fail"),
        ({"fabric_status": "insufficient resources"}, "fail"),
        ({"fabric_cluster_uuid": ZERO}, "fail"),
        ({"fabric_health": "unhealthy"}, "fail"),
        ({"fabric_health": "limited capacity"}, "warn"),
    ],
)
def test_t33_a_tray(change: dict[str, Any], expected: str) -> None:
    result = judged([gpus(document(1), **change), document(2)])
    assert verdict(result, "fabric.state", "n1") == expected
    assert verdict(result, "gpu.lost", "n1") == "pass"  # all GPUs are listed all the same


def test_t33_a_board_has_no_cluster_and_that_is_normal() -> None:
    result = judged([document(1, "h200"), document(2, "h200")], boundary("h200"))
    assert verdict(result, "fabric.state") == "pass"
    assert verdict(result, "fabric.domain") == "not applicable"
    assert verdict(result, "imex.service") == "not applicable"


@pytest.mark.parametrize("name", ["fabric_state", "fabric_status"])
def test_t29_an_unmeasured_fabric_is_undecided(name: str) -> None:
    made = document(1)
    made["gpu"]["gpus"][3]["state"][name] = fact(None, "absent", "the driver is older than the call")
    result = judged([made, document(2)])
    assert verdict(result, "fabric.state", "n1") == "undecided"
    assert result.verdict == "undecided"


@pytest.mark.parametrize("change", [{"fabric_clique_id": 7}, {"fabric_cluster_uuid": CLUSTER[::-1]}])
def test_clique_or_cluster_apart_names_the_host(change: dict[str, Any]) -> None:
    result = judged([document(1), gpus(document(2), **change), document(3)])
    finding = about(result, "fabric.domain")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n2",))


def test_gpus_of_one_host_in_two_domains() -> None:
    made = changed(document(1), gpu__gpus__0__state__fabric_clique_id=fact(7))
    finding = about(judged([made, document(2)]), "fabric.domain")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n1",))


def test_a_tray_alone_shares_nothing() -> None:
    result = judged([document(1)], boundary(gpu_count=4))
    assert verdict(result, "fabric.domain") == "not applicable"
    assert verdict(result, "imex.channel") == "not applicable"


def test_imex_down_and_channel_missing() -> None:
    nodes = {"0": {"host": "10.0.0.1", "status": "READY"}, "1": {"host": "10.0.0.2", "status": "UNAVAILABLE"}}
    down = {
        "host__services__daemons": fact([]),
        "gpu__fabric__imex_channels": fact([]),
    }
    half = {"gpu__fabric__imex_status": fact({"nodes": nodes, "status": "DEGRADED"})}
    result = judged([changed(document(1), **half), changed(document(2), **down)])
    assert about(result, "imex.service", "n1").answer.reason == "IMEX is not ready on 10.0.0.2"
    assert about(result, "imex.service", "n2").answer.found == "not active"
    assert verdict(result, "imex.channel", "n2") == "fail"
    assert verdict(result, "imex.channel", "n1") == "pass"


def test_imex_lists_apart() -> None:
    other = {"gpu__fabric__imex": fact({"nodes": ["10.0.0.1", "10.0.0.9"], "config": None})}
    finding = about(judged([document(1), document(2), changed(document(3), **other)]), "imex.nodes")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n3",))


def test_t29_imex_that_did_not_answer_is_undecided() -> None:
    made = changed(document(1), gpu__fabric__imex_status=fact(None, "timeout", "no end within 30 s"))
    assert verdict(judged([made, document(2)]), "imex.service", "n1") == "undecided"


@pytest.mark.parametrize(
    ("services", "completed", "version", "expected"),
    [
        (["nvidia-fabricmanager"], True, "580.173.02-1", "pass"),
        (["nvidia-fabricmanager"], True, "580.126.09-1", "fail"),
        ([], True, "", "not applicable"),  # a virtual machine whose fabric another one manages
        ([], False, "", "fail"),
    ],
)
def test_fabric_manager_on_a_board(services: list[str], completed: bool, version: str, expected: str) -> None:
    made = gpus(document(1, "h200"), fabric_state="completed" if completed else "in progress")
    packages = [{"name": "nvidia-fabricmanager-580", "version": version}] if version else []
    made = changed(
        made,
        host__services__daemons=fact([{"name": name, "pid": 1} for name in services]),
        host__packages__relevant=fact(packages),
    )
    assert verdict(judged([made], boundary("h200")), "fabric.manager", "n1") == expected


def test_systemd_is_believed_before_the_process_list() -> None:
    units = [{"name": "nvidia-fabricmanager.service", "active": "failed"}]
    made = changed(gpus(document(1, "h200"), fabric_state="in progress"), host__services__units=fact(units))
    assert verdict(judged([made], boundary("h200")), "fabric.manager", "n1") == "fail"


def test_fabric_manager_is_not_for_trays() -> None:
    assert verdict(judged([document(1), document(2)]), "fabric.manager") == "not applicable"
