# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rank as what starts it: a container for the Engine API, or a process; and as a command to paste (private; pure).

The command that is shown is rebuilt from the very body that is sent to the Engine
(https://docs.docker.com/reference/api/engine/), so that the two cannot differ. Secrets are filled in by name only
for the start; a shown command takes them from the caller's environment.
"""

from __future__ import annotations

import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    CDI,
    NO_GPUS,
    RUNTIME,
    ContainerOptions,
    Gpus,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Launch,
    RankLaunch,
    Secret,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._wrap import COLUMNS, wrapped
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import names_secret, rebuild

# What the official image starts; a container with the image's own entrypoint is given the words behind it.
IMAGE_ENTRYPOINT = ("vllm", "serve")

_ALL_GPUS = "all"


class ProcessStart(NamedTuple):
    """What starts a rank that is a plain process; its environment is added to that of the host's login."""

    argv: List[str]
    env: Dict[str, str]
    cwd: str


def create_body(
    launch: Launch,
    rank: RankLaunch,
    labels: Optional[Mapping[str, str]] = None,
    secrets: Optional[Mapping[str, str]] = None,
    extra_env: Optional[Mapping[str, str]] = None,
) -> Dict[str, Any]:
    """The body of POST /containers/create for a rank; the container's name goes into the request's query."""
    options = rank.container
    if options is None or launch.image is None:
        raise BaselineError(f"{rank.host}: expected a rank that is a container, found a process")
    entrypoint, command = _entrypoint(options, rank.argv)
    env = {**filled_env(rank, secrets), **_gpu_variables(options.gpus), **(extra_env or {})}
    body: Dict[str, Any] = {
        "Image": launch.image.id or launch.image.reference,
        "Cmd": command,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": dict(labels or {}),
        "HostConfig": _host_config(options),
    }
    if entrypoint is not None:
        body["Entrypoint"] = entrypoint
    if options.workdir:
        body["WorkingDir"] = options.workdir
    if options.user:
        body["User"] = options.user
    return body


def process_start(
    rank: RankLaunch,
    secrets: Optional[Mapping[str, str]] = None,
    extra_env: Optional[Mapping[str, str]] = None,
) -> ProcessStart:
    """What starts a rank that is a plain process."""
    if rank.process is None:
        raise BaselineError(f"{rank.host}: expected a rank that is a process, found a container")
    env = {**filled_env(rank, secrets), **(extra_env or {})}
    return ProcessStart([rank.process.executable, *rank.argv[1:]], env, rank.process.cwd)


def filled_env(rank: RankLaunch, secrets: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The environment of a rank with its secrets filled in."""
    found: Dict[str, str] = {}
    for name, value in rank.env.items():
        if not isinstance(value, Secret):
            found[name] = value
        elif value.name not in (secrets or {}):
            raise BaselineError(
                f"{rank.host}: expected the secret {value.name} for {name}, found none; give it in launch_secrets"
            )
        else:
            found[name] = (secrets or {})[value.name]
    return found


def secret_names(rank: RankLaunch) -> List[str]:
    """The secrets that the environment of a rank needs."""
    return sorted({value.name for value in rank.env.values() if isinstance(value, Secret)})


def command_text(launch: Launch, rank: RankLaunch, columns: int = COLUMNS) -> str:
    """The command of a rank, ready to paste into a shell of its host."""
    hidden = {name for name, value in rank.env.items() if isinstance(value, Secret)}
    # Any text will do: a hidden value is not printed.
    stand_ins = dict.fromkeys(secret_names(rank), "-")
    if rank.process is not None:
        start = process_start(rank, stand_ins)
        words = [
            f'{name}="${name}"' if name in hidden else shlex.quote(f"{name}={value}")
            for name, value in start.env.items()
        ]
        words = [*(["env"] if words else []), *words, *(shlex.quote(word) for word in start.argv)]
        return wrapped([*([f"cd {shlex.quote(start.cwd)} &&"] if start.cwd else []), *words], columns)
    body = create_body(launch, rank, secrets=stand_ins)
    inspect = {
        "Name": rank.container.name if rank.container else "",
        "Image": body["Image"],
        "Config": body,
        "HostConfig": body["HostConfig"],
    }
    rebuilt = rebuild(inspect, {}, {}, lambda name, value: name in hidden or names_secret(name, value))
    options = [word for word in rebuilt.words[1:] if word != "--name ''"]
    return wrapped(["docker run --pull never", *options], columns)


def _entrypoint(options: ContainerOptions, argv: Tuple[str, ...]) -> Tuple[Optional[List[str]], List[str]]:
    """Entrypoint (None: the image's own) and the words that the container is given."""
    own = options.entrypoint
    if own is None:
        if argv[: len(IMAGE_ENTRYPOINT)] != IMAGE_ENTRYPOINT:
            raise BaselineError(
                f"expected `vllm serve` for the image's own entrypoint, found {shlex.join(argv[:2])}; give the "
                "container's entrypoint"
            )
        return None, list(argv[len(IMAGE_ENTRYPOINT) :])
    rest = list(argv[len(own) :]) if argv[: len(own)] == own else list(argv)
    # The client's --entrypoint takes one word; the others are arguments, here as there.
    first, further = list(own[:1]), list(own[1:])
    return first or [""], [*further, *rest]


def _host_config(options: ContainerOptions) -> Dict[str, Any]:
    host: Dict[str, Any] = {
        "NetworkMode": options.network or "default",
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Privileged": options.privileged,
        "Mounts": [_mount(mount) for mount in options.mounts],
        "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in options.ulimits.items()],
        "Devices": [_device(device) for device in options.devices],
        "CapAdd": list(options.cap_add),
        "SecurityOpt": list(options.security_opt),
        "GroupAdd": list(options.group_add),
    }
    if options.ipc:
        host["IpcMode"] = options.ipc
    if options.shm_size:
        host["ShmSize"] = options.shm_size
    host.update(_gpu_config(options.gpus))
    return host


def _mount(mount: Mount) -> Dict[str, Any]:
    # As a mount and not as a bind: the Engine would make a missing source of a bind on the host.
    kind = "bind" if mount.source.startswith("/") else "volume"
    return {"Type": kind, "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}


def _device(text: str) -> Dict[str, str]:
    host, _colon, rest = text.partition(":")
    inside, _colon, rights = rest.partition(":")
    return {"PathOnHost": host, "PathInContainer": inside or host, "CgroupPermissions": rights or "rwm"}


def _gpu_config(gpus: Gpus) -> Dict[str, Any]:
    if gpus.how == RUNTIME:
        return {"Runtime": "nvidia"}
    if gpus.how == CDI:
        names = [f"nvidia.com/gpu={name}" for name in gpus.ids]
        return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": names}]}
    if gpus.how == NO_GPUS:
        return {}
    every = _ALL_GPUS in gpus.ids
    request = {"Driver": "", "Count": -1 if every else 0, "DeviceIDs": None if every else list(gpus.ids)}
    return {"DeviceRequests": [{**request, "Capabilities": [["gpu"]], "Options": {}}]}


def _gpu_variables(gpus: Gpus) -> Dict[str, str]:
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(gpus.ids)} if gpus.how == RUNTIME else {}
