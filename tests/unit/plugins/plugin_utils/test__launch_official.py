# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The official launch of every rank against what the recipe site publishes, word for word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import (
    CORRECTIONS,
    Plan,
    official,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import parse
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import (
    Launch,
    Rank,
    launch_of,
    published,
)

# Launches that the recipe site publishes and that we refuse, and why.
REFUSED = {
    ("Kimi-K3", "gb200", "pd_cluster"): "power of two",
    # Eight replicas of one GPU each on the four GPUs that each pool sees.
    **{("Kimi-K2.6", name, "pd_cluster"): "parallel sizes that make 4 GPUs"
       for name in ("b200", "b300", "mi300x", "mi325x", "mi355x")},
}  # fmt: skip


def site_files(shared: Path) -> list[Path]:
    return sorted((shared / "recipes/api").rglob("hw/**/*.json"))


def read(path: Path) -> tuple[Launch, dict[str, Any]]:
    document = published(parse(str(path), path.read_bytes()))
    assert document is not None
    return launch_of(document), document.root


def theirs(root: dict[str, Any]) -> list[tuple[str, list[str], dict[str, str]]]:
    """Role, argv and environment of each rank, as the file says them; read without any code of ours."""

    def texts(env: dict[str, Any]) -> dict[str, str]:
        return {name: str(value) for name, value in env.items()}

    if root.get("prefill"):
        return [
            (part, root[part]["argv"], texts({**root["env"], **root[part]["env"]}))
            for part in ("prefill", "decode")
        ]
    env = texts(root["env"])
    if root.get("argv"):
        return [("head", root["argv"], env)]
    head = root.get("head_argv") or root["vllm_argv"]
    workers = root.get("worker_argvs") or root.get("vllm_worker_argvs") or []
    return [("head", head, env), *(("worker", argv, env) for argv in workers)]


def expected(root: dict[str, Any]) -> list[tuple[str, list[str], dict[str, str]]]:
    """What the file says, with each of the documented corrections done by hand."""
    ranks = []
    for role, argv, env in theirs(root):
        argv, env = list(argv), dict(env)
        if role == "worker" and root["strategy"] == "multi_node_tp_dp":
            argv.append("--headless")
        if role in ("prefill", "decode"):
            env.setdefault("VLLM_ENGINE_READY_TIMEOUT_S", "3600")
        ranks.append((role, argv, env))
        for number in range(1, root[role]["nodes"] if role in ("prefill", "decode") else 1):
            further = list(argv)
            if "--node-rank" in further:
                further[further.index("--node-rank") + 1] = str(number)
                further.append("--headless")
            else:
                further[further.index("--data-parallel-start-rank") + 1] = str(number * root[role]["dpLocal"])
            ranks.append((role, further, {**env, "VLLM_NIXL_SIDE_CHANNEL_HOST": "$OWN_IP"}))
    if len(ranks) > 1:
        ranks = [(role, argv, {**env, "VLLM_HOST_IP": "$OWN_IP"}) for role, argv, env in ranks]
    return ranks


def told(plan: Plan) -> list[tuple[str, list[str], dict[str, str]]]:
    return [(rank.role, list(rank.argv), rank.env) for rank in plan.ranks]


def test_every_published_launch_of_every_hardware_and_strategy(shared: Path) -> None:
    seen, refused = set(), set()
    for path in site_files(shared):
        recipe, root = read(path)
        model = path.relative_to(shared / "recipes/api").parts[1]
        key = (model, recipe.hardware, recipe.strategy)
        seen.add(key)
        if key in REFUSED:
            with pytest.raises(BaselineError, match=REFUSED[key]):
                official(recipe)
            refused.add(key)
            continue
        assert told(official(recipe)) == expected(root), path
    assert refused == set(REFUSED)
    assert {("Kimi-K3", *key) for key in (("gb300", "multi_node_tp"), ("b300", "single_node_tp"))} <= seen
    assert len(seen) > 40


def test_every_pinned_launch_is_the_published_one_too(shared: Path) -> None:
    pin = _boundary_pin.load("kimi-k3")
    compared = 0
    for path in sorted((shared / "recipes/api/moonshotai/Kimi-K3/hw").rglob("*.json")):
        recipe, root = read(path)
        if recipe.strategy not in pin.document.mapping("launches", recipe.hardware):
            continue
        pinned = pin.launch(Choice(recipe.hardware, recipe.strategy))
        assert pinned is not None
        if ("Kimi-K3", recipe.hardware, recipe.strategy) in REFUSED:
            with pytest.raises(BaselineError):
                official(pinned)
            continue
        assert told(official(pinned)) == expected(root), path
        compared += 1
    assert compared > 20


def recipe(*ranks: Rank, **changes: Any) -> Launch:
    values: dict[str, Any] = {"node_count": max(1, len(ranks)), "pools": {}, "beside": {}, **changes}
    return Launch(
        "gb300",
        "multi_node_tp",
        "default",
        "image",
        values["node_count"],
        ranks,
        values["pools"],
        values["beside"],
    )


def rank(role: str, *words: str, **env: str) -> Rank:
    return Rank(role, ("vllm", "serve", "m", *words), env)


def names(plan: Plan) -> list[str]:
    return [correction.name for correction in plan.corrections]


def test_one_host_needs_no_correction_of_its_words() -> None:
    plan = official(recipe(rank("head", "--tensor-parallel-size", "8")))
    assert names(plan) == []
    assert plan.ranks[0].env == {}


def test_corrections_that_were_made_are_named() -> None:
    replicas = ("--tensor-parallel-size", "4", "--data-parallel-size", "2")
    plan = official(
        recipe(rank("head", *replicas), rank("worker", *replicas, "--data-parallel-start-rank", "1"))
    )
    assert names(plan) == ["headless-workers", "host-address"]
    assert plan.ranks[1].argv[-1] == "--headless"


def test_workers_that_balance_themselves_with_a_head_that_does_stay_as_they_are() -> None:
    replicas = ("--data-parallel-size", "2", "--data-parallel-hybrid-lb")
    plan = official(
        recipe(rank("head", *replicas), rank("worker", *replicas, "--data-parallel-start-rank", "1"))
    )
    assert names(plan) == ["host-address"]
    assert "--headless" not in plan.ranks[1].argv


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (recipe(rank("head", "--tensor-parallel-size", "12")), "power of two"),
        (recipe(rank("head", "--tensor-parallel-size", "8"), rank("worker"), rank("worker")), "on 3 hosts"),
        (
            recipe(
                rank("prefill", "--tensor-parallel-size", "8"),
                rank("decode", "--data-parallel-size", "4"),
                pools={"prefill": {"hosts": 2, "gpus": 8}, "decode": {"hosts": 2, "gpus": 8}},
            ),
            "decode: expected parallel sizes that make 8 GPUs",
        ),
    ],
)
def test_sums_that_do_not_fit_are_refused(made: Launch, message: str) -> None:
    with pytest.raises(BaselineError, match=message):
        official(made)


def test_every_correction_has_a_reason_and_is_documented() -> None:
    text = (Path(__file__).parents[4] / "docs/launch.md").read_text("utf-8")
    assert len({correction.name for correction in CORRECTIONS}) == len(CORRECTIONS)
    for correction in CORRECTIONS:
        assert correction.reason
        assert f"`{correction.name}`" in text, correction.name
