# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host's documents to what the rules see (private to the collection, controller only).

Pure. The only file of the gate that knows the layout of ``gpufleet.baseline/gpu/1``, ``host/1`` and
``engine/1``. A part that a document lacks becomes a fact that was not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, OK, OUTCOMES, SKIPPED
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import (
    NOT_TOLD,
    Engine,
    Gpu,
    HostFacts,
)

SCHEMAS = {
    "gpu": "gpufleet.baseline/gpu/1",
    "host": "gpufleet.baseline/host/1",
    "engine": "gpufleet.baseline/engine/1",
    "probe": "gpufleet.baseline/probe/1",
    "weights": "gpufleet.baseline/weights/1",
}

# Facts of a host by the name that rules use, and where they stand.
_HOST_FACTS: Mapping[str, tuple[str, ...]] = {
    "vendors": ("gpu", "vendors"),
    "driver": ("gpu", "driver", "loaded"),
    "driver_told": ("gpu", "driver", "told_by_the_driver"),
    "driver_on_disk": ("gpu", "driver", "on_disk"),
    "driver_libraries": ("gpu", "driver", "new_processes_load"),
    "driver_agreement": ("gpu", "driver", "agreement"),
    "cuda_ceiling": ("gpu", "driver", "cuda_of_driver"),
    "cuda_shown": ("gpu", "driver", "cuda_shown_by_nvidia_smi"),
    "nvml": ("gpu", "nvml", "answered"),
    "pci": ("gpu", "pci"),
    "holders": ("gpu", "holders"),
    "xid": ("gpu", "xid"),
    "imex_nodes": ("gpu", "fabric", "imex"),
    "imex_status": ("gpu", "fabric", "imex_status"),
    "imex_channels": ("gpu", "fabric", "imex_channels"),
    "system": ("host", "system"),
    "boot": ("host", "boot"),
    "clock": ("host", "time"),
    "limits": ("host", "limits"),
    "mounts": ("host", "mounts"),
    "shm": ("host", "space", "/dev/shm"),
    "packages": ("host", "packages", "relevant"),
    "reboot_required": ("host", "packages", "reboot_required"),
    "units": ("host", "services", "units"),
    "daemons": ("host", "services", "daemons"),
    "listening": ("host", "listening"),
    "images": ("engine", "images"),
    "listed_containers": ("engine", "listed_containers"),
    "engine_info": ("engine", "engine", "info"),
    "probe_container": ("probe", "container"),
    "probe_cuda": ("probe", "cuda"),
}
# Titles of vLLM's processes that only a running engine starts.
_PARTS = ("Worker", "EngineCore", "DPCoordinator")
_SECTIONS = ("identity", "state", "now")


def check(document: Any, where: str) -> dict[str, Any]:
    """The documents of a host; an error when they are none, or of another version."""
    if not isinstance(document, Mapping):
        raise BaselineError(f"{where}: expected the documents of a host, found {type(document).__name__}")
    found: dict[str, Any] = {}
    for name, schema in SCHEMAS.items():
        part = document.get(name)
        if part is None:
            continue
        told = part.get("schema") if isinstance(part, Mapping) else type(part).__name__
        if told != schema:
            raise BaselineError(
                f"{where}: expected {schema}, found {told}; freeze the host with this version"
            )
        found[name] = part
    if "gpu" not in found:
        raise BaselineError(f"{where}: expected the document {SCHEMAS['gpu']}, found none")
    return found


def host_facts(name: str, document: Any, run: str, time: str, where: str = "") -> HostFacts:
    """What the rules see of one host."""
    found = check(document, where or name)
    try:
        return _host_facts(name, found, run, time)
    except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise BaselineError(
            f"{where or name}: expected {', '.join(SCHEMAS.values())}, found a part of another form: {error}"
        ) from error


def _host_facts(name: str, found: dict[str, Any], run: str, time: str) -> HostFacts:
    engines_read, engines = _engines(found.get("engine"))
    gpu = found["gpu"]
    return HostFacts(
        name=name,
        run=run,
        time=time,
        gpus=_gpus(gpu),
        counts={key: _measured(value) for key, value in _mapping(gpu.get("counts")).items()},
        facts={key: at(found, *path) for key, path in _HOST_FACTS.items()},
        hashes={
            path: _measured(part)
            for path, part in _mapping(_mapping(found.get("weights")).get("paths")).items()
        },
        engines_read=engines_read,
        engines=engines,
        timeline=bool(_mapping(_mapping(found.get("host")).get("changes")).get("events")),
        problems=tuple(str(text) for text in gpu.get("problems") or ()),
    )


def at(document: Any, *path: str) -> Measured:
    """The fact at a path."""
    for key in path:
        if not isinstance(document, Mapping):
            return NOT_TOLD
        document = document.get(key)
    return _measured(document)


