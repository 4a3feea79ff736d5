# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The official launch of a recipe, whole: every rank, with the corrections that it cannot start without (private to
the collection, controller only).

Pure. Words and variables are the recipe's own, one for one, except for the corrections below, each of which is
named with its reason in the launch it was made in. Sources are vLLM 0.32.0 and the recipes of
https://github.com/vllm-project/recipes at commit 8959cf6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import ON, Command, parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DECODE,
    PREFILL,
    WORKER,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _recipe_launch

READY_TIMEOUT = "VLLM_ENGINE_READY_TIMEOUT_S"
READY_SECONDS = "3600"
HOST_ADDRESS = "VLLM_HOST_IP"
SIDE_CHANNEL = "VLLM_NIXL_SIDE_CHANNEL_HOST"
# The name that stands for the address of the host itself.
OWN_ADDRESS = "$OWN_IP"


@dataclass(frozen=True)
class Correction:
    """What is done otherwise than the recipe's published launch says."""

    name: str
    what: str
    reason: str

    @property
    def text(self) -> str:
        """For the notes of a launch."""
        return f"correction {self.name}: {self.what}; {self.reason}"


# Of words and variables.
HEADLESS_WORKERS = Correction(
    "headless-workers",
    "--headless on every host but the first of multi_node_tp_dp",
    "the first host balances over all replicas and takes only headless ones, the others balance for themselves as "
    "soon as they have --data-parallel-start-rank (vllm/v1/engine/utils.py, remote_should_be_headless)",
)
POOL_RANKS = Correction(
    "pool-ranks",
    "node rank or start rank, --headless and the address of the side channel of every further host of a pool",
    "of a disaggregated launch only the first host of each pool is published",
)
POOL_READY_TIMEOUT = Correction(
    "pool-ready-timeout",
    f"{READY_TIMEOUT}={READY_SECONDS} on both pools",
    "the recipe's override of the hardware replaces its own 3600 s there, and vLLM's 600 s are below the time of a "
    "load",
)
OWN_HOST_ADDRESS = Correction(
    "host-address",
    f"{HOST_ADDRESS} of each host, when there are several",
    "without it vLLM takes the address of the default route, which may be the management network",
)
# Of the container, and of names.
HOST_NETWORK = Correction(
    "host-network",
    "--network host in place of -p",
    "interface names and the many random ports of a group exist only in the host's network",
)
OPEN_NAMES = Correction(
    "open-names",
    "$HEAD_IP, $IFACE_NAME and the like, and ~, filled per host",
    "the published words hold them literally",
)
MEMLOCK = Correction(
    "memlock",
    "--ulimit memlock=-1",
    "a container of the Engine has a small limit, and memory that RDMA or NCCL registers must be locked",
)
IMAGE_BY_ID = Correction(
    "image-by-id",
    "the image by the id that all hosts hold",
    "the published launch says latest, the recipe's guide another tag, and both move",
)
CORRECTIONS = (
    *(HEADLESS_WORKERS, POOL_RANKS, POOL_READY_TIMEOUT, OWN_HOST_ADDRESS),
    *(HOST_NETWORK, OPEN_NAMES, MEMLOCK, IMAGE_BY_ID),
)


@dataclass(frozen=True)
class Planned:
    """One rank, with names still open; ``pool_rank`` is its number among the hosts of its part."""

    role: str
    argv: tuple[str, ...]
    env: dict[str, str]
    pool_rank: int


@dataclass(frozen=True)
class Plan:
    """All ranks of an official launch, and the corrections that were made."""

    recipe: _recipe_launch.Launch
    ranks: tuple[Planned, ...]
    corrections: tuple[Correction, ...]

    @property
    def gpus(self) -> int:
        """How many GPUs it takes."""
        return self.recipe.gpus

    @property
    def is_disaggregated(self) -> bool:
        """Whether it has a pool for the prefill and one for the decode."""
        return bool(self.recipe.pools)


def official(recipe: _recipe_launch.Launch) -> Plan:
    """Every rank of a recipe's launch; one that cannot start as it was published is refused."""
    _refuse(recipe)
    plan = Plan(recipe, _every_rank(recipe), (POOL_RANKS,) if recipe.pools else ())
    for correct in (_headless_workers, _pool_ready_timeout, _own_host_address):
        plan = correct(plan)
    return plan


