# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process of a run, and the stages that it went through (private to the collection)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import dimensions


@dataclass
class Step:
    """A stage that a process was in."""

    stage: str
    substage: str
    line: int
    entered: Optional[float]
    left: Optional[float] = None
    progress: Optional[str] = None


@dataclass
class Process:
    """One process of a run."""

    name: str
    pid: Optional[int]
    host: str = ""
    rank: Optional[int] = None
    local_rank: Optional[int] = None
    steps: List[Step] = field(default_factory=list)
    last_line: int = 0
    last_time: Optional[float] = None

    @property
    def place(self) -> Tuple[str, str]:
        """The stage it is in."""
        return (self.steps[-1].stage, self.steps[-1].substage) if self.steps else ("", "")

    @property
    def role(self) -> str:
        """api, engine, worker or main."""
        return role_of(self.name)


def precision(name: str) -> int:
    """How much a process name tells: multiprocessing's own name, the part it plays, its place in the
    groups.
    """
    if not name:
        return 0
    if dimensions(name):
        return 3
    return 1 if name.startswith("VllmWorker-") or name == "MainProcess" else 2


def role_of(name: str) -> str:
    """The part that a process plays, from its name."""
    lowered = name.lower()
    if "worker" in lowered:
        return "worker"
    if "enginecore" in lowered:
        return "engine"
    if lowered.startswith(("apiserver", "rustfrontend", "dpcoordinator", "dpsupervisor")):
        return "api"
    return name if name in ("docker", "kernel") else "main"
