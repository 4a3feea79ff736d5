# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a plan of ranks to a launch on named hosts (private to the collection, controller only).

Pure. Addresses, interfaces, mounts and the engine are the user's; nothing of them is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    ContainerOptions,
    Gpus,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DECODE,
    DOCKER,
    PREFILL,
    PROCESS,
    Image,
    Launch,
    ProcessOptions,
    RankLaunch,
    Topology,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._resolve import HOME, resolve
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._topology import settled
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import (
    HOST_NETWORK,
    IMAGE_BY_ID,
    MEMLOCK,
    OPEN_NAMES,
    OWN_ADDRESS,
    Plan,
    Planned,
)

# The mount of the published docker command.
OFFICIAL_MOUNT = Mount("~/.cache/huggingface", "/root/.cache/huggingface")
# vLLM's own default; the recipe leaves it open.
DECODE_RPC_PORT = "29550"


@dataclass(frozen=True)
class Place:
    """A host of the launch group as the inventory describes it; an empty part is not known."""

    host: str
    address: str = ""
    interface: str = ""
    api_port: int | None = None
    home: str = ""


@dataclass(frozen=True)
class Setup:
    """What the recipe does not say: the engine, the image, and what belongs to the site."""

    engine: str = DOCKER
    image: Image | None = None
    process: ProcessOptions | None = None
    mounts: tuple[Mount, ...] | None = None
    gpus: Gpus = field(default_factory=Gpus)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    run: str = ""


def placed(plan: Plan, places: Sequence[Place], setup: Setup) -> Launch:
    """The official launch on these hosts, in their order: the first one is rank 0."""
    recipe = plan.recipe
    _check(plan, places, setup)
    names = _names(plan, places)
    ranks = tuple(
        _rank(planned, place, number, {**names, **_own_names(place), **setup.placeholders}, setup)
        for number, (planned, place) in enumerate(zip(plan.ranks, places, strict=True))
    )
    corrections = list(plan.corrections)
    if setup.engine == DOCKER:
        corrections += [HOST_NETWORK, MEMLOCK, IMAGE_BY_ID]
    if any(_is_open(word) for rank in plan.ranks for word in (*rank.argv, *rank.env.values())):
        corrections.append(OPEN_NAMES)
    notes = [correction.text for correction in corrections]
    if setup.engine == PROCESS:
        notes.append("a process of a virtual environment is not equivalent to the official image")
    notes += [
        f"beside the engines the recipe has a {name}, which is not started here" for name in recipe.beside
    ]
    return settled(
        Launch(
            "official",
            setup.engine,
            recipe.hardware,
            recipe.strategy,
            recipe.variant,
            "",
            Topology(len(places), plan.gpus),
            setup.image if setup.engine == DOCKER else None,
            ranks,
            notes=tuple(notes),
        )
    )


def container_name(run: str, node_rank: int) -> str:
    """The name of the container of a rank."""
    return f"gpufleet-{run}-{node_rank}"


def _is_open(word: str) -> bool:
    return "$" in word or word.startswith("~")


def _check(plan: Plan, places: Sequence[Place], setup: Setup) -> None:
    what = f"{plan.recipe.strategy} on {plan.recipe.hardware}"
    if len(places) != len(plan.ranks):
        raise BaselineError(
            f"{what}: expected {len(plan.ranks)} hosts in the launch group, found {len(places)} "
            f"({', '.join(place.host for place in places) or 'none'}); limit the play to as many, or choose another "
            "hardware or strategy"
        )
    if setup.engine == PROCESS and setup.process is None:
        raise BaselineError(
            "expected launch_process_executable for the engine process, found none; name the vllm"
        )
    if setup.engine == DOCKER and setup.image is None:
        raise BaselineError("expected an image for the engine docker, found none; name it with launch_image")


def _names(plan: Plan, places: Sequence[Place]) -> dict[str, str]:
    """Open names that are the same on every host."""
    names = {"HEAD_IP": places[0].address, "DECODE_DP_RPC_PORT": DECODE_RPC_PORT}
    for role in (PREFILL, DECODE):
        pool = [place for rank, place in zip(plan.ranks, places, strict=True) if rank.role == role]
        names.update({f"{role.upper()}_NODE_{number}": place.address for number, place in enumerate(pool, 1)})
    return names


def _own_names(place: Place) -> dict[str, str]:
    return {OWN_ADDRESS[1:]: place.address, "IFACE_NAME": place.interface, HOME: place.home}


def _rank(planned: Planned, place: Place, number: int, names: Mapping[str, str], setup: Setup) -> RankLaunch:
    argv = tuple(resolve(word, names, place.host) for word in planned.argv)
    env: dict[str, Any] = {name: resolve(value, names, place.host) for name, value in planned.env.items()}
    command = parse(argv)
    if place.api_port is not None and not command.is_on("--headless"):
        argv = command.with_value("--port", str(place.api_port)).words()
    rank = RankLaunch(place.host, number, planned.role, argv, env)
    if setup.engine == PROCESS:
        return replace(rank, process=setup.process)
    mounts = (OFFICIAL_MOUNT,) if setup.mounts is None else setup.mounts
    container = ContainerOptions(
        container_name(setup.run, number),
        gpus=setup.gpus,
        mounts=tuple(replace(mount, source=resolve(mount.source, names, place.host)) for mount in mounts),
        ulimits={"memlock": -1},
        privileged=True,
    )
    return replace(rank, container=container)
