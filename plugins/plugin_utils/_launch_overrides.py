# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user declares on top of a recipe, for the official launch and all that come from it (private to the
collection, controller only).

Pure. Such as the path of the model on the hosts, flags of a site, options of the container. They are recorded in the
launch, so that nobody takes them for the recipe's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import ContainerOptions
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import OFF, ON, parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Launch,
    RankLaunch,
    Secret,
    Value,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._topology import settled
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import names_secret

_PARTS = ("model", "flags", "env", "container")
_NAME = "container.name"


def checked(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides as they are recorded; an error names the part that is not as it should be."""
    strange = sorted(set(overrides) - set(_PARTS))
    if strange:
        raise BaselineError(f"launch_overrides: expected {', '.join(_PARTS)}; found {strange[0]}")
    found: dict[str, Any] = {}
    model = overrides.get("model")
    if model is not None:
        if not isinstance(model, str) or not model or model.startswith("-"):
            _wrong("the name or path of a model", model, "model")
        found["model"] = model
    for part in ("flags", "env", "container"):
        values = overrides.get(part) or {}
        if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
            _wrong("a mapping", values, part)
        if values:
            found[part] = dict(values)
    for name in found.get("flags", {}):
        if not name.startswith("--") or name.startswith("--no-") or "=" in name or "." in name:
            _wrong("a flag by its long name such as --max-model-len (false for its negative)", name, "flags")
    for name, value in found.get("env", {}).items():
        _check_variable(name, value)
    if "name" in found.get("container", {}):
        _wrong("no name: the run names its containers", found["container"]["name"], _NAME)
    return found


def with_overrides(launch: Launch, overrides: Mapping[str, Any]) -> Launch:
    """The launch with the overrides on every rank. Made twice it is the same."""
    if not overrides:
        return launch
    ranks = tuple(_rank(rank, overrides) for rank in launch.ranks)
    return settled(replace(launch, ranks=ranks, overrides=dict(overrides)))


def _check_variable(name: str, value: Any) -> None:
    if isinstance(value, Mapping):
        if set(value) != {"secret"} or not isinstance(value["secret"], str):
            _wrong("a text or {secret: NAME}", "another mapping", f"env.{name}")
    elif value is not None and not isinstance(value, (str, int, float)):
        _wrong("a text", type(value).__name__, f"env.{name}")
    elif value is not None and names_secret(name, _text(value)):
        # Not shown: it may be the secret itself.
        _wrong("{secret: NAME}, with the value in launch_secrets, for what its name calls a secret", "it in plain text",
               f"env.{name}")  # fmt: skip


def _rank(rank: RankLaunch, overrides: Mapping[str, Any]) -> RankLaunch:
    command = parse(rank.argv)
    if overrides.get("model"):
        command = command.with_value("model", overrides["model"])
    for name, value in overrides.get("flags", {}).items():
        command = command.without(name) if value is None else command.with_value(name, _worth(value))
    env: dict[str, Value] = dict(rank.env)
    for name, value in overrides.get("env", {}).items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = Secret(value["secret"]) if isinstance(value, Mapping) else _text(value)
    rank = replace(rank, argv=command.words(), env=env)
    given = overrides.get("container")
    if not given or rank.container is None:
        return rank
    document = {**rank.container.as_dict(), **given}
    return replace(rank, container=ContainerOptions.from_dict(document, "launch_overrides.container"))


def _worth(value: Any) -> str:
    if isinstance(value, bool):
        return ON if value else OFF
    if isinstance(value, (dict, list)):
        return json.dumps(value, separators=(",", ":"))
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _wrong(expected: str, found: Any, where: str) -> None:
    raise BaselineError(f"launch_overrides: expected {expected} at {where}, found {found!r}")
