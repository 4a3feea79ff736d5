# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command of a container that Podman runs (private to the collection; pure).

Podman keeps the command that made a container (Config.CreateCommand of its own inspect,
https://docs.podman.io/en/latest/_static/api.html). Without one, because the container came from a Compose
file or through the API, the command is rebuilt from the Docker-compatible inspect, less what Podman fills in
by itself (seen with Podman 4.3.1).
"""

from __future__ import annotations

import copy
import shlex
from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import (
    IsSecret,
    RunCommand,
    Secrets,
    argument_words,
    names_secret,
    rebuild,
)

_FILLED_ENVIRONMENT = ("container=", "TERM=", "HOME=", "HOSTNAME=")
_FILLED: Mapping[str, Sequence[Any]] = {
    "Runtime": ("oci", "crun", "runc"),
    "PidMode": ("private",),
    "UTSMode": ("private",),
    "IpcMode": ("private", "shareable"),
    "ShmSize": (65536000,),
    "MemorySwappiness": (0,),
    "PidsLimit": (2048,),
}
_ENVIRONMENT_OPTIONS = ("-e", "--env")


def podman_command(
    created_by: Sequence[str], inspect: Mapping[str, Any], image: Mapping[str, Any], info: Mapping[str, Any]
) -> RunCommand:
    """The command that made the container, secrets taken from the caller's environment."""
    if len(created_by) > 1 and {"run", "create"} & set(created_by):
        return _as_given(created_by, inspect, names_secret)
    run = rebuild(without_filled(inspect), image, info)
    notes = [
        *run.notes,
        "Podman keeps no command of this container: rebuilt from what it tells to Docker's clients",
    ]
    return RunCommand(["podman run", *run.words[1:]], run.secrets, notes, run.files)


def _as_given(argv: Sequence[str], inspect: Mapping[str, Any], is_secret: IsSecret) -> RunCommand:
    secrets: Secrets = {}
    words: List[str] = []
    environment_next = False
    plain: List[str] = []
    for word in argv:
        name, equals, value = word.partition("=")
        if name in _ENVIRONMENT_OPTIONS and equals:
            inner, _equals, content = value.partition("=")
            word = "%s=%s" % (name, _variable(inner, content, is_secret, secrets)) if _equals else word
        elif environment_next and equals:
            word = _variable(name, value, is_secret, secrets)
        environment_next = word in _ENVIRONMENT_OPTIONS
        plain.append(word)
    words = argument_words(plain, is_secret, secrets)
    notes = [
        "the command that made the container; %s was %s then"
        % ((inspect.get("Config") or {}).get("Image") or "its image", inspect.get("Image"))
    ]
    return RunCommand([shlex.join(words[:1]), " ".join(words[1:])], sorted(secrets), notes)


def _variable(name: str, value: str, is_secret: IsSecret, secrets: Secrets) -> str:
    if not is_secret(name, value):
        return "%s=%s" % (name, value)
    secrets[name] = value
    return name


def without_filled(inspect: Mapping[str, Any]) -> Dict[str, Any]:
    """An inspect without what Podman fills in by itself and no option of the user said."""
    found: Dict[str, Any] = copy.deepcopy(dict(inspect))
    host, config = found.get("HostConfig") or {}, found.get("Config") or {}
    for name, values in _FILLED.items():
        if host.get(name) in values:
            host[name] = None
    host["Ulimits"] = [
        item for item in host.get("Ulimits") or [] if not str(item["Name"]).startswith("RLIMIT_")
    ]
    host["LogConfig"] = {}
    config["Env"] = [item for item in config.get("Env") or [] if not item.startswith(_FILLED_ENVIRONMENT)]
    if str(config.get("StopSignal")) == "15":
        config["StopSignal"] = None
    if config.get("StopTimeout") == 10:
        config["StopTimeout"] = None
    return found
