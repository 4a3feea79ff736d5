# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boundary that holds in this run: the pin, the recipe as it is now, and what changed (private,
controller only).

A configured recipe is read again for every run. Offline the pin holds, with a warning. Anything else that
is wrong with the recipe is an error: a boundary is never guessed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin, _recipe_source
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Boundary, Choice, stricter
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import RecipeState
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe import read_recipe
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import Launch
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, read_json, runs


@dataclass(frozen=True)
class Held:
    """The boundary and launch that hold, and where they came from."""

    boundary: Boundary
    launch: Launch | None
    state: RecipeState
    sources: tuple[dict[str, Any], ...] = ()


def hold(
    pin_name: str,
    recipe: str,
    choice: Choice,
    today: datetime.date,
    read: Callable[[str], _recipe_source.Source] = _recipe_source.read,
) -> Held:
    """Read the pin and, when one is configured, the recipe."""
    pin = _boundary_pin.load(pin_name)
    chosen = pin.choice(choice.hardware, choice.strategy, choice.variant)
    boundary, launch = pin.boundary(chosen), pin.launch(chosen)
    state = RecipeState(pin.name, pin.age_days(today))
    pinned = {"location": f"pinned:{pin.name}", **pin.source}
    if not recipe:
        return Held(boundary, launch, state, (pinned,))
    state = replace(state, configured=_recipe_source.shown(recipe))
    try:
        live = read_recipe(recipe, chosen, read)
    except _recipe_source.RecipeUnreachable as error:
        return Held(boundary, launch, replace(state, unreachable=str(error)), (pinned,))
    held, differences = stricter(boundary, live.boundary)
    first = live.sources[0]
    state = replace(
        state, live_commit=first.commit, live_read_at=first.read_at, differences=tuple(differences)
    )
    notes = tuple(dict.fromkeys([*held.notes, *live.notes]))
    sources = (pinned, *(source.as_dict() for source in live.sources))
    return Held(replace(held, notes=notes), live.launch or launch, state, sources)


def with_change(state: RecipeState, run: Run | None, sources: tuple[dict[str, Any], ...]) -> RecipeState:
    """The state with what changed since the last gate of the reproduction."""
    return replace(state, changed_since_last_run=_changed_since(run, sources))


def _changed_since(run: Run | None, sources: tuple[dict[str, Any], ...]) -> str:
    """How the recipe differs from the one of the last gate in the reproduction; empty when it does not."""
    if run is None or not run.reproduction.is_dir():
        return ""
    now = _hashes(sources)
    for other in reversed(runs(run.reproduction)):
        path = other.path / "gate.json"
        if other.name == run.name or not path.is_file():
            continue
        try:
            before = _hashes(read_json(path).get("sources") or ())
        except (BaselineError, AttributeError) as error:
            return f"whether the recipe changed is not known: {path}: {error}"
        changed = [name for name in now if name in before and now[name] != before[name]]
        told = f"the recipe changed since the last run: {', '.join(changed)} (against {other.name})"
        return told if changed else ""
    return ""


def _hashes(sources: Any) -> dict[str, str]:
    """The sha256 of each file by its place."""
    return {
        str(source.get("location")): str(source.get("pin_sha256") or source.get("sha256"))
        for source in sources
        if isinstance(source, Mapping)
    }
