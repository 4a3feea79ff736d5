# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer for one attempt, before it is written down; private to the collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _ranks
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log, Part
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._choose import Choice
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._outside import KernelWord
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._process import role_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import SERVICE

HIGH, MEDIUM, LOW = "high", "medium", "low"
_WORST = {HIGH: 0, MEDIUM: 1, LOW: 2}


@dataclass
class Decision:
    """The answer for one attempt, before it is written down."""

    outcome: str = "unknown"
    stage: str = "none"
    substage: str = ""
    failure_class: str = "none"
    log: Optional[Log] = None
    line: Optional[int] = None
    exception_line: Optional[int] = None
    process: str = ""
    rank: Optional[int] = None
    time: Optional[float] = None
    message: str = ""
    confidence: str = LOW
    reason: str = ""
    advice: str = ""
    memory: Optional[Dict[str, Optional[int]]] = None
    parts: List[Part] = field(default_factory=list)
    choice: Choice = field(default_factory=Choice)
    kernel: Optional[KernelWord] = None
    scope: str = SERVICE

    @property
    def role(self) -> str:
        """Role of the failing process."""
        return role_of(self.process) if self.process else ("none" if self.stage == "none" else "main")

    def signature(self) -> Dict[str, object]:
        """What makes two failures the same; text, lines, process ids and times are not in it."""
        failed = self.outcome in ("failed", "hung")
        rejected = self.scope != SERVICE
        return {
            "stage": self.stage,
            "substage": self.substage,
            "class": self.failure_class,
            "role": self.role,
            "exits": _ranks.exits(self.parts, failed),
            "request": _ranks.request_outcome(self.parts, rejected),
        }


def lower(one: str, other: str) -> str:
    """The less sure of two."""
    return one if _WORST[one] >= _WORST[other] else other
