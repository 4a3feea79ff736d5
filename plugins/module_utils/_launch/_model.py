# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch: everything that decides a start, per rank (private to the collection; pure).

The document is ``gpufleet.baseline/launch/1`` (docs/launch.md). It holds no secret: the value of such a
variable is a reference by name, filled in only for the task that starts the rank.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple, Union

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch import _container
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import ContainerOptions
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._document import Part

SCHEMA = "gpufleet.baseline/launch/1"
DOCKER, PROCESS = "docker", "process"
ENGINES = (DOCKER, PROCESS)
HEAD, WORKER, PREFILL, DECODE = "head", "worker", "prefill", "decode"
ROLES = (HEAD, WORKER, PREFILL, DECODE)
DIAGNOSTICS = ("none", "logs", "nccl", "blocking", "trace")


@dataclass(frozen=True)
class Secret:
    """A value that is not here: its name among the secrets of the user."""

    name: str

    def as_dict(self) -> Dict[str, str]:
        """For the document."""
        return {"secret": self.name}


Value = Union[str, Secret]


@dataclass(frozen=True)
class ProcessOptions:
    """Where a rank runs that is a plain process; an empty log is the one in the run's state directory."""

    executable: str
    cwd: str = ""
    log: str = ""

    def as_dict(self) -> Dict[str, str]:
        """For the document."""
        return {"executable": self.executable, "cwd": self.cwd, "log": self.log}


@dataclass(frozen=True)
class RankLaunch:
    """One rank: its host and number, its words after the executable's place, its environment, its options."""

    host: str
    node_rank: int
    role: str
    argv: Tuple[str, ...]
    env: Mapping[str, Value]
    api_port: Optional[int] = None
    headless: bool = False
    container: Optional[ContainerOptions] = None
    process: Optional[ProcessOptions] = None

    def as_dict(self) -> Dict[str, Any]:
        """For the document."""
        return {
            "host": self.host,
            "node_rank": self.node_rank,
            "role": self.role,
            "argv": list(self.argv),
            "env": {
                name: value.as_dict() if isinstance(value, Secret) else value
                for name, value in self.env.items()
            },
            "api_port": self.api_port,
            "headless": self.headless,
            "container": self.container.as_dict() if self.container else None,
            "process": self.process.as_dict() if self.process else None,
        }


@dataclass(frozen=True)
class Topology:
    """How many hosts and GPUs the launch takes, and how the model is split over them."""

    hosts: int
    gpus: int
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False

    def as_dict(self) -> Dict[str, Any]:
        """For the document."""
        return {
            "hosts": self.hosts,
            "gpus": self.gpus,
            "tensor_parallel": self.tensor_parallel,
            "pipeline_parallel": self.pipeline_parallel,
            "data_parallel": self.data_parallel,
            "expert_parallel": self.expert_parallel,
        }


@dataclass(frozen=True)
class Image:
    """The image: by the id that is the same on all hosts, and the name it was found under."""

    reference: str
    id: str = ""

    def as_dict(self) -> Dict[str, str]:
        """For the document."""
        return {"reference": self.reference, "id": self.id}


@dataclass(frozen=True)
class LeftOut:
    """What a launch does not have that the one it comes from has, and why."""

    variable: str
    value: str
    why: str

    def as_dict(self) -> Dict[str, str]:
        """For the document."""
        return {"variable": self.variable, "value": self.value, "why": self.why}


