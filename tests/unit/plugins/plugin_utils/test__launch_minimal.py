# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The minimal launch: what stays, what goes and why, and the way back to the official one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import Mount
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._difference import apply, difference
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Image, Launch, Secret
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_minimal import minimal
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import official
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_overrides import (
    checked,
    with_overrides,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_place import Place, Setup, placed


def whole(hardware: str = "gb300", strategy: str = "") -> Launch:
    pin = _boundary_pin.load("kimi-k3")
    recipe = pin.launch(pin.choice(hardware, strategy))
    assert recipe is not None
    plan = official(recipe)
    hosts = [Place(f"tray{n}", f"10.0.0.{n + 1}", "eth0") for n in range(len(plan.ranks))]
    setup = Setup(image=Image("i", "sha256:" + "a" * 64), mounts=(Mount("/m", "/m"),), run="run-001")
    return placed(plan, hosts, setup)


STRATEGIES = [
    (hardware, strategy)
    for hardware, strategies in _boundary_pin.load("kimi-k3").document.mapping("launches").items()
    for strategy in strategies
    if strategy != "pd_cluster"
]


def test_two_trays_of_gb300() -> None:
    launch = minimal(whole("gb300"))
    assert launch.topology.hosts == 2
    head, worker = launch.ranks
    assert list(head.argv) == [
        *("vllm", "serve", "moonshotai/Kimi-K3", "--trust-remote-code", "--tensor-parallel-size", "8"),
        *("--nnodes", "2", "--node-rank", "0", "--master-addr", "10.0.0.1"),
        *("--no-enable-prefix-caching", "--no-enable-flashinfer-autotune", "--no-async-scheduling"),
        *(
            "--disable-custom-all-reduce",
            "--compilation-config",
            '{"pass_config":{"fuse_allreduce_rms":false}}',
        ),
        *(
            "--gpu-memory-utilization",
            "0.90",
            "--max-model-len",
            "8192",
            "--max-num-seqs",
            "1",
            "--enforce-eager",
        ),
    ]
    assert worker.argv[: worker.argv.index("--headless")] == (*head.argv[:9], "1", *head.argv[10:12])
    assert head.env == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
        "VLLM_HOST_IP": "10.0.0.1",
        "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_MNNVL_ENABLE": "0",
    }


def test_one_host_of_b300_has_nothing_of_a_group() -> None:
    launch = minimal(whole("b300"))
    assert launch.topology.hosts == 1
    assert list(launch.ranks[0].argv) == [
        *("vllm", "serve", "moonshotai/Kimi-K3", "--trust-remote-code", "--tensor-parallel-size", "8"),
        *("--no-enable-prefix-caching", "--no-enable-flashinfer-autotune", "--no-async-scheduling"),
        *(
            "--gpu-memory-utilization",
            "0.90",
            "--max-model-len",
            "8192",
            "--max-num-seqs",
            "1",
            "--enforce-eager",
        ),
    ]
    assert launch.ranks[0].env == {
        "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
        "VLLM_ALLREDUCE_USE_FLASHINFER": "0",
    }


@pytest.mark.parametrize(("hardware", "strategy"), STRATEGIES)
def test_the_changes_lead_back_to_exactly_the_official_launch(hardware: str, strategy: str) -> None:
    target = whole(hardware, strategy)
    launch = minimal(target)
    back = apply(launch, difference(launch, target), like=target)
    assert back.sha256() == target.sha256()
    assert difference(launch, target)


@pytest.mark.parametrize(("hardware", "strategy"), STRATEGIES)
def test_the_group_stays_whole(hardware: str, strategy: str) -> None:
    before, after = whole(hardware, strategy), minimal(whole(hardware, strategy))
    group = ("--nnodes", "--node-rank", "--master-addr", "--headless", "--tensor-parallel-size", "--data-parallel-size",
             "--pipeline-parallel-size", "--data-parallel-address", "--data-parallel-start-rank")  # fmt: skip
    for old, new in zip(before.ranks, after.ranks, strict=True):
        for name in group:
            assert parse(old.argv).value(name) == parse(new.argv).value(name), name
        assert (old.host, old.api_port, old.headless) == (new.host, new.api_port, new.headless)
    assert before.topology.gpus == after.topology.gpus


