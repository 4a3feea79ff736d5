# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose containers and describe them from their inspect (private to the collection; pure).

Everything goes by the full id: names can be given to another container, and a short one can be ambiguous.
Fields: https://docs.docker.com/reference/api/engine/.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._compose import compose_facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import looks_like_engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of

_ENGINE_IMAGE = re.compile(r"vllm", re.IGNORECASE)
_NO_DEVICES = ("", "void", "none")
_LIMITS = (
    "Memory MemorySwap NanoCpus CpusetCpus CpusetMems ShmSize PidsLimit Ulimits IpcMode PidMode "
    "CapAdd CapDrop SecurityOpt Privileged ReadonlyRootfs"
).split()
_NEVER = "0001-01-01T00:00:00Z"


@dataclass(frozen=True)
class Choice:
    """One chosen container and what speaks for it."""

    identifier: str
    name: str
    why: str

    @property
    def short(self) -> str:
        """The identifier as people write it."""
        return self.identifier[:12]


def name_of(inspect: Mapping[str, Any]) -> str:
    """A container's name without the slash that the Engine puts before it."""
    return str(inspect.get("Name") or "").lstrip("/")


def command_of(inspect: Mapping[str, Any]) -> List[str]:
    """What the container starts: entrypoint and command as the Engine joined them."""
    if inspect.get("Path"):
        return [str(inspect["Path"]), *[str(word) for word in inspect.get("Args") or []]]
    config = inspect.get("Config") or {}
    return [str(word) for word in [*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])]]


def choose(
    inspects: Sequence[Mapping[str, Any]],
    wanted: Sequence[str],
    info: Mapping[str, Any],
    with_engine: Collection[str] = (),
) -> Tuple[List[Choice], List[str]]:
    """(chosen, wanted but not there). Without ``wanted``: vLLM's, and those that ask for GPUs."""
    if wanted:
        return _choose_wanted(inspects, wanted)
    chosen = []
    for inspect in inspects:
        why = _reason(inspect, info, with_engine)
        if why:
            chosen.append(Choice(str(inspect["Id"]), name_of(inspect), why))
    return chosen, []


def _choose_wanted(
    inspects: Sequence[Mapping[str, Any]], wanted: Sequence[str]
) -> Tuple[List[Choice], List[str]]:
    chosen: Dict[str, Choice] = {}
    missing = []
    for given in wanted:
        matches = [item for item in inspects if name_of(item) == given.lstrip("/")]
        if not matches and re.match(r"^[0-9a-f]{4,64}$", given):
            matches = [item for item in inspects if str(item["Id"]).startswith(given)]
        if len(matches) != 1:
            missing.append(given if not matches else "%s (ambiguous: %d containers)" % (given, len(matches)))
            continue
        chosen[str(matches[0]["Id"])] = Choice(
            str(matches[0]["Id"]), name_of(matches[0]), "named by the user"
        )
    return list(chosen.values()), missing


def _reason(inspect: Mapping[str, Any], info: Mapping[str, Any], with_engine: Collection[str]) -> str:
    config = inspect.get("Config") or {}
    if looks_like_engine(command_of(inspect)):
        return "its command is vLLM's"
    if inspect.get("Id") in with_engine:
        return "a process of vLLM runs in it"
    if _ENGINE_IMAGE.search(str(config.get("Image", ""))):
        return "its image is named like vLLM"
    request = gpu_request(inspect, info)
    return "it asks for GPUs: %s" % ", ".join(request["modes"]) if request["modes"] else ""


def gpu_request(inspect: Mapping[str, Any], info: Mapping[str, Any]) -> Dict[str, Any]:
    """How a container asks for GPUs. Several ways at once are possible, and the way decides what it gets."""
    host = inspect.get("HostConfig") or {}
    environment = environment_of((inspect.get("Config") or {}).get("Env"))
    visible = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    runtime = host.get("Runtime") or info.get("DefaultRuntime") or ""
    modes: List[str] = []
    requests = host.get("DeviceRequests") or []
    if any(request.get("Driver") == "cdi" for request in requests):
        modes.append("CDI")
    if any(request.get("Driver") != "cdi" for request in requests):
        modes.append("device request (--gpus)")
    if _is_nvidia_runtime(runtime) and visible not in _NO_DEVICES:
        modes.append("runtime %s with NVIDIA_VISIBLE_DEVICES" % runtime)
    devices = [str(device.get("PathOnHost", "")) for device in host.get("Devices") or []]
    if any(path.startswith(("/dev/nvidia", "/dev/dri", "/dev/kfd")) for path in devices):
        modes.append("device files")
    if host.get("Privileged") and visible not in _NO_DEVICES:
        modes.append("privileged")
    return {
        "modes": modes,
        "device_requests": requests,
        "runtime": runtime,
        "visible_devices": environment.get("NVIDIA_VISIBLE_DEVICES"),
        "driver_capabilities": environment.get("NVIDIA_DRIVER_CAPABILITIES"),
        "cuda_visible_devices": environment.get("CUDA_VISIBLE_DEVICES"),
        "requires_cuda": environment.get("NVIDIA_REQUIRE_CUDA"),
        "devices": devices,
        "privileged": bool(host.get("Privileged")),
    }


