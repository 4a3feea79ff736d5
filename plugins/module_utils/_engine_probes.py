# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions about engines, in two rounds: what there is, then everything about it (private).

The Engine is asked one question after another (group "docker"), so that a socket that hangs costs one
deadline. Whatever touches a file system that may be a dead network mount is a probe of its own.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any, Callable, Dict, List, Mapping, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_probes import one_container
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery, discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine, find_socket, preload
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    TIMEOUT,
    Emit,
    Probe,
    ProbeFailure,
    ProbeSpec,
    Reading,
    file_probe,
    run_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import list_processes
from ansible_collections.gpufleet.baseline.plugins.module_utils._process_probes import one_process

GROUP = "docker"
_EMIT_SECONDS = 1.0
# What an image says of its CUDA; other variables of it are of no use here and may be secrets.
_IMAGE_VARIABLES = ("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA")
_MOST_IMAGES = 50


def probes(options: Mapping[str, Any]) -> List[ProbeSpec]:
    """The first round. Options: docker_socket, docker_deadline; all may be missing."""
    chosen = find_socket(str(options.get("docker_socket") or ""), os.environ)
    deadline = float(options.get("docker_deadline") or 30.0)
    if chosen.path:
        preload()

    def ask(question: Callable[[Engine], Any]) -> Callable[[Emit], Reading]:
        def run(emit: Emit) -> Reading:
            with Engine(chosen.path) as engine:
                value = question(engine)
            return Reading(value, as_json(value), source=chosen.path)

        return run

    def version(engine: Engine) -> Any:
        seen = {
            "socket": chosen.path,
            "chosen": chosen.chosen,
            "others": chosen.others,
            "ignored": chosen.ignored,
        }
        return {**seen, "version": engine.version}

    def containers(emit: Emit) -> Reading:
        with Engine(chosen.path) as engine:
            return _list_containers(engine, emit)

    def images(emit: Emit) -> Reading:
        with Engine(chosen.path) as engine:
            return _list_images(engine, emit)

    return [
        ProbeSpec("docker.version", ask(version), deadline, GROUP, "docker/version.json"),
        ProbeSpec("docker.info", ask(Engine.info), deadline, GROUP, "docker/info.json"),
        ProbeSpec("docker.containers", containers, deadline, GROUP, "docker/containers.json"),
        ProbeSpec("docker.images", images, deadline, GROUP, "docker/images.json"),
        ProbeSpec("engine.processes", _list_processes, 20.0),
        file_probe("engine.mounts", "/proc/self/mountinfo", "host/mountinfo.txt"),
    ]


def as_json(value: Any) -> bytes:
    """A document as it stands in a record."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _list_containers(engine: Engine, emit: Emit) -> Reading:
    """All containers with their inspects. One that goes away or hangs meanwhile is named."""
    value: Dict[str, Any] = {"list": engine.containers(), "inspects": {}, "failed": {}}
    emitted = time.monotonic()
    for item in value["list"]:
        identifier = str(item["Id"])
        try:
            value["inspects"][identifier] = engine.container(identifier)
        except ProbeFailure as failure:
            value["failed"][identifier] = [failure.reading.outcome, failure.reading.message]
        if time.monotonic() - emitted > _EMIT_SECONDS:
            emit(Reading(value, as_json(value["list"]), source=engine.socket))
            emitted = time.monotonic()
    return Reading(value, as_json(value["list"]), source=engine.socket)


def _list_images(engine: Engine, emit: Emit) -> Reading:
    """All images, and what each says of its architecture and CUDA, so that it is known before a container is made.

    Those that are named like vLLM come first; a host may have hundreds of others.
    """
    value: List[Dict[str, Any]] = engine.images()
    listing = as_json(value)

    def reading() -> Reading:
        return Reading(value, listing, source=engine.socket)

    emit(reading())
    ranked = sorted(value, key=lambda image: "vllm" not in str(image.get("RepoTags")))
    for image in ranked[:_MOST_IMAGES]:
        try:
            image["Inspected"] = _image_facts(engine.image(str(image["Id"])))
        except ProbeFailure as failure:
            if failure.reading.outcome == TIMEOUT:
                break
    return reading()


def _image_facts(inspect: Mapping[str, Any]) -> Dict[str, Any]:
    config = inspect.get("Config") or {}
    environment = environment_of(config.get("Env"))
    labels = config.get("Labels") or {}
    told = {name: environment.get(name) or labels.get(name) for name in _IMAGE_VARIABLES}
    return {"architecture": inspect.get("Architecture"), "variables": told}


def _list_processes(emit: Emit) -> Reading:
    def known(lines: List[Any]) -> None:
        emit(Reading([vars(line) for line in lines], source="/proc"))

    return Reading([vars(line) for line in list_processes(emit=known)], source="/proc")


def container_probes(found: Discovery, options: Mapping[str, Any]) -> List[ProbeSpec]:
    """The second round for containers."""
    specs: List[ProbeSpec] = []
    names = _unique_names([choice.name or choice.short for choice in found.containers])
    for choice, name in zip(found.containers, names):
        specs += one_container(choice, found, options, "containers/%s" % name)
    return specs


def process_probes(found: Discovery, options: Mapping[str, Any]) -> List[ProbeSpec]:
    """The second round for processes, in containers and outside."""
    specs: List[ProbeSpec] = []
    for process in found.processes:
        specs += one_process(process, found, "processes/%d" % process.line.pid)
    return specs


def _unique_names(names: List[str]) -> List[str]:
    safe = [re.sub(r"[^A-Za-z0-9_.-]", "_", name) for name in names]
    return ["%s-%d" % (name, index) if safe.count(name) > 1 else name for index, name in enumerate(safe)]


def discover(options: Mapping[str, Any]) -> Tuple[Discovery, Dict[str, Probe]]:
    """The first round, asked now, and what follows from it."""
    answers = run_probes(probes(options))
    return discovery(answers, options), answers


def collect(options: Mapping[str, Any]) -> Tuple[Discovery, Dict[str, Probe]]:
    """Both rounds, asked now."""
    found, answers = discover(options)
    answers.update(run_probes(container_probes(found, options) + process_probes(found, options)))
    return found, answers
