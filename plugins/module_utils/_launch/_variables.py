# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch as a flat list of variables: what one rung can change (private to the collection; pure).

One variable has one value on all ranks (scope "") or one for each rank (scope: its number). What follows from
others (sizes of the topology, the port of the API) is no variable of its own.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import ContainerOptions
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import ON, parse, shown
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Launch,
    ProcessOptions,
    RankLaunch,
    Secret,
)

FLAG, ENV, CONTAINER, IMAGE, TOPOLOGY = "flag", "env", "container", "image", "topology"
ALL = ""

_SECRET = re.compile(r"^\(secret (?P<name>.*)\)$", re.S)
# Options of a container that are lists in which the order says nothing: each entry is a variable.
_LISTS = {"device": "devices", "capability": "cap_add", "security": "security_opt", "group": "group_add"}
_PLAIN = ("entrypoint", "network", "ipc", "shm_size", "gpus", "privileged", "workdir", "user")

# kind and name
Key = Tuple[str, str]


@dataclass(frozen=True)
class Variable:
    """One variable of a launch."""

    kind: str
    name: str
    value: str
    scope: str = ALL

    @property
    def text(self) -> str:
        """For people: as it is written in a command."""
        if self.kind == FLAG and self.name.startswith("--"):
            text = shown(self.name, self.value)
        elif self.kind == ENV:
            text = f"{self.name}={self.value}"
        else:
            text = self.name if self.value == ON else f"{self.name} {self.value}"
        return f"rank {self.scope}: {text}" if self.scope else text

    def as_dict(self) -> Dict[str, str]:
        """For documents."""
        return {"kind": self.kind, "name": self.name, "value": self.value, "scope": self.scope}


def variables(launch: Launch) -> List[Variable]:
    """All variables, those of the whole launch first."""
    found = [Variable(kind, name, value) for (kind, name), value in of_launch(launch).items()]
    by_rank = {rank.node_rank: of_rank(rank) for rank in launch.ranks}
    keys = dict.fromkeys(key for values in by_rank.values() for key in values)
    for key in keys:
        values = {number: values.get(key) for number, values in by_rank.items()}
        found += [Variable(*key, value, scope) for scope, value in _scoped(values)]
    return found


def of_rank(rank: RankLaunch) -> Dict[Key, str]:
    """The variables of one rank."""
    found: Dict[Key, str] = {(TOPOLOGY, "host"): rank.host, (TOPOLOGY, "role"): rank.role}
    command = parse(rank.argv)
    found[(FLAG, "program")] = " ".join(command.program)
    found.update({(FLAG, name): value for name, value in command.meaning().items()})
    for name, value in rank.env.items():
        found[(ENV, name)] = f"(secret {value.name})" if isinstance(value, Secret) else value
    if rank.container:
        found.update({(CONTAINER, name): value for name, value in _of_container(rank.container).items()})
    if rank.process:
        found[(CONTAINER, "executable")] = rank.process.executable
        found[(CONTAINER, "cwd")] = rank.process.cwd
    return found


def with_variable(launch: Launch, kind: str, name: str, value: Optional[str], scope: str = ALL) -> Launch:
    """The launch with one variable set, or taken out (None)."""
    if kind == IMAGE and launch.image:
        if value is None:
            raise BaselineError("expected an image for a launch of containers, found none; name one")
        which = "id" if value.startswith("sha256:") else "reference"
        return replace(launch, image=replace(launch.image, **{which: value}))
    if kind == TOPOLOGY and name == "diagnostics":
        return replace(launch, diagnostics=value or "none")
    if kind in (TOPOLOGY, IMAGE):
        raise BaselineError(
            f"expected a variable of the same launch group, found {kind} {name}; another group of hosts needs a "
            "launch of its own"
        )
    ranks = tuple(
        _set(rank, kind, name, value) if scope in (ALL, str(rank.node_rank)) else rank
        for rank in launch.ranks
    )
    return replace(launch, ranks=ranks)


