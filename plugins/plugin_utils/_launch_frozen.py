# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch that a freeze found, from its sealed facts (private to the collection, controller only).

Pure. What stands in the facts is the launch; what a record does not hold, or a launch of ours has no word for, is
named in its notes. The value of a secret is in no record: the launch refers to it by the name of its variable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    DOCKER,
    HEAD,
    PROCESS,
    WORKER,
    Image,
    Launch,
    ProcessOptions,
    RankLaunch,
    Secret,
    Topology,
    Value,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._topology import settled
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import STAND_IN_START
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_frozen_container import (
    options_of,
    own_variables,
)

_HIDDEN = STAND_IN_START.decode()
# Flags whose value vLLM also takes from a variable.
_AS_VARIABLE = {"--api-key": "VLLM_API_KEY", "--hf-token": "HF_TOKEN"}
# Of a login or a service manager, not of the launch.
_OF_THE_LOGIN = re.compile(
    r"^(_|PWD|OLDPWD|SHLVL|TERM|COLUMNS|LINES|SHELL|MAIL|LOGNAME|USER|LANG|LC_.*|LS_COLORS|SSH_.*|XDG_.*|DBUS_.*|"
    r"TMUX.*|STY|SUDO_.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*|NOTIFY_SOCKET|MANAGERPID|MEMORY_PRESSURE_.*)$"
)


@dataclass
class _Found:
    """One engine on one host, before it has its number."""

    host: str
    argv: tuple[str, ...]
    env: dict[str, Value]
    container: Any = None
    process: ProcessOptions | None = None
    image: Image | None = None
    notes: list[str] = field(default_factory=list)


def frozen(facts: Mapping[str, Any], hosts: Sequence[str], run: str = "") -> Launch:
    """The launch that ran, or was the last to run, on these hosts."""
    found = [engine for host in hosts for engine in _engines(host, facts.get(host))]
    kinds = {PROCESS if engine.process else DOCKER for engine in found}
    if len(kinds) != 1:
        raise BaselineError(
            f"expected one kind of engine on all hosts of the frozen run, found {' and '.join(sorted(kinds))}; "
            "freeze one launch group at a time"
        )
    ranks = tuple(_rank(engine, number, run) for number, engine in enumerate(sorted(found, key=_number)))
    command = parse(ranks[0].argv)
    sizes = [command.number(f"--{kind}-parallel-size", 1) for kind in ("tensor", "pipeline", "data")]
    notes = [f"{engine.host}: {note}" for engine in found for note in engine.notes]
    launch = Launch(
        "frozen",
        kinds.pop(),
        "",
        "",
        "",
        command.value("--model") or "",
        Topology(len(hosts), sizes[0] * sizes[1] * sizes[2]),
        _one_image(found),
        ranks,
        notes=tuple(dict.fromkeys(notes)),
    )
    return settled(launch)


def _engines(host: str, facts: Any) -> list[_Found]:
    engine = facts.get("engine") if isinstance(facts, Mapping) else None
    if not isinstance(engine, Mapping):
        raise BaselineError(f"{host}: expected the facts of a freeze, found none; freeze this host first")
    containers = [item for item in engine.get("containers") or [] if item.get("engine_command")]
    if containers:
        return [_container(host, item) for item in _latest(containers)]
    processes = [item for item in engine.get("plain_processes") or [] if item.get("engine_command")]
    if not processes:
        raise BaselineError(
            f"{host}: expected a container or process of vLLM in the frozen facts, found none; name another run"
        )
    by_pid = {item.get("pid"): item for item in engine.get("processes") or []}
    return [_process(host, by_pid.get(item["pid"]) or {}) for item in processes]