def _refuse(recipe: _recipe_launch.Launch) -> None:
    """The sums that every launch group must satisfy."""
    pools = recipe.pools or {"": {"hosts": recipe.hosts, "gpus": recipe.gpus}}
    by_role = {rank.role: rank for rank in recipe.ranks}
    for role, pool in pools.items():
        rank = by_role[role] if role else recipe.ranks[0]
        command = parse(rank.argv)
        where = f"{recipe.hardware} {recipe.strategy}" + (f" {role}" if role else "")
        tensor = command.number("--tensor-parallel-size", 1)
        sizes = [command.number(f"--{kind}-parallel-size", 1) for kind in ("pipeline", "data")]
        if tensor * math.prod(sizes) != pool["gpus"] or pool["gpus"] % max(1, pool["hosts"]):
            raise BaselineError(
                f"{where}: expected parallel sizes that make {pool['gpus']} GPUs on {pool['hosts']} hosts, found "
                f"{tensor} x {' x '.join(map(str, sizes))}; choose another strategy"
            )
        if tensor & (tensor - 1):
            raise BaselineError(
                f"{where}: expected a tensor parallel size that divides the model's heads and experts (a power of "
                f"two), found {tensor} of the published launch; choose another strategy"
            )


def _every_rank(recipe: _recipe_launch.Launch) -> tuple[Planned, ...]:
    if not recipe.pools:
        return tuple(
            Planned(rank.role, rank.argv, dict(rank.env), number) for number, rank in enumerate(recipe.ranks)
        )
    return tuple(
        _pool_rank(rank, number)
        for rank in recipe.ranks
        for number in range(max(1, recipe.pools[rank.role]["hosts"]))
    )


def _pool_rank(first: _recipe_launch.Rank, number: int) -> Planned:
    """A host of a pool, made from the first one as vLLM's documentation of its parallel modes has it."""
    if not number:
        return Planned(first.role, first.argv, dict(first.env), 0)
    command = parse(first.argv)
    if command.value("--node-rank") is not None:
        command = command.with_value("--node-rank", str(number)).with_value("--headless", ON)
    else:
        local = command.number("--data-parallel-size-local", 1)
        command = command.with_value("--data-parallel-start-rank", str(number * local))
    env = {name: OWN_ADDRESS if name == SIDE_CHANNEL else value for name, value in first.env.items()}
    return Planned(first.role, command.words(), env, number)


def _corrected(plan: Plan, correction: Correction, change: Callable[[Planned], Planned]) -> Plan:
    ranks = tuple(change(rank) for rank in plan.ranks)
    if ranks == plan.ranks:
        return plan
    return replace(plan, ranks=ranks, corrections=(*plan.corrections, correction))


def _headless_workers(plan: Plan) -> Plan:
    def change(rank: Planned) -> Planned:
        command = parse(rank.argv)
        if rank.role != WORKER or not _is_remote_replica(command):
            return rank
        return replace(rank, argv=command.with_value("--headless", ON).words())

    head = parse(plan.ranks[0].argv)
    return plan if head.is_on("--data-parallel-hybrid-lb") else _corrected(plan, HEADLESS_WORKERS, change)


def _is_remote_replica(command: Command) -> bool:
    return command.value("--data-parallel-start-rank") is not None and not command.is_on("--headless")


def _pool_ready_timeout(plan: Plan) -> Plan:
    def change(rank: Planned) -> Planned:
        if rank.role not in (PREFILL, DECODE) or READY_TIMEOUT in rank.env:
            return rank
        return replace(rank, env={**rank.env, READY_TIMEOUT: READY_SECONDS})

    return _corrected(plan, POOL_READY_TIMEOUT, change)


def _own_host_address(plan: Plan) -> Plan:
    if len(plan.ranks) == 1:
        return plan
    return _corrected(
        plan, OWN_HOST_ADDRESS, lambda rank: replace(rank, env={**rank.env, HOST_ADDRESS: OWN_ADDRESS})
    )
