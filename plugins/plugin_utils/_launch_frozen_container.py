# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a frozen container as those of a launch (private to the collection, controller only).

Pure. The facts tell what the container had; the rebuilt command that stands in them tells which of it is not the
image's own.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    CDI,
    NO_GPUS,
    REQUEST,
    RUNTIME,
    ContainerOptions,
    Gpus,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._render import IMAGE_ENTRYPOINT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_place import container_name

# Limits that a launch has no word for, and the value of each that says nothing.
_NO_WORD = {
    "Memory": 0,
    "NanoCpus": 0,
    "CpusetCpus": "",
    "CpusetMems": "",
    "PidMode": "",
    "ReadonlyRootfs": False,
}
_CDI_PREFIX = "nvidia.com/gpu="


def own_variables(facts: Mapping[str, Any]) -> set[str] | None:
    """Names of the variables that are not the image's own; None when that is not known."""
    words = _run_words(facts)
    if words is None:
        return None
    return {word.partition("=")[0] for word in _values(words, "-e")}


def options_of(
    facts: Mapping[str, Any], argv: tuple[str, ...], notes: list[str]
) -> Callable[[str, int], ContainerOptions]:
    """The options, but for the name, which is the run's; notes say what they do not hold."""
    limits = facts.get("limits") or {}
    words = _run_words(facts) or []
    _tell_the_rest(facts, limits, notes)
    options = ContainerOptions(
        entrypoint=None if argv[:2] == IMAGE_ENTRYPOINT and "--entrypoint" not in words else argv[:1],
        network=_network(facts, notes),
        ipc="" if limits.get("IpcMode") in (None, "", "private") else str(limits["IpcMode"]),
        shm_size=limits.get("ShmSize") or None,
        gpus=_gpus(facts.get("gpu_request") or {}),
        mounts=_mounts(facts.get("mounts") or [], notes),
        ulimits={str(limit["Name"]): int(limit["Hard"]) for limit in limits.get("Ulimits") or []},
        devices=tuple((facts.get("gpu_request") or {}).get("devices") or ()),
        cap_add=tuple(limits.get("CapAdd") or ()),
        privileged=bool(limits.get("Privileged")),
        security_opt=_security(limits),
        group_add=tuple(_values(words, "--group-add")),
        workdir=next(iter(_values(words, "--workdir")), ""),
        user=next(iter(_values(words, "--user")), ""),
    )
    return lambda run, number: replace(options, name=container_name(run, number))


def _run_words(facts: Mapping[str, Any]) -> list[str] | None:
    """The words of the rebuilt command up to the image."""
    text = (facts.get("run_command") or {}).get("text")
    if not isinstance(text, str) or not text.strip():
        return None
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    try:
        words = shlex.split("\n".join(lines).replace("\\\n", " "))
    except ValueError:
        return None
    image = str((facts.get("image") or {}).get("id") or "")
    return words[: words.index(image)] if image in words else words


def _values(words: Sequence[str], option: str) -> list[str]:
    return [after for word, after in itertools.pairwise(words) if word == option]


def _network(facts: Mapping[str, Any], notes: list[str]) -> str:
    network = facts.get("network") or {}
    mode = str(network.get("mode") or "")
    if network.get("ports") and mode != "host":
        notes.append(f"published ports are not taken over: {', '.join(sorted(network['ports']))}")
    return "" if mode in ("default", "bridge") else mode


def _gpus(request: Mapping[str, Any]) -> Gpus:
    for asked in request.get("device_requests") or []:
        names = [str(name) for name in asked.get("DeviceIDs") or []]
        if asked.get("Driver") == "cdi":
            return Gpus(CDI, tuple(name.removeprefix(_CDI_PREFIX) for name in names))
        return Gpus(REQUEST, tuple(names) or ("all",))
    visible = str(request.get("visible_devices") or "")
    if str(request.get("runtime") or "").startswith("nvidia") and visible not in ("", "void", "none"):
        return Gpus(RUNTIME, tuple(visible.split(",")))
    return Gpus(NO_GPUS, ())


def _mounts(mounts: Sequence[Mapping[str, Any]], notes: list[str]) -> tuple[Mount, ...]:
    found = []
    for mount in mounts:
        source = mount.get("volume") if mount.get("type") == "volume" else mount.get("source")
        if mount.get("type") not in ("bind", "volume") or not source:
            notes.append(f"the {mount.get('type')} mount at {mount.get('target')} is not taken over")
            continue
        found.append(Mount(str(source), str(mount["target"]), mount.get("writable") is False))
    return tuple(found)


def _security(limits: Mapping[str, Any]) -> tuple[str, ...]:
    # The Engine adds it to a privileged container by itself.
    given = limits.get("SecurityOpt") or []
    return tuple(text for text in given if not (limits.get("Privileged") and text == "label=disable"))


def _tell_the_rest(facts: Mapping[str, Any], limits: Mapping[str, Any], notes: list[str]) -> None:
    for name, empty in _NO_WORD.items():
        if limits.get(name) not in (None, empty):
            notes.append(f"{name}={limits[name]} is not taken over")
    if limits.get("CapDrop"):
        notes.append(f"dropped capabilities are not taken over: {', '.join(limits['CapDrop'])}")
    policy = (facts.get("restart_policy") or {}).get("Name")
    if policy not in (None, "", "no"):
        notes.append(f"restart policy {policy} is not taken over: a rank that ends must stay ended")
