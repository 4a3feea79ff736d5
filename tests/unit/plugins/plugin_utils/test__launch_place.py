# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The official launch on named hosts: open names filled, nothing guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import Mount
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Image,
    Launch,
    ProcessOptions,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import Plan, official
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_place import Place, Setup, placed

IMAGE = Image("vllm/vllm-openai:kimi-k3", "sha256:" + "a" * 64)
MOUNTS = (Mount("/models", "/root/.cache/huggingface"),)


def plan(hardware: str = "gb300", strategy: str = "") -> Plan:
    pin = _boundary_pin.load("kimi-k3")
    launch = pin.launch(pin.choice(hardware, strategy))
    assert launch is not None
    return official(launch)


def places(count: int, **changes: Any) -> list[Place]:
    return [
        Place(**{"host": f"tray{n}", "address": f"10.0.0.{n + 1}", "interface": f"eth{n}", **changes})
        for n in range(count)
    ]


def setup(**changes: Any) -> Setup:
    return Setup(**{"image": IMAGE, "mounts": MOUNTS, "run": "run-001", **changes})


def test_two_trays() -> None:
    launch = placed(plan(), places(2), setup())
    head, worker = launch.ranks
    assert (launch.topology.hosts, launch.topology.gpus, launch.topology.tensor_parallel) == (2, 8, 8)
    assert [rank.argv[rank.argv.index("--master-addr") + 1] for rank in launch.ranks] == ["10.0.0.1"] * 2
    assert [rank.env["NCCL_SOCKET_IFNAME"] for rank in launch.ranks] == ["eth0", "eth1"]
    assert [rank.env["VLLM_HOST_IP"] for rank in launch.ranks] == ["10.0.0.1", "10.0.0.2"]
    assert (head.api_port, head.headless, worker.api_port, worker.headless) == (8000, False, None, True)
    assert [rank.container.name for rank in launch.ranks if rank.container] == [
        "gpufleet-run-001-0",
        "gpufleet-run-001-1",
    ]
    assert Launch.from_dict(launch.document()).sha256() == launch.sha256()


def test_no_open_name_is_left_in_any_pinned_launch() -> None:
    pin = _boundary_pin.load("kimi-k3")
    for hardware in pin.document.mapping("launches"):
        for strategy in pin.document.mapping("launches", hardware):
            if (hardware, strategy) == ("gb200", "pd_cluster"):
                continue
            made = plan(hardware, strategy)
            launch = placed(made, places(len(made.ranks)), setup())
            words = [word for rank in launch.ranks for word in (*rank.argv, *map(str, rank.env.values()))]
            assert not [word for word in words if "$" in word], (hardware, strategy)


def test_pools_have_each_their_first_host() -> None:
    launch = placed(plan("gb300", "pd_cluster"), places(6), setup())
    prefill, decode = launch.ranks[:2], launch.ranks[2:]
    assert [rank.argv[rank.argv.index("--master-addr") + 1] for rank in prefill] == ["10.0.0.1"] * 2
    assert [rank.argv[rank.argv.index("--data-parallel-address") + 1] for rank in decode] == ["10.0.0.3"] * 4
    assert [rank.env["VLLM_NIXL_SIDE_CHANNEL_HOST"] for rank in launch.ranks] == [
        f"10.0.0.{n}" for n in range(1, 7)
    ]
    assert [rank.api_port for rank in launch.ranks] == [8001, None, 8002, 8002, 8002, 8002]
    assert [rank.node_rank for rank in launch.ranks] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("count", "change", "message"),
    [
        (3, {}, "expected 2 hosts in the launch group, found 3"),
        (1, {}, "expected 2 hosts in the launch group, found 1"),
        (2, {"address": ""}, "gpufleet_address"),
        (2, {"interface": ""}, "tray0: .*gpufleet_interface"),
    ],
)
def test_what_the_inventory_does_not_say_is_asked_for(
    count: int, change: dict[str, str], message: str
) -> None:
    with pytest.raises(BaselineError, match=message):
        placed(plan(), places(count, **change), setup())


def test_a_single_host_needs_no_address() -> None:
    launch = placed(plan("b300"), [Place("solo")], setup())
    assert "VLLM_HOST_IP" not in launch.ranks[0].env


def test_the_port_of_the_api_is_the_host_s_own() -> None:
    launch = placed(plan(), places(2, api_port=9000), setup())
    assert [rank.api_port for rank in launch.ranks] == [9000, None]
    assert "--port" not in launch.ranks[1].argv


def test_the_mount_of_the_recipe_needs_the_home_of_the_host() -> None:
    with pytest.raises(BaselineError, match="launch_mounts"):
        placed(plan("b300"), [Place("solo")], setup(mounts=None))
    launch = placed(plan("b300"), [Place("solo", home="/home/x")], setup(mounts=None))
    assert launch.ranks[0].container is not None
    assert launch.ranks[0].container.mounts[0].source == "/home/x/.cache/huggingface"


def test_a_process_has_no_image_and_says_what_it_is_not() -> None:
    process = ProcessOptions("/opt/venv/bin/vllm")
    launch = placed(plan(), places(2), setup(engine="process", process=process))
    assert (launch.image, launch.ranks[0].process, launch.ranks[0].container) == (None, process, None)
    assert any("not equivalent" in note for note in launch.notes)
    assert not any("memlock" in note for note in launch.notes)
    with pytest.raises(BaselineError, match="launch_process_executable"):
        placed(plan(), places(2), setup(engine="process"))


def test_an_image_is_asked_for() -> None:
    with pytest.raises(BaselineError, match="launch_image"):
        placed(plan(), places(2), setup(image=None))


def test_names_that_only_the_user_knows(shared: Path) -> None:
    from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import parse
    from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import launch_of, published

    path = shared / "recipes/api/moonshotai/Kimi-K3/hw/gb300/strategies/kv_store_distributed_mooncake.json"
    document = published(parse(str(path), path.read_bytes()))
    assert document is not None
    made = official(launch_of(document))
    with pytest.raises(BaselineError, match="launch_placeholders"):
        placed(made, places(2), setup())
    launch = placed(made, places(2), setup(placeholders={"MOONCAKE_CONFIG_PATH": "/etc/m.json"}))
    assert launch.ranks[1].env["MOONCAKE_CONFIG_PATH"] == "/etc/m.json"
    assert any("master" in note for note in launch.notes)
