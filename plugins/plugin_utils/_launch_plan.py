# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch made from what was asked for: recipe, hosts, engine, diagnostics (private to the collection, controller
only).

Reads the recipe; connects to no host and writes nothing.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import Mount
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._diagnostics import with_diagnostics
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DOCKER,
    Image,
    Launch,
    ProcessOptions,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._render import secret_names
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_frozen import frozen
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_image import one_image
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_minimal import left_out, minimal
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import Plan, official
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_overrides import (
    checked,
    with_overrides,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_place import Place, Setup, placed
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe import read_recipe
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import Launch as RecipeLaunch

OFFICIAL, MINIMAL, FROZEN = "official", "minimal", "frozen"
NAMES = (MINIMAL, OFFICIAL, FROZEN)
# After so many days a pinned recipe is a warning.
STALE_DAYS = 14


@dataclass(frozen=True)
class Asked:
    """What a user asked for."""

    name: str
    source: str
    choice: Choice
    hosts: tuple[str, ...]
    engine: str = DOCKER
    image: str = ""
    process: ProcessOptions | None = None
    mounts: tuple[Mount, ...] | None = None
    placeholders: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: str = "none"
    # Levels of the finished runs of the reproduction, and names of the secrets that can be filled in.
    finished: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    run: str = ""


@dataclass(frozen=True)
class Recipe:
    """The official launch of a recipe, the image that its boundary names, and where it came from."""

    launch: RecipeLaunch
    image: str
    source: dict[str, Any]
    notes: tuple[str, ...] = ()


def recipe_of(source: str, choice: Choice, today: datetime.date) -> Recipe:
    """Read a recipe: pinned:NAME, or the path or URL of the JSON that the recipe site publishes."""
    if source.startswith(_boundary_pin.PINNED):
        return _pinned(source, choice, today)
    read = read_recipe(source, choice)
    if read.launch is None:
        raise BaselineError(
            f"{source}: expected a recipe with a launch, found none; name the JSON that the recipe site publishes, or "
            "a pinned one"
        )
    described = {**read.as_dict()["source"], "asked": source}
    image = str(read.boundary.value("image") or read.launch.image)
    return Recipe(read.launch, image, described, tuple(read.notes))


def _pinned(source: str, choice: Choice, today: datetime.date) -> Recipe:
    pin = _boundary_pin.load(source.removeprefix(_boundary_pin.PINNED))
    launch = pin.launch(pin.choice(choice.hardware, choice.strategy, choice.variant))
    if launch is None:
        raise BaselineError(
            f"{source}: expected a pinned boundary with launches, found none; name another source"
        )
    age = pin.age_days(today)
    notes = []
    if age > STALE_DAYS:
        notes.append(
            f"warning: the pinned recipe was checked {age} days ago; name its URL to have it read again"
        )
    return Recipe(launch, launch.image, {**pin.source, "asked": source, "age_days": age}, tuple(notes))


def plan(asked: Asked, recipe: Recipe, places: Sequence[Place], ids: Mapping[str, str] | None) -> Launch:
    """The official or the minimal launch that was asked for.

    ``ids`` are those of the image by host; None when nothing was measured and the launch is only shown.
    """
    overrides = checked(asked.overrides)
    setup = Setup(
        engine=asked.engine,
        image=_image(asked, recipe, ids),
        process=asked.process,
        mounts=asked.mounts,
        placeholders=asked.placeholders,
        run=asked.run,
    )
    whole = placed(_without(official(recipe.launch), overrides), places, setup)
    notes = (*recipe.notes, *whole.notes)
    whole = with_overrides(replace(whole, notes=notes, source=recipe.source), overrides)
    if asked.name == OFFICIAL:
        return _finished(whole, asked)
    small = with_overrides(minimal(whole), overrides)
    return _finished(replace(small, left_out=left_out(whole, small)), asked)


def _image(asked: Asked, recipe: Recipe, ids: Mapping[str, str] | None) -> Image | None:
    if asked.engine != DOCKER:
        return None
    reference = asked.image or recipe.image
    return Image(reference) if ids is None else one_image(reference, ids, asked.hosts)


def plan_frozen(asked: Asked, facts: Mapping[str, Any], source: Mapping[str, Any]) -> Launch:
    """The frozen launch of these hosts."""
    launch = replace(frozen(facts, asked.hosts, asked.run), source=dict(source))
    return _finished(with_overrides(launch, checked(asked.overrides)), asked)


def place_of(host: str, variables: Mapping[str, Any]) -> tuple[Place, str]:
    """A host as its inventory variables describe it, and how its address was come by."""
    address = str(variables.get("gpufleet_address") or "")
    how = "gpufleet_address" if address else ""
    given = str(variables.get("ansible_host") or "")
    if not address and _is_address(given):
        address, how = given, "ansible_host"
    port = variables.get("gpufleet_api_port")
    try:
        api_port = None if port in (None, "") else int(str(port))
    except ValueError:
        raise BaselineError(f"{host}: expected a number as gpufleet_api_port, found {port!r}") from None
    interface = str(variables.get("gpufleet_interface") or "")
    return Place(host, address, interface, api_port, str(variables.get("gpufleet_home") or "")), how


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_loopback
    except ValueError:
        return False


def _without(made: Plan, overrides: Mapping[str, Any]) -> Plan:
    """The plan without variables that the user takes out: their open names need no value."""
    gone = {name for name, value in (overrides.get("env") or {}).items() if value is None}
    ranks = tuple(
        replace(rank, env={name: value for name, value in rank.env.items() if name not in gone})
        for rank in made.ranks
    )
    return replace(made, ranks=ranks)


def _finished(launch: Launch, asked: Asked) -> Launch:
    launch = with_diagnostics(launch, asked.diagnostics, asked.finished)
    missing = _missing_secrets(launch, asked.secrets)
    if missing:
        raise BaselineError(
            f"expected in launch_secrets the secrets of the launch, found none for {', '.join(missing)}; take them "
            "from a file or a vaulted variable"
        )
    return launch


def _missing_secrets(launch: Launch, known: Iterable[str]) -> list[str]:
    needed = {name for rank in launch.ranks for name in secret_names(rank)}
    return sorted(needed - set(known))
