# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans the launch of a group on the controller, shows it, and writes it into the run; connects to no host."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import Mount
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DIAGNOSTICS,
    DOCKER,
    ENGINES,
    Launch,
    ProcessOptions,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._render import (
    command_text,
    secret_names,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _launch_plan, _launch_shown, _run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt_allowed import sealed_record
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt_files import LAUNCH, VERDICT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_image import id_in_facts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_official import READY_TIMEOUT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain


class ActionModule(ActionBase):
    """Called once for the group; in check mode the launch is shown and not written."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the launch."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(argument_spec())
        run = _run.Run(Path(arguments["run"])) if arguments["run"] else None
        try:
            launch, addresses = _planned(arguments, run, task_vars or {})
            for line in ["", *_launch_shown.render(launch, run.name if run else "", addresses), ""]:
                self._display.display(plain(line))
            for note in launch.notes:
                if note.startswith("warning: "):
                    self._display.warning(note.removeprefix("warning: "))
            written = _write(run, launch) if run is not None and not self._task.check_mode else ""
        except (BaselineError, OSError) as error:
            raise AnsibleActionFail(f"launch_plan: {error}") from None
        return {**result, "changed": False, **_told(launch, written)}


def argument_spec() -> dict[str, Any]:
    """The options of the action."""
    mount = {
        "source": {"type": "str", "required": True},
        "target": {"type": "str", "required": True},
        "read_only": {"type": "bool", "default": False},
    }
    return {
        "run": {"type": "str", "default": ""},
        "name": {"type": "str", "default": "minimal", "choices": list(_launch_plan.NAMES)},
        "source": {"type": "str", "default": "pinned:kimi-k3"},
        "hardware": {"type": "str", "default": ""},
        "strategy": {"type": "str", "default": ""},
        "variant": {"type": "str", "default": "default"},
        "hosts": {"type": "list", "elements": "str", "required": True},
        "engine": {"type": "str", "default": DOCKER, "choices": list(ENGINES)},
        "image": {"type": "str", "default": ""},
        "images": {"type": "dict", "default": {}},
        "process_executable": {"type": "str", "default": ""},
        "process_directory": {"type": "str", "default": ""},
        "mounts": {"type": "list", "elements": "dict", "options": mount},
        "env": {"type": "dict", "default": {}},
        "overrides": {"type": "dict", "default": {}},
        "placeholders": {"type": "dict", "default": {}},
        "secrets": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "diagnostics": {"type": "str", "default": "none", "choices": list(DIAGNOSTICS)},
        "frozen_run": {"type": "str", "default": ""},
    }


def _planned(
    arguments: dict[str, Any], run: _run.Run | None, task_vars: dict[str, Any]
) -> tuple[Launch, dict[str, str]]:
    """The launch, and of each host's address how it was come by."""
    asked = _asked(arguments, run)
    if asked.name == _launch_plan.FROZEN:
        facts, runs = _frozen_facts(arguments["frozen_run"], run, asked.hosts)
        return _launch_plan.plan_frozen(asked, facts, {"location": ", ".join(runs)}), {}
    recipe = _launch_plan.recipe_of(asked.source, asked.choice, datetime.datetime.now(datetime.UTC).date())
    places, addresses = [], {}
    for host in asked.hosts:
        place, how = _launch_plan.place_of(host, _variables(host, task_vars))
        places.append(place)
        if how == "ansible_host" and len(asked.hosts) > 1:
            addresses[host] = f"{place.address}, from ansible_host: gpufleet_address is not set"
    ids = {str(host): str(found) for host, found in arguments["images"].items()}
    if not ids and run is not None:
        reference = asked.image or recipe.image
        ids = {host: id_in_facts(reference, _facts(run, host)) for host in asked.hosts}
    # Nothing is started without a run, so that an image that nobody has looked for may be shown by its name.
    return _launch_plan.plan(asked, recipe, places, ids or None), addresses


def _variables(host: str, task_vars: dict[str, Any]) -> Any:
    hostvars = task_vars.get("hostvars") or {}
    if host not in hostvars:
        raise BaselineError(f"expected hosts of the inventory in hosts, found {host}; see its spelling")
    return hostvars[host]


def _asked(arguments: dict[str, Any], run: _run.Run | None) -> _launch_plan.Asked:
    overrides = dict(arguments["overrides"])
    if arguments["env"]:
        given = overrides.get("env") or {}
        overrides["env"] = {**arguments["env"], **(given if isinstance(given, dict) else {})}
    executable, mounts = arguments["process_executable"], arguments["mounts"]
    return _launch_plan.Asked(
        name=arguments["name"],
        source=arguments["source"],
        choice=Choice(arguments["hardware"], arguments["strategy"], arguments["variant"]),
        hosts=tuple(arguments["hosts"]),
        engine=arguments["engine"],
        image=arguments["image"],
        process=ProcessOptions(executable, arguments["process_directory"]) if executable else None,
        mounts=None if mounts is None else tuple(Mount(**mount) for mount in mounts),
        placeholders={str(name): str(value) for name, value in arguments["placeholders"].items()},
        overrides=overrides,
        diagnostics=arguments["diagnostics"],
        finished=_finished_levels(run),
        secrets=tuple(arguments["secrets"]),
        run=run.name if run else "run",
    )


def _finished_levels(run: _run.Run | None) -> tuple[str, ...]:
    """Diagnostics of the earlier runs of the reproduction that were judged."""
    found = []
    for other in _run.runs(run.reproduction) if run else []:
        if (
            run
            and other.name != run.name
            and (other.path / VERDICT).is_file()
            and (other.path / LAUNCH).is_file()
        ):
            found.append(str(_run.read_json(other.path / LAUNCH).get("diagnostics", "none")))
    return tuple(found)


def _facts(run: _run.Run | None, host: str) -> Any:
    """The facts that the gate or a freeze put into the run; None when there are none."""
    path = run.path / "facts" / f"{_run.safe_name(host)}.json" if run else None
    return _run.read_json(path) if path and path.is_file() else None


def _frozen_facts(
    wanted: str, run: _run.Run | None, hosts: tuple[str, ...]
) -> tuple[dict[str, Any], list[str]]:
    """Facts of the hosts from one run, or of each host from the newest run with its sealed record."""
    facts, names = {}, {}
    for host in hosts:
        found = _run.Run(Path(wanted)) if wanted else sealed_record(run.reproduction, host) if run else None
        if found is None:
            raise BaselineError(
                f"{host}: expected a sealed record in the reproduction, found none; run freeze.yml into it first, or "
                "name the run with launch_frozen_run"
            )
        facts[host] = _facts(found, host)
        names[str(found.path)] = True
    return facts, list(names)


def _write(run: _run.Run, launch: Launch) -> str:
    """Write the launch into its run, where it stays."""
    path = run.path / LAUNCH
    document = {**launch.document(), "command": _launch_shown.commands(launch)}
    if path.is_file():
        there = _run.read_json(path)
        if not isinstance(there, dict) or there.get("sha256") != document["sha256"]:
            raise BaselineError(f"expected a run without another launch, found {path}; begin a new run")
        return str(path)
    _run.write_json(path, document)
    return str(path)


def _told(launch: Launch, written: str) -> dict[str, Any]:
    timeouts = [str(rank.env.get(READY_TIMEOUT, "600")) for rank in launch.ranks]
    return {
        "launch": launch.document(),
        "path": written,
        "sha256": launch.sha256(),
        "api": {rank.host: rank.api_port for rank in launch.ranks if rank.api_port},
        "commands": {str(rank.node_rank): command_text(launch, rank) for rank in launch.ranks},
        "secrets_needed": sorted({name for rank in launch.ranks for name in secret_names(rank)}),
        "ready_seconds": max(int(text) if text.isdigit() else 600 for text in timeouts),
    }
