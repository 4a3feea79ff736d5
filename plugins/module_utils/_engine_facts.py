# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The document of a host's engines, assembled from the probes' answers (private to the collection; pure)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_probes import engine_command
from ansible_collections.gpufleet.baseline.plugins.module_utils._containers import (
    Choice,
    describe,
    mount_at,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._dist_info import (
    assignments,
    cuda_versions,
    named_versions,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import EngineCommand, find_engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_events import events
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import (
    Measured,
    first_ok,
    from_probe,
    plain,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import (
    environment_of,
    parallel_facts,
    scheduling_variables,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import OK, Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import mount_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._process_facts import (
    loaded_libraries,
    process_facts,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import RunCommand, rebuild
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_podman import podman_command

SCHEMA = "gpufleet.baseline/engine/1"

_INFO = (
    "ServerVersion OperatingSystem KernelVersion Architecture Driver DriverStatus CgroupDriver CgroupVersion "
    "DefaultRuntime LoggingDriver DockerRootDir SecurityOptions CDISpecDirs DiscoveredDevices "
    "LiveRestoreEnabled Containers ContainersRunning ContainersPaused ContainersStopped Name"
).split()


def facts(answers: Mapping[str, Probe], found: Discovery) -> Dict[str, Any]:
    """Everything about the engines of a host. Secrets are still in it: it goes through the redactor first."""
    containers = [_container(choice, answers, found) for choice in found.containers]
    leaders = [process for process in found.processes if process.leader]
    document: Dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "engine": _engine(answers),
            "notes": list(found.notes),
            "containers": containers,
            "plain_processes": [_plain_process(process.line.pid, answers, found) for process in leaders],
            "processes": [process_facts(process, answers) for process in found.processes],
            "images": from_probe(answers.get("docker.images"), _images, "docker.images"),
            "listed_containers": from_probe(answers.get("docker.containers"), _listed, "docker.containers"),
            "events": events(answers, found),
        }
    )
    return document


def _engine(answers: Mapping[str, Probe]) -> Dict[str, Any]:
    version = answers.get("docker.version")
    info = answers.get("docker.info")
    return {
        "version": from_probe(version, lambda value: value["version"].get("Version"), "docker.version"),
        "api_version": from_probe(
            version, lambda value: value["version"].get("ApiVersion"), "docker.version"
        ),
        "components": from_probe(version, _components, "docker.version"),
        "socket": from_probe(version, _socket, "docker.version"),
        "info": from_probe(info, lambda value: {name: value.get(name) for name in _INFO}, "docker.info"),
        "runtimes": from_probe(info, _runtimes, "docker.info"),
    }


def _socket(value: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value[name] for name in ("socket", "chosen", "others", "ignored")}


def _components(value: Mapping[str, Any]) -> Dict[str, str]:
    components = value["version"].get("Components") or []
    return {str(item.get("Name")): str(item.get("Version")) for item in components}


def _runtimes(value: Mapping[str, Any]) -> Dict[str, Any]:
    runtimes = value.get("Runtimes") or {}
    return {name: (runtime or {}).get("path") for name, runtime in sorted(runtimes.items())}


def _images(value: Any) -> List[Dict[str, Any]]:
    return [
        {
            "id": image.get("Id"),
            "tags": sorted(image.get("RepoTags") or []),
            "digests": sorted(image.get("RepoDigests") or []),
            "created": image.get("Created"),
            "bytes": image.get("Size"),
            "inspected": image.get("Inspected"),
        }
        for image in value
    ]


def _listed(value: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """All containers that the Engine knows, described or not: another identifier is of one that was removed."""
    return [
        {
            "id": item.get("Id"),
            "name": str((item.get("Names") or [""])[0]).lstrip("/"),
            "state": item.get("State"),
        }
        for item in value["list"]
    ]


def _container(choice: Choice, answers: Mapping[str, Probe], found: Discovery) -> Dict[str, Any]:
    prefix = "container." + choice.short
    inspect = found.inspects[choice.identifier]
    image_answer = answers.get(prefix + ".image")
    image = (image_answer.value if image_answer is not None else None) or {}
    command = engine_command(choice, found)
    environment = environment_of((inspect.get("Config") or {}).get("Env"))
    pids = [process.line.pid for process in found.processes if process.container == choice.identifier]
    run = run_command(choice, answers, found)
    value = describe(inspect, image, found.info)
    value.update(
        chosen_because=choice.why,
        image_read=from_probe(image_answer, lambda _image: True, prefix + ".image"),
        again=from_probe(answers.get(prefix + ".again"), name=prefix + ".again"),
        run_command={"text": run.text(), "set_before": run.secrets, "notes": run.notes, "files": run.files},
        compose_files=_files(prefix + ".compose.", answers),
        visible_devices=from_probe(answers.get(prefix + ".devices"), name=prefix + ".devices"),
        processes=pids,
        loaded_libraries=loaded_libraries(pids, answers),
        **_start_facts(prefix, command, environment, answers),
    )
    _add_mounts(value, lambda path: _container_mount(inspect, path, found.mountinfo))
    return value


def run_command(choice: Choice, answers: Mapping[str, Probe], found: Discovery) -> RunCommand:
    """The command that starts a container again."""
    inspect = found.inspects[choice.identifier]
    image = answers.get("container.%s.image" % choice.short)
    image_inspect = (image.value if image is not None else None) or {}
    if not found.podman:
        return rebuild(inspect, image_inspect, found.info)
    made = answers.get("container.%s.created_by" % choice.short)
    return podman_command(
        (made.value if made is not None else None) or [], inspect, image_inspect, found.info
    )


def _container_mount(inspect: Mapping[str, Any], path: str, mountinfo: str) -> Dict[str, Any]:
    """The container's mount, and the host's under its source: a network mount shows only there."""
    mount = mount_at(inspect, path)
    return {**mount, "host": mount_of(mountinfo, str(mount["source"])) if mount.get("source") else {}}


def _plain_process(pid: int, answers: Mapping[str, Probe], found: Discovery) -> Dict[str, Any]:
    prefix = "process.%d" % pid
    process = next(item for item in found.processes if item.line.pid == pid)
    answer = answers.get(prefix + ".facts")
    read = (answer.value if answer is not None else None) or {}
    environment = environment_of(read.get("environ"))
    command = find_engine(process.line.argv)
    value: Dict[str, Any] = {
        "pid": pid,
        "visible_devices": from_probe(answers.get(prefix + ".devices"), name=prefix + ".devices"),
        "unit": from_probe(answers.get(prefix + ".unit"), name=prefix + ".unit"),
        **_start_facts(prefix, command, environment, answers),
    }
    _add_mounts(value, lambda path: mount_of(str(read.get("mountinfo") or ""), path))
    return value


def _start_facts(
    prefix: str,
    command: Optional[EngineCommand],
    environment: Mapping[str, str],
    answers: Mapping[str, Probe],
) -> Dict[str, Any]:
    """What is the same for a container and for a plain process."""
    versions = answers.get(prefix + ".versions")
    named = from_probe(versions, named_versions, prefix + ".versions")
    return {
        "engine_command": vars(command) if command is not None else None,
        "parallel": parallel_facts(command, environment, _file_options(prefix, answers)) if command else None,
        "variables": scheduling_variables(environment),
        "versions": first_ok(named, _version_files(answers.get(prefix + ".version_files"), named)),
        "build": from_probe(versions, lambda value: value["version_files"], prefix + ".versions"),
        "cuda": from_probe(versions, lambda value: cuda_versions(value, environment), prefix + ".versions"),
        "distributions": from_probe(versions, _distributions, prefix + ".versions"),
        "models": [
            from_probe(probe) for name, probe in answers.items() if name.startswith(prefix + ".model.")
        ],
        "caches": {
            name[len(prefix + ".cache.") :]: from_probe(probe)
            for name, probe in answers.items()
            if name.startswith(prefix + ".cache.")
        },
    }


def _file_options(prefix: str, answers: Mapping[str, Probe]) -> Optional[Mapping[str, Any]]:
    """The options of the file of --config, when there is one and it was read."""
    for name, answer in answers.items():
        if name.startswith(prefix + ".model.") and answer.outcome == OK and answer.value["role"] == "config":
            options: Mapping[str, Any] = answer.value["options"]
            return options
    return None


def _version_files(probe: Optional[Probe], otherwise: Measured) -> Measured:
    """vLLM and torch through the Engine, where the file system could not be read."""
    if probe is None:
        return otherwise

    def pick(value: Mapping[str, Any]) -> Dict[str, Any]:
        found = {}
        for key, entry in value.items():
            version = assignments(entry["content"].encode()).get("__version__")
            if version:
                found[key] = [version]
        return found

    return from_probe(probe, pick)


def _distributions(value: Mapping[str, Any]) -> List[Dict[str, Any]]:
    records = [
        {key: record[key] for key in ("name", "version", "path", "origin", "message") if record[key]}
        for record in value["distributions"]
    ]
    return sorted(records, key=lambda record: (str(record.get("name")), str(record.get("path"))))


def _files(prefix: str, answers: Mapping[str, Probe]) -> List[Measured]:
    return [from_probe(probe) for name, probe in answers.items() if name.startswith(prefix)]


def _add_mounts(value: Dict[str, Any], mount: Any) -> None:
    """Say for every model and cache that has a path on which mount it lies."""
    for measured in [*value["models"], *value["caches"].values()]:
        if isinstance(measured.value, dict) and measured.value.get("path"):
            measured.value["mount"] = mount(measured.value["path"])


def derived_members(answers: Mapping[str, Probe], found: Discovery) -> Dict[str, bytes]:
    """Files of a record that no probe made: the rebuilt command of each container."""
    members = {}
    for choice in found.containers:
        answer = answers.get("container.%s.inspect" % choice.short)
        if answer is not None and answer.member:
            run = run_command(choice, answers, found)
            directory = answer.member.rsplit("/", 1)[0]
            members[directory + "/docker-run.sh"] = run.text().encode()
            for name, content in run.files.items():
                members[directory + "/" + name] = content.encode()
    return members