def _measured(part: Any) -> Measured:
    if not isinstance(part, Mapping) or part.get("outcome") not in OUTCOMES:
        return NOT_TOLD
    return Measured(
        part.get("value"), str(part["outcome"]), str(part.get("source", "")), str(part.get("message", ""))
    )


def _mapping(part: Any) -> Mapping[str, Any]:
    return part if isinstance(part, Mapping) else {}


def _gpus(document: Mapping[str, Any]) -> Measured:
    """The GPUs that any source lists. No source that ended means that nobody knows, which is not none."""
    rows = document.get("gpus")
    if not isinstance(rows, list):
        return NOT_TOLD
    gpus = tuple(_gpu(row) for row in rows if isinstance(row, Mapping))
    counts = {key: _measured(value) for key, value in _mapping(document.get("counts")).items()}
    whole = [fact for key, fact in counts.items() if fact.ok and key != "device_nodes"]
    if gpus or whole:
        return Measured(gpus, OK, "the GPU lists of all sources")
    worst = next((fact for fact in counts.values() if fact.outcome not in (ABSENT, SKIPPED)), NOT_TOLD)
    return Measured(None, worst.outcome, worst.source, worst.message or "no list of GPUs was read")


class _Facts(Mapping[str, Measured]):
    """Facts that are read when a rule asks for them: most of a document's are for people."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = parts
        self._read: dict[str, Measured] = {}

    def __getitem__(self, name: str) -> Measured:
        if name not in self._read:
            self._read[name] = _measured(self._parts[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _gpu(row: Mapping[str, Any]) -> Gpu:
    parts = {name: row.get(name) for name in ("index", "processes")}
    for section in _SECTIONS:
        parts.update(_mapping(row.get(section)))
    return Gpu(str(row.get("pci_address", "")), _Facts(parts), tuple(row.get("missing_from") or ()))


def _engines(document: Any) -> tuple[Measured, tuple[Engine, ...]]:
    """The engines of a host, and whether they could be listed at all."""
    if not isinstance(document, Mapping):
        return NOT_TOLD, ()
    containers = [_container(part) for part in document.get("containers") or ()]
    processes = [
        _process(part, own)
        for part in document.get("plain_processes") or ()
        if not _is_left_over(own := _own_row(part, document))
    ]
    version = at(document, "engine", "version")
    if version.ok or version.outcome == ABSENT:
        # Without a container engine there are no containers: that is an answer.
        read = Measured(True, OK, version.source)
    else:
        read = Measured(None, version.outcome, version.source, version.message)
    return read, (*containers, *processes)


def _container(part: Mapping[str, Any]) -> Engine:
    state = _mapping(part.get("state"))
    return Engine(
        name=str(part.get("name", "")),
        id=str(part.get("id", "")),
        running=bool(state.get("running")),
        in_container=True,
        image=_mapping(part.get("image")),
        environment=_environment(part.get("environment")),
        restart_policy=str(_mapping(part.get("restart_policy")).get("Name") or "no"),
        limits={**_mapping(part.get("limits")), "network": _mapping(part.get("network")).get("mode")},
        libraries=_measured(part.get("loaded_libraries")),
        gpu_request=_mapping(part.get("gpu_request")),
        pids=tuple(part.get("processes") or ()),
        **_start(part, tuple(str(word) for word in part.get("command") or ())),
    )


def _own_row(part: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the list of processes tells of a plain process."""
    rows: list[Mapping[str, Any]] = list(document.get("processes") or ())
    return next((row for row in rows if row.get("pid") == part.get("pid")), {})


def _is_left_over(own: Mapping[str, Any]) -> bool:
    """Whether a process that nothing of vLLM started is a part of an engine that is gone, and no engine."""
    return str(own.get("title") or "").startswith(_PARTS)


def _process(part: Mapping[str, Any], own: Mapping[str, Any]) -> Engine:
    pid = part.get("pid")
    return Engine(
        name=f"process {pid}",
        id="",
        running=True,
        in_container=False,
        image={},
        environment=_environment(own.get("environment")),
        restart_policy="no",
        limits={},
        libraries=NOT_TOLD,
        gpu_request={},
        pids=(int(pid),) if isinstance(pid, int) else (),
        **_start(part, tuple(str(word) for word in own.get("argv") or ())),
    )


def _start(part: Mapping[str, Any], argv: tuple[str, ...]) -> dict[str, Any]:
    return {
        "argv": argv,
        "versions": _measured(part.get("versions")),
        "cuda": _measured(part.get("cuda")),
        "devices": _measured(part.get("visible_devices")),
        "models": tuple(_measured(model) for model in part.get("models") or ()),
    }


def _environment(items: Any) -> dict[str, str]:
    pairs = (str(item).partition("=") for item in items or ())
    return {name: value for name, equals, value in pairs if equals}