def of_launch(launch: Launch) -> Dict[Key, str]:
    """The variables that are the same for all ranks by their nature."""
    found = {(TOPOLOGY, "engine"): launch.engine, (TOPOLOGY, "diagnostics"): launch.diagnostics}
    if launch.image:
        found[(IMAGE, "image")] = launch.image.id or launch.image.reference
    return found


def _scoped(values: Mapping[int, Optional[str]]) -> List[Tuple[str, str]]:
    """One value for all ranks, or the value of each rank that has one."""
    distinct = set(values.values())
    if len(distinct) == 1:
        (value,) = distinct
        return [] if value is None else [(ALL, value)]
    return [(str(number), value) for number, value in values.items() if value is not None]


def _of_container(options: ContainerOptions) -> Dict[str, str]:
    document = options.as_dict()
    found = {name: _text(document[name]) for name in _PLAIN if document[name] not in (None, "", False)}
    for mount in options.mounts:
        found[f"mount {mount.target}"] = mount.source + (" (read-only)" if mount.read_only else "")
    for name, limit in options.ulimits.items():
        found[f"ulimit {name}"] = str(limit)
    for name, key in _LISTS.items():
        found.update({f"{name} {entry}": ON for entry in document[key]})
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _set(rank: RankLaunch, kind: str, name: str, value: Optional[str]) -> RankLaunch:
    return _SETTERS[kind](rank, name, value)


def _set_flag(rank: RankLaunch, name: str, value: Optional[str]) -> RankLaunch:
    command = parse(rank.argv)
    if name == "program" or name.startswith("word["):
        raise BaselineError(f"expected a flag of vllm serve, found {name}; it cannot be changed by itself")
    changed = command.without(name) if value is None else command.with_value(name, value)
    return replace(rank, argv=changed.words())


def _set_env(rank: RankLaunch, name: str, value: Optional[str]) -> RankLaunch:
    env = dict(rank.env)
    if value is None:
        env.pop(name, None)
    else:
        secret = _SECRET.match(value)
        env[name] = Secret(secret.group("name")) if secret else value
    return replace(rank, env=env)


def _set_container(rank: RankLaunch, name: str, value: Optional[str]) -> RankLaunch:
    if rank.process:
        return replace(rank, process=_process(rank.process, name, value))
    if not rank.container:
        raise BaselineError(
            f"rank {rank.node_rank}: expected container options, found none; {name} needs them"
        )
    document = rank.container.as_dict()
    sort, _space, entry = name.partition(" ")
    if sort == "mount":
        kept = [mount for mount in document["mounts"] if mount["target"] != entry]
        if value is not None:
            source = value[: -len(" (read-only)")] if value.endswith(" (read-only)") else value
            kept.append({"source": source, "target": entry, "read_only": source != value})
        document["mounts"] = kept
    elif sort == "ulimit":
        document["ulimits"].pop(entry, None)
        if value is not None:
            document["ulimits"][entry] = int(value)
    elif sort in _LISTS:
        kept = [found for found in document[_LISTS[sort]] if found != entry]
        document[_LISTS[sort]] = kept if value is None else [*kept, entry]
    elif name in _PLAIN:
        default = ContainerOptions().as_dict()[name]
        empty = "" if isinstance(default, str) else default
        document[name] = empty if value is None else value if isinstance(default, str) else json.loads(value)
    else:
        raise BaselineError(f"expected an option of a container, found {name}")
    return replace(rank, container=ContainerOptions.from_dict(document))


def _process(options: ProcessOptions, name: str, value: Optional[str]) -> ProcessOptions:
    if name not in ("executable", "cwd"):
        raise BaselineError(f"expected an option of a process (executable, cwd), found {name}")
    return replace(options, **{name: value or ""})


_SETTERS: Mapping[str, Callable[[RankLaunch, str, Optional[str]], RankLaunch]] = {
    FLAG: _set_flag,
    ENV: _set_env,
    CONTAINER: _set_container,
}
KINDS: Sequence[str] = (FLAG, ENV, CONTAINER, IMAGE, TOPOLOGY)
