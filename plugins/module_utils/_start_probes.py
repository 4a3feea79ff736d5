# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions that are the same for an engine in a container and for a plain one (private).

What was installed, which model, which caches: all are files, seen through the tree of the container or of
the process. Each path is its own probe, since each may lie on a mount that never answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._caches import (
    cache_places,
    home_of,
    measure_cache,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree
from ansible_collections.gpufleet.baseline.plugins.module_utils._dist_info import read_versions
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import (
    EngineCommand,
    flat_options,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._model_identity import (
    model_identity,
    wanted_models,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    Emit,
    ProbeFailure,
    ProbeSpec,
    Reading,
)

_VERSIONS_DEADLINE = 30.0
_MODEL_DEADLINE = 60.0
_CACHE_DEADLINE = 15.0
_TEXT_LIMIT = 1024 * 1024

# Files of a command line that are kept whole, as they decide how the engine starts.
TEXT_ROLES = ("config", "chat_template")


@dataclass(frozen=True)
class Start:
    """How an engine was started, as far as its files need it."""

    argv: List[str]
    environment: Mapping[str, str]
    user: str
    working_directory: str


StartOf = Callable[[], Start]
TreeOf = Callable[[], FileTree]


def file_probes(
    prefix: str, member: str, command: Optional[EngineCommand], start: StartOf, tree: TreeOf
) -> List[ProbeSpec]:
    """Versions, models, caches. ``start`` and ``tree`` are called in each probe, under its deadline."""

    def versions(emit: Emit) -> Reading:
        asked = start()
        value = read_versions(tree(), asked.environment, asked.argv)
        if not value["directories"]:
            raise ProbeFailure(ABSENT, "no site-packages or dist-packages where a start would look")
        return Reading(
            value, distribution_list(value["distributions"]), source=", ".join(value["directories"])
        )

    specs = [
        ProbeSpec(prefix + ".versions", versions, _VERSIONS_DEADLINE, member=member + "/distributions.txt")
    ]
    if command is not None:
        for index, (role, name) in enumerate(wanted_models(command)):
            kept = "%s/%s-%d.txt" % (member, role, index) if role in TEXT_ROLES else ""
            specs.append(
                _model_probe("%s.model.%d" % (prefix, index), role, name, command, start, tree, kept)
            )
    return specs + [_cache_probe(prefix + ".cache." + name, name, start, tree) for name in CACHES]


# By name, so that the list is the same whatever the environment says.
CACHES = [name for name, _path, _source in cache_places({}, "/", "")]


def _model_probe(
    probe: str, role: str, name: str, command: EngineCommand, start: StartOf, tree: TreeOf, member: str
) -> ProbeSpec:
    named = {"role": role, "name": name}

    def run(emit: Emit) -> Reading:
        emit(Reading(named, message="looking for %s" % name))
        try:
            asked, seen = start(), tree()
            home, _user = home_of(seen, asked.environment, asked.user)
            reading = model_identity(
                seen, name, asked.environment, home, asked.working_directory, command.options
            )
            if member and reading.value["kind"] == "file":
                reading.raw = seen.read(reading.value["path"], _TEXT_LIMIT)
        except ProbeFailure as failure:
            failure.reading.value = named
            raise
        if role == "config":
            reading.value["options"] = flat_options(reading.raw.decode("utf-8", "replace"))
        reading.value["role"] = role
        return reading

    return ProbeSpec(probe, run, _MODEL_DEADLINE, member=member)


def _cache_probe(probe: str, name: str, start: StartOf, tree: TreeOf) -> ProbeSpec:
    def run(emit: Emit) -> Reading:
        asked, seen = start(), tree()
        home, user = home_of(seen, asked.environment, asked.user)
        places = {key: (path, source) for key, path, source in cache_places(asked.environment, home, user)}
        path, source = places[name]
        place = {"name": name, "path": path, "decided_by": source}
        emit(Reading(place, message="walking %s" % path, source=path))
        try:
            reading = measure_cache(seen, path)
        except ProbeFailure as failure:
            failure.reading.value = place
            raise
        reading.value = {**reading.value, **place}
        return reading

    return ProbeSpec(probe, run, _CACHE_DEADLINE)


def distribution_list(distributions: List[Dict[str, str]]) -> bytes:
    """Names and versions, one a line, as pip freeze writes them."""
    lines = sorted({"%s==%s" % (record["name"], record["version"]) for record in distributions})
    return "".join(line + "\n" for line in lines).encode()