def _latest(containers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that run; when none does, the one that was started last."""
    running = [item for item in containers if (item.get("state") or {}).get("running")]
    if running:
        return running
    return [max(containers, key=lambda item: str((item.get("state") or {}).get("started") or ""))]


def _container(host: str, facts: Mapping[str, Any]) -> _Found:
    notes: list[str] = []
    own = own_variables(facts)
    given = environment_of(facts.get("environment"))
    env = _env({name: value for name, value in given.items() if own is None or name in own})
    if own is None:
        notes.append("the variables of the image could not be told from those of the launch: all are in it")
    argv = _without_secrets(host, tuple(str(word) for word in facts.get("command") or ()), env, notes)
    image = facts.get("image") or {}
    found = _Found(
        host, argv, env, image=Image(str(image.get("name") or ""), str(image.get("id") or "")), notes=notes
    )
    found.container = options_of(facts, argv, notes)
    return found


def _process(host: str, facts: Mapping[str, Any]) -> _Found:
    notes: list[str] = []
    given = facts.get("environment")
    if not isinstance(given, list):
        raise BaselineError(
            f"{host}: expected the environment of the frozen process, found none (it was not readable); freeze with "
            "become"
        )
    values = environment_of(given)
    dropped = sorted(name for name in values if _OF_THE_LOGIN.match(name))
    env = _env({name: value for name, value in values.items() if name not in dropped})
    if dropped:
        notes.append(f"variables of the login are left out: {', '.join(dropped)}")
    words = tuple(str(word) for word in facts.get("argv") or ())
    argv = _without_secrets(host, words, env, notes)
    program = parse(argv).program
    # A script is started by its interpreter: `python /venv/bin/vllm serve`.
    start = len(program) - 2 if program[-1:] == ("serve",) and program[-2].startswith("/") else 0
    executable = argv[start] if argv[start].startswith("/") else str(facts.get("executable") or "")
    if not executable.startswith("/"):
        raise BaselineError(
            f"{host}: expected the path of the frozen process's program, found {executable or 'none'}"
        )
    argv = ("vllm", *argv[start + 1 :]) if start else argv
    options = ProcessOptions(executable, str(facts.get("working_directory") or ""))
    return _Found(host, argv, env, process=options, notes=notes)


def _env(values: Mapping[str, str]) -> dict[str, Value]:
    """Values with a part that was taken out are secrets as a whole."""
    return {name: Secret(name) if _HIDDEN in value else value for name, value in values.items()}


def _without_secrets(
    host: str, argv: tuple[str, ...], env: dict[str, Value], notes: list[str]
) -> tuple[str, ...]:
    command = parse(argv)
    for name, value in command.meaning().items():
        if _HIDDEN not in value:
            continue
        variable = _AS_VARIABLE.get(name)
        if variable is None:
            raise BaselineError(
                f"{host}: expected no secret in the words of the frozen launch but {', '.join(_AS_VARIABLE)}, found "
                f"{name}; it cannot be rebuilt"
            )
        command = command.without(name)
        env[variable] = Secret(variable)
        notes.append(f"the secret of {name} is given as {variable}")
    return command.words()


def _number(engine: _Found) -> tuple[int, int]:
    command = parse(engine.argv)
    return command.number("--node-rank", 0), command.number("--data-parallel-start-rank", 0)


def _rank(engine: _Found, number: int, run: str) -> RankLaunch:
    container = engine.container(run, number) if engine.container else None
    role = WORKER if number else HEAD
    return RankLaunch(
        engine.host, number, role, engine.argv, engine.env, container=container, process=engine.process
    )


def _one_image(found: Sequence[_Found]) -> Image | None:
    images: dict[str, list[str]] = {}
    for engine in found:
        if engine.image:
            images.setdefault(engine.image.id, []).append(engine.host)
    if len(images) > 1:
        told = "; ".join(f"{identifier[:19]} on {', '.join(hosts)}" for identifier, hosts in images.items())
        raise BaselineError(f"expected one image in the frozen launch, found {told}; a launch has one image")
    return next((engine.image for engine in found if engine.image), None)
