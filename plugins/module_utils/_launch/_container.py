# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the container of a rank (private to the collection; pure)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._document import Part

# How a container asks for GPUs: a device request (--gpus), the nvidia runtime and its variable, CDI, not at all.
REQUEST, RUNTIME, CDI, NO_GPUS = "request", "runtime", "cdi", "none"
GPU_WAYS = (REQUEST, RUNTIME, CDI, NO_GPUS)


@dataclass(frozen=True)
class Mount:
    """A folder or file of the host in the container."""

    source: str
    target: str
    read_only: bool = False

    def as_dict(self) -> Dict[str, Any]:
        """For the document."""
        return {"source": self.source, "target": self.target, "read_only": self.read_only}


@dataclass(frozen=True)
class Gpus:
    """Which GPUs a container asks for, and how: "all", or UUIDs."""

    how: str = REQUEST
    ids: Tuple[str, ...] = ("all",)

    def as_dict(self) -> Dict[str, Any]:
        """For the document."""
        return {"how": self.how, "ids": list(self.ids)}


@dataclass(frozen=True)
class ContainerOptions:
    """The options of the container of a rank; an entrypoint of None is the image's own."""

    name: str = ""
    entrypoint: Optional[Tuple[str, ...]] = None
    network: str = "host"
    ipc: str = "host"
    shm_size: Optional[int] = None
    gpus: Gpus = field(default_factory=Gpus)
    mounts: Tuple[Mount, ...] = ()
    ulimits: Mapping[str, int] = field(default_factory=dict)
    devices: Tuple[str, ...] = ()
    cap_add: Tuple[str, ...] = ()
    privileged: bool = False
    security_opt: Tuple[str, ...] = ()
    group_add: Tuple[str, ...] = ()
    workdir: str = ""
    user: str = ""

    def as_dict(self) -> Dict[str, Any]:
        """For the document."""
        return {
            "name": self.name,
            "entrypoint": None if self.entrypoint is None else list(self.entrypoint),
            "network": self.network,
            "ipc": self.ipc,
            "shm_size": self.shm_size,
            "gpus": self.gpus.as_dict(),
            "mounts": [mount.as_dict() for mount in self.mounts],
            "ulimits": dict(self.ulimits),
            "devices": list(self.devices),
            "cap_add": list(self.cap_add),
            "privileged": self.privileged,
            "security_opt": list(self.security_opt),
            "group_add": list(self.group_add),
            "workdir": self.workdir,
            "user": self.user,
        }

    @classmethod
    def from_dict(cls, document: Dict[str, Any], name: str = "container") -> ContainerOptions:
        """Read the options; an error names the key that is not as it should be."""
        return read(Part(document, name))


def read(part: Part) -> ContainerOptions:
    """Read the options of a container."""
    part.known(tuple(ContainerOptions().as_dict()))
    entrypoint = None if part.values.get("entrypoint") is None else tuple(part.texts("entrypoint"))
    gpus = part.part_or_none("gpus")
    limits = part.mapping("ulimits", {})
    for name, limit in limits.items():
        if not isinstance(limit, int) or isinstance(limit, bool):
            part.wrong("a whole number", limit, f"ulimits.{name}")
    return ContainerOptions(
        name=part.text("name", ""),
        entrypoint=entrypoint,
        network=part.text("network", "host"),
        ipc=part.text("ipc", "host"),
        shm_size=part.number_or_none("shm_size", least=1),
        gpus=_gpus(gpus) if gpus else Gpus(),
        mounts=tuple(_mount(mount) for mount in part.parts("mounts", ())),
        ulimits=limits,
        devices=tuple(part.texts("devices", ())),
        cap_add=tuple(part.texts("cap_add", ())),
        privileged=part.flag("privileged", False),
        security_opt=tuple(part.texts("security_opt", ())),
        group_add=tuple(part.texts("group_add", ())),
        workdir=part.text("workdir", ""),
        user=part.text("user", ""),
    )


def _gpus(part: Part) -> Gpus:
    part.known(("how", "ids"))
    gpus = Gpus(part.choice("how", GPU_WAYS), tuple(part.texts("ids", ())))
    if (gpus.how == NO_GPUS) == bool(gpus.ids):
        part.wrong("'all' or UUIDs, and nothing for 'none'", list(gpus.ids), "ids")
    return gpus


def _mount(part: Part) -> Mount:
    part.known(("source", "target", "read_only"))
    return Mount(part.text("source"), part.text("target"), part.flag("read_only", False))