def test_everything_left_out_is_told_with_its_reason() -> None:
    target = whole("gb300")
    told = {item.variable: item for item in minimal(target).left_out}
    assert told["--load-format"].value == "fastsafetensors"
    assert "faster way" in told["--load-format"].why
    gone = {
        change.variable.name for change in difference(target, minimal(target)) if change.before is not None
    }
    assert set(told) == gone
    assert all(item.why for item in told.values())


def test_experts_stay_where_they_do_not_fit_otherwise() -> None:
    assert "--enable-expert-parallel" in minimal(whole("gb300", "multi_node_dep")).ranks[0].argv
    assert "--enable-expert-parallel" not in minimal(whole("gb300", "multi_node_tep")).ranks[0].argv


def test_hopper_keeps_the_kernels_of_its_recipe() -> None:
    argv = minimal(whole("h200", "multi_node_tp")).ranks[0].argv
    assert argv[argv.index("--moe-backend") + 1] == "marlin"


def test_pools_have_no_minimal_launch() -> None:
    with pytest.raises(BaselineError, match="multi_node_tp"):
        minimal(whole("gb300", "pd_cluster"))


def test_overrides_hold_for_both() -> None:
    overrides = checked(
        {
            "model": "/srv/tiny",
            "flags": {"--max-model-len": 1024, "--gpu-memory-utilization": None, "--load-format": "dummy",
                      "--tensor-parallel-size": 2, "--async-scheduling": True},
            "env": {"VLLM_CPU_KVCACHE_SPACE": 1, "VLLM_USE_RUST_FRONTEND": None, "HF_TOKEN": {"secret": "hub"}},
            "container": {"privileged": False, "gpus": {"how": "none", "ids": []}},
        }
    )  # fmt: skip
    base = with_overrides(whole("gb300"), overrides)
    small = with_overrides(minimal(base), overrides)
    for launch in (base, small):
        meaning = parse(launch.ranks[1].argv).meaning()
        assert (meaning["model"], meaning["--max-model-len"], meaning["--load-format"]) == (
            "/srv/tiny",
            "1024",
            "dummy",
        )
        assert "--gpu-memory-utilization" not in meaning
        assert meaning["--async-scheduling"] == "(on)"
        env = launch.ranks[0].env
        assert (env["VLLM_CPU_KVCACHE_SPACE"], env["HF_TOKEN"]) == ("1", Secret("hub"))
        assert "VLLM_USE_RUST_FRONTEND" not in env
        assert launch.ranks[0].container is not None
        assert (launch.ranks[0].container.privileged, launch.ranks[0].container.gpus.how) == (False, "none")
        assert (launch.overrides, launch.model, launch.topology.tensor_parallel) == (
            overrides,
            "/srv/tiny",
            2,
        )
    assert with_overrides(small, overrides) == small


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"argv": []}, "found argv"),
        ({"model": ""}, "at model"),
        ({"model": "--x"}, "at model"),
        ({"flags": ["--x"]}, "a mapping at flags"),
        ({"flags": {"max-model-len": 1}}, "long name"),
        ({"flags": {"--no-enable-prefix-caching": True}}, "long name"),
        ({"env": {"A": [1]}}, "at env.A"),
        ({"env": {"A": {"value": 1}}}, "at env.A"),
        ({"container": {"name": "x"}}, "container.name"),
    ],
)
def test_bad_overrides_are_named(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(BaselineError, match=message):
        checked(overrides)


def test_a_secret_in_plain_text_is_refused_and_not_shown() -> None:
    with pytest.raises(BaselineError, match="launch_secrets") as raised:
        checked({"env": {"HF_TOKEN": "hf_abcdefghijklmnop"}})
    assert "hf_abc" not in str(raised.value)


def test_a_bad_option_of_the_container_is_named() -> None:
    with pytest.raises(BaselineError, match=r"launch_overrides\.container: .*shm_size"):
        with_overrides(whole("b300"), checked({"container": {"shm_size": "1g"}}))