@dataclass(frozen=True)
class Launch:
    """A whole launch, all ranks."""

    name: str
    engine: str
    hardware: str
    strategy: str
    variant: str
    model: str
    topology: Topology
    image: Optional[Image]
    ranks: Tuple[RankLaunch, ...]
    diagnostics: str = "none"
    left_out: Tuple[LeftOut, ...] = ()
    notes: Tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict)
    # What the user declared on top of the recipe (launch_overrides); its effect is in the ranks already.
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> Dict[str, Any]:
        """The document as it is kept: with the digest of the launch."""
        return {**self.as_dict(), "sha256": self.sha256()}

    def as_dict(self) -> Dict[str, Any]:
        """The document."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "engine": self.engine,
            "hardware": self.hardware,
            "strategy": self.strategy,
            "variant": self.variant,
            "model": self.model,
            "topology": self.topology.as_dict(),
            "image": self.image.as_dict() if self.image else None,
            "diagnostics": self.diagnostics,
            "ranks": [rank.as_dict() for rank in self.ranks],
            "left_out": [item.as_dict() for item in self.left_out],
            "notes": list(self.notes),
            "source": dict(self.source),
            "overrides": dict(self.overrides),
        }

    def sha256(self) -> str:
        """What identifies the same launch: its document without what belongs to one run or only tells about it.

        The name of a container and the log file of a process have the run in them.
        """
        document = self.as_dict()
        for key in ("name", "left_out", "notes", "source", "overrides"):
            del document[key]
        for rank in document["ranks"]:
            for options, key in (("container", "name"), ("process", "log")):
                if rank[options]:
                    del rank[options][key]
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def ranks_of(self, host: str) -> Tuple[RankLaunch, ...]:
        """The ranks that run on a host."""
        return tuple(rank for rank in self.ranks if rank.host == host)

    @classmethod
    def from_dict(cls, document: Any, name: str = "launch") -> Launch:
        """Read a launch document; an error names the key that is not as it should be."""
        top = Part(document if isinstance(document, dict) else {"schema": None}, name)
        top.choice("schema", (SCHEMA,), "")
        top.known(_KEYS)
        engine = top.choice("engine", ENGINES)
        ranks = tuple(_rank(part, engine) for part in top.parts("ranks"))
        if not ranks:
            top.wrong("at least one rank", [], "ranks")
        numbers = [rank.node_rank for rank in ranks]
        if len(set(numbers)) != len(numbers):
            top.wrong("each node_rank once", numbers, "ranks")
        image = top.part_or_none("image")
        if (image is None) != (engine == PROCESS):
            top.wrong("an image with docker, none with process", top.values.get("image"), "image")
        launch = cls(
            top.text("name"),
            engine,
            top.text("hardware"),
            top.text("strategy"),
            top.text("variant"),
            top.text("model"),
            _topology(top.part("topology")),
            _image(image) if image else None,
            ranks,
            top.choice("diagnostics", DIAGNOSTICS, "none"),
            tuple(_left_out(part) for part in top.parts("left_out", ())),
            tuple(top.texts("notes", ())),
            top.mapping("source", {}),
            top.mapping("overrides", {}),
        )
        if top.text("sha256", "") not in ("", launch.sha256()):
            top.wrong(f"{launch.sha256()}, the digest of what stands there", top.text("sha256"), "sha256")
        return launch


_KEYS = (
    *("schema", "name", "engine", "hardware", "strategy", "variant", "model", "topology", "image"),
    *("diagnostics", "ranks", "left_out", "notes", "source", "overrides"),
    *("sha256", "command"),
)


def _topology(part: Part) -> Topology:
    part.known(tuple(Topology(1, 1).as_dict()))
    return Topology(
        part.number("hosts", least=1),
        part.number("gpus"),
        part.number("tensor_parallel", 1, least=1),
        part.number("pipeline_parallel", 1, least=1),
        part.number("data_parallel", 1, least=1),
        part.flag("expert_parallel", False),
    )


def _image(part: Part) -> Image:
    part.known(("reference", "id"))
    image = Image(part.text("reference"), part.text("id", ""))
    if not image.reference and not image.id:
        part.wrong("a reference or an id", None, "reference")
    return image


def _left_out(part: Part) -> LeftOut:
    part.known(("variable", "value", "why"))
    return LeftOut(part.text("variable"), part.text("value"), part.text("why"))


def _rank(part: Part, engine: str) -> RankLaunch:
    part.known(tuple(RankLaunch("", 0, HEAD, (), {}).as_dict()))
    container, process = part.part_or_none("container"), part.part_or_none("process")
    if (container is None) != (engine == PROCESS) or (process is None) != (engine == DOCKER):
        part.wrong(f"container options with docker, process options with process ({engine})", None, "")
    argv = part.texts("argv")
    if not argv:
        part.wrong("the words of a command", argv, "argv")
    api_port = part.number_or_none("api_port", least=1)
    return RankLaunch(
        part.text("host"),
        part.number("node_rank"),
        part.choice("role", ROLES),
        tuple(argv),
        {key: _value(part, key, value) for key, value in part.mapping("env").items()},
        api_port,
        part.flag("headless", False),
        _container.read(container) if container else None,
        _process(process) if process else None,
    )


def _value(part: Part, key: str, value: Any) -> Value:
    if isinstance(value, dict):
        secret = Part(value, part.document, f"{part.place}.env.{key}")
        secret.known(("secret",))
        return Secret(secret.text("secret"))
    if not isinstance(value, str):
        part.wrong("a text or {'secret': NAME}", value, f"env.{key}")
    return value


def _process(part: Part) -> ProcessOptions:
    part.known(("executable", "cwd", "log"))
    executable = part.text("executable")
    if not executable.startswith("/"):
        part.wrong("an absolute path", executable, "executable")
    return ProcessOptions(executable, part.text("cwd", ""), part.text("log", ""))