def _is_nvidia_runtime(runtime: str) -> bool:
    return runtime.startswith("nvidia")


def describe(inspect: Mapping[str, Any], image: Mapping[str, Any], info: Mapping[str, Any]) -> Dict[str, Any]:
    """What an inspect tells, in our own names, with the parts that a comparison needs."""
    config = inspect.get("Config") or {}
    host = inspect.get("HostConfig") or {}
    state = inspect.get("State") or {}
    return {
        "id": inspect.get("Id"),
        "name": name_of(inspect),
        "created": inspect.get("Created"),
        "state": {
            "status": state.get("Status"),
            "running": bool(state.get("Running")),
            "exit_code": _exit_code(state),
            "killed_for_memory": bool(state.get("OOMKilled")),
            "error": state.get("Error") or "",
            "started": _time(state.get("StartedAt")),
            "finished": _time(state.get("FinishedAt")),
            "pid": state.get("Pid") or None,
            "health": (state.get("Health") or {}).get("Status"),
        },
        "restart_count": inspect.get("RestartCount", 0),
        "restart_policy": host.get("RestartPolicy"),
        "image": image_facts(inspect, image),
        "command": command_of(inspect),
        "environment": config.get("Env") or [],
        "user": config.get("User") or "",
        "working_directory": config.get("WorkingDir") or "/",
        "mounts": mounts(inspect),
        "gpu_request": gpu_request(inspect, info),
        "limits": _limits(host),
        "network": {"mode": host.get("NetworkMode"), "ports": host.get("PortBindings") or {}},
        "labels": config.get("Labels") or {},
        "compose": compose_facts(config.get("Labels") or {}),
        "log": {"driver": (host.get("LogConfig") or {}).get("Type"), "path": inspect.get("LogPath") or ""},
    }


def _exit_code(state: Mapping[str, Any]) -> Optional[int]:
    """None for a container that runs or never did; one that could not be started has a code all the same."""
    ended = _time(state.get("FinishedAt")) is not None or state.get("ExitCode")
    return None if state.get("Running") or not ended else int(state.get("ExitCode") or 0)


def _time(value: Optional[str]) -> Optional[str]:
    return None if not value or value == _NEVER else value


def _limits(host: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: host.get(name) for name in _LIMITS}


def mounts(inspect: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Mounts by where they are in the container."""
    found = [
        {
            "target": mount.get("Destination"),
            "type": mount.get("Type"),
            "source": mount.get("Source"),
            "volume": mount.get("Name"),
            "writable": mount.get("RW"),
            "propagation": mount.get("Propagation") or "",
        }
        for mount in inspect.get("Mounts") or []
    ]
    tmpfs = (inspect.get("HostConfig") or {}).get("Tmpfs") or {}
    found += [
        {"target": path, "type": "tmpfs", "source": None, "volume": None, "writable": True, "propagation": ""}
        for path in tmpfs
    ]
    return sorted(found, key=lambda mount: str(mount["target"]))


def mount_at(inspect: Mapping[str, Any], path: str) -> Dict[str, Any]:
    """The mount of the container that a path lies on; without one it lies in the container's own layer."""
    best: Dict[str, Any] = {}
    for mount in mounts(inspect):
        target = str(mount["target"]).rstrip("/")
        if (path == target or path.startswith(target + "/")) and len(target) >= len(
            str(best.get("target", ""))
        ):
            best = mount
    return best or {"target": "/", "type": "layer", "source": None, "writable": True}


def image_facts(inspect: Mapping[str, Any], image: Mapping[str, Any]) -> Dict[str, Any]:
    """Which image it is. An id is its store's: those of two kinds of store are not comparable."""
    labels = (image.get("Config") or {}).get("Labels") or {}
    return {
        "name": (inspect.get("Config") or {}).get("Image"),
        "id": inspect.get("Image"),
        "digests": sorted(image.get("RepoDigests") or []),
        "tags": sorted(image.get("RepoTags") or []),
        "created": image.get("Created"),
        "architecture": image.get("Architecture"),
        "revision": labels.get("org.opencontainers.image.revision"),
        "version": labels.get("org.opencontainers.image.version"),
        "tag_moved": _tag_moved(inspect, image),
        "layers": (image.get("RootFS") or {}).get("Layers") or [],
    }


def _tag_moved(inspect: Mapping[str, Any], image: Mapping[str, Any]) -> Optional[bool]:
    """Whether the name in the container's command now means another image; None when that is not known."""
    name = str((inspect.get("Config") or {}).get("Image") or "")
    if not image or not name or name.startswith("sha256:") or "@" in name:
        return None
    tagged = name if ":" in name.rsplit("/", 1)[-1] else name + ":latest"
    tags = image.get("RepoTags") or []
    return not any(tag == tagged or tag.endswith("/" + tagged) for tag in tags)
