# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All questions about one container, in whatever state it is (private to the collection)."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import (
    FileTree,
    process_tree,
    stopped_tree,
    storage_name,
    told_layers,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._containers import (
    Choice,
    command_of,
    describe,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._devices import visible_devices
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._dist_info import version_paths
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import EngineCommand, find_engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    SKIPPED,
    Emit,
    ProbeFailure,
    ProbeSpec,
    Reading,
    outcome_of,
    read_file,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import container_ids
from ansible_collections.gpufleet.baseline.plugins.module_utils._snapshots import find_layers
from ansible_collections.gpufleet.baseline.plugins.module_utils._start_probes import Start, file_probes

_GROUP = "docker"
_SMALL_FILE_LIMIT = 64 * 1024


def one_container(
    choice: Choice, found: Discovery, options: Mapping[str, Any], member: str
) -> List[ProbeSpec]:
    """Every question about one container; names begin with ``container.<short id>``."""
    inspect = found.inspects[choice.identifier]
    prefix = "container." + choice.short
    config = inspect.get("Config") or {}

    def start() -> Start:
        environment = environment_of(config.get("Env"))
        return Start(
            command_of(inspect), environment, str(config.get("User") or ""), config.get("WorkingDir") or "/"
        )

    def tree() -> FileTree:
        return tree_of(inspect, str(found.info.get("DockerRootDir") or ""))

    specs = [
        ProbeSpec(
            prefix + ".inspect",
            lambda emit: _document(inspect, found.socket),
            10.0,
            member=member + "/inspect.json",
        ),
        ProbeSpec(prefix + ".devices", lambda emit: visible_devices(running_pid(inspect)), 10.0),
    ]
    specs += _asked_of_engine(choice, found, float(options.get("docker_deadline") or 30.0), member)
    specs += file_probes(prefix, member, engine_command(choice, found), start, tree)
    return specs + _compose_probes(prefix, inspect, found, member)


def _asked_of_engine(choice: Choice, found: Discovery, deadline: float, member: str) -> List[ProbeSpec]:
    """The questions that only the Engine can answer; one that was silent before is not asked."""
    inspect = found.inspects[choice.identifier]
    prefix = "container." + choice.short
    image_id = str(inspect.get("Image", ""))

    def ask(name: str, question: Callable[[Engine], Reading], kept: str = "") -> ProbeSpec:
        def run(emit: Emit) -> Reading:
            if found.silent:
                message = "not asked: %s did not answer within its deadline" % found.silent
                raise ProbeFailure(SKIPPED, message)
            with Engine(found.socket) as engine:
                return question(engine)

        return ProbeSpec("%s.%s" % (prefix, name), run, deadline, _GROUP, kept)

    specs = [
        ask("image", lambda engine: _document(engine.image(image_id), found.socket), member + "/image.json"),
        ask("again", lambda engine: Reading(_second_look(engine, choice), source=found.socket)),
    ]
    if found.podman:
        made = ask("created_by", lambda engine: Reading(engine.created_by(choice.identifier)))
        specs.append(made)
    if needs_archive(inspect):
        specs.append(ask("version_files", lambda engine: _version_files(engine, inspect)))
    return specs


def _document(value: Any, source: str) -> Reading:
    return Reading(value, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode(), source=source)


def engine_command(choice: Choice, found: Discovery) -> Optional[EngineCommand]:
    """vLLM's command in a container: from what it starts, else from a process in it."""
    command = find_engine(command_of(found.inspects[choice.identifier]))
    if command is not None:
        return command
    for process in found.processes:
        if process.container == choice.identifier:
            command = find_engine(process.line.argv)
            if command is not None:
                return command
    return None


def running_pid(inspect: Mapping[str, Any]) -> int:
    """The first process of a running container; zero for any other."""
    state = inspect.get("State") or {}
    return int(state.get("Pid") or 0) if state.get("Running") else 0


def tree_of(inspect: Mapping[str, Any], docker_root: str = "") -> FileTree:
    """The container's file system: as its first process sees it, else from the Engine's storage."""
    pid = running_pid(inspect)
    if pid and _belongs(pid, str(inspect.get("Id", ""))):
        return process_tree(pid)
    layers = told_layers(inspect)
    if not layers:
        # The containerd image store: not told by the Engine, but by the snapshotter's own files.
        layers = find_layers(str(inspect["Id"]), storage_name(inspect) or "overlayfs", docker_root)
    tree = stopped_tree(inspect, layers)
    try:
        # Without its own layer the image's layers alone would pass for the container.
        os.lstat(tree.layers[0])
    except OSError as error:
        outcome = outcome_of(error)
        raise ProbeFailure(outcome, "%s: %s" % (tree.label, error.strerror), tree.layers[0]) from error
    return tree


def _belongs(pid: int, identifier: str) -> bool:
    """Whether a process is still the container's: after a restart its number may be another's."""
    try:
        named = container_ids(str(read_file("/proc/%d/cgroup" % pid).value))
    except ProbeFailure as failure:
        return failure.reading.outcome != ABSENT
    return not named or identifier in named


def needs_archive(inspect: Mapping[str, Any]) -> bool:
    """Whether version files can only be had from the Engine: no root, or no known layers."""
    return os.geteuid() != 0 or (not told_layers(inspect) and not running_pid(inspect))


def _version_files(engine: Engine, inspect: Mapping[str, Any]) -> Reading:
    """The two version files through the Engine's archive, one small file each; never a directory."""
    environment = environment_of((inspect.get("Config") or {}).get("Env"))
    values: Dict[str, Any] = {}
    for key, path in version_paths(environment, command_of(inspect)):
        if key in values:
            continue
        try:
            content = engine.read_small_file(str(inspect["Id"]), path, _SMALL_FILE_LIMIT)
        except ProbeFailure as failure:
            if failure.reading.outcome != ABSENT:
                raise
            continue
        values[key] = {"path": path, "content": content.decode("utf-8", "replace")}
    if not values:
        raise ProbeFailure(ABSENT, "no version file where a start would look")
    return Reading(values, source=engine.socket)


def _second_look(engine: Engine, choice: Choice) -> Dict[str, Any]:
    """State and restarts once more: what a restart loop or a removal did in between."""
    try:
        inspect = engine.container(choice.identifier)
    except ProbeFailure as failure:
        if failure.reading.outcome == ABSENT:
            raise ProbeFailure(
                ABSENT, "container %s was removed while it was being read" % choice.name
            ) from failure
        raise
    described = describe(inspect, {}, {})
    return {"state": described["state"], "restart_count": described["restart_count"]}


def _compose_probes(
    prefix: str, inspect: Mapping[str, Any], found: Discovery, member: str
) -> List[ProbeSpec]:
    compose = describe(inspect, {}, {})["compose"]
    specs = []
    for kind in ("files", "environment_files"):
        for index, path in enumerate(compose.get(kind) or []):
            name = "%s.compose.%s.%d" % (prefix, kind, index)
            stem = "%d-%s" % (index, os.path.basename(path).lstrip(".") or "file")
            kept = "%s/compose/%s%s" % (member, "" if kind == "files" else "environment-", stem)
            specs.append(ProbeSpec(name, partial(_file_with_time, path), 10.0, member=kept))
    return specs


def _file_with_time(path: str, emit: Emit) -> Reading:
    """A file of the host, with the time of its last change."""
    reading = read_file(path)
    reading.value = {
        "path": path,
        "changed": os.stat(path).st_mtime,
        "sha256": hashlib.sha256(reading.raw).hexdigest(),
    }
    return reading
