# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules of the gate see of a host (private to the collection, controller only).

Pure. Small typed values; how the documents of the hosts lay them out is known to ``_documents`` alone. A
fact that was not measured has an outcome other than ok and a reason, and no rule may take it for a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import SKIPPED

# The source of what the loaded module tells by files, without asking the GPU.
FROM_MODULE = "/proc/driver/nvidia/gpus"
ENGINE_FACTS = ("versions", "cuda", "devices", "model")
NOT_TOLD = Measured(None, SKIPPED, "", "the host's document does not hold it")


@dataclass(frozen=True)
class Gpu:
    """One GPU; each fact by name, as the host measured it."""

    address: str
    facts: Mapping[str, Measured]
    missing_from: tuple[str, ...] = ()

    def fact(self, name: str) -> Measured:
        """A fact by name."""
        try:
            return self.facts[name]
        except KeyError:
            return NOT_TOLD

    def value(self, name: str) -> Any:
        """A fact's value where it was measured; None otherwise."""
        fact = self.fact(name)
        return fact.value if fact.ok else None

    @cached_property
    def answered(self) -> bool:
        """Whether the driver's tools read anything of it; the loaded module alone tells of lost GPUs too."""
        return any(
            fact.ok and fact.source != FROM_MODULE
            for name, fact in self.facts.items()
            if name not in ("index", "processes")
        )


@dataclass(frozen=True)
class Engine:
    """One engine on a host: a container, or a process outside of containers (then without image)."""

    name: str
    id: str
    running: bool
    in_container: bool
    # Image: name, id, digests, architecture, tag_moved; empty for a plain process.
    image: Mapping[str, Any]
    environment: Mapping[str, str]
    argv: tuple[str, ...]
    versions: Measured
    cuda: Measured
    devices: Measured
    libraries: Measured
    models: tuple[Measured, ...]
    gpu_request: Mapping[str, Any]
    restart_policy: str
    limits: Mapping[str, Any]
    pids: tuple[int, ...]

    def read(self, name: str) -> Measured:
        """A fact by name; of several models the first, which is the one that is served."""
        if name == "model":
            return self.models[0] if self.models else NOT_TOLD
        found: Measured = getattr(self, name)
        return found


@dataclass(frozen=True)
class HostFacts:
    """One host. ``reason`` tells why there are no facts of it (unreachable, another run's, outside of the
    limit).
    """

    name: str
    reason: str = ""
    run: str = ""
    time: str = ""
    gpus: Measured = NOT_TOLD
    # Numbers of GPUs by source; a source that did not end has none.
    counts: Mapping[str, Measured] = field(default_factory=dict)
    facts: Mapping[str, Measured] = field(default_factory=dict)
    # The hashed files of directories of models, by path; none when it was not asked for.
    hashes: Mapping[str, Measured] = field(default_factory=dict)
    # Why the engines could not be listed; they were listed when it is ok.
    engines_read: Measured = NOT_TOLD
    engines: tuple[Engine, ...] = ()
    problems: tuple[str, ...] = ()
    # Whether earlier changes of the host are known in their order.
    timeline: bool = False

    def fact(self, name: str) -> Measured:
        """A fact by name."""
        return self.facts.get(name, NOT_TOLD)

    def value(self, name: str) -> Any:
        """A fact's value where it was measured; None otherwise."""
        fact = self.fact(name)
        return fact.value if fact.ok else None

    def read(self, name: str) -> Measured:
        """A fact by the name that a rule gives: of the host, of its first engine, of its first GPU that answers."""
        if name == "gpus":
            return self.gpus
        if name == "engines":
            return self.engines_read
        if name in self.facts:
            return self.facts[name]
        if name in ENGINE_FACTS:
            return self.engines[0].read(name) if self.engines else self.engines_read
        return next((gpu.fact(name) for gpu in self.gpu_list if gpu.answered), self.gpus)

    @property
    def gpu_list(self) -> tuple[Gpu, ...]:
        """The GPUs that any source lists."""
        return tuple(self.gpus.value or ())

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of the GPUs that were read."""
        return tuple(uuid for gpu in self.gpu_list if (uuid := gpu.value("uuid")))
