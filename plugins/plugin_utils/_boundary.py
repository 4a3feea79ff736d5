# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model's compatibility boundary as data, and the comparison of two of them (private to the collection,
controller only).

Pure. A limit without a value is one that the source does not state; it is never filled in. Of a pinned
boundary and one that was read just now the stricter limit holds, and every difference is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

SCHEMA = "gpufleet.baseline/boundary/1"
# Each limit, and what it is called for people.
LIMITS = {
    "driver_branch": "driver branch, at least",
    "cuda": "CUDA of the image, at least",
    "image": "image",
    "vllm": "vLLM, at least",
    "gpu_model": "GPU model",
    "gpu_count": "GPUs in the launch group, at least",
    "memory_gb": "GPU memory in the launch group in GB, at least",
    "hosts": "hosts, at least",
}
# Limits that are minima; of the others two values cannot be ranked.
MINIMA = ("driver_branch", "cuda", "vllm", "gpu_count", "memory_gb", "hosts")

_VERSION = re.compile(r"^v?(\d+(?:\.\d+)*)(.*)$")
_PART_COUNT = 5
# More are no part of a version; Python refuses to read thousands of them as a number.
_MOST_DIGITS = 18


def as_version(text: str) -> tuple[int, ...]:
    """A version for comparison, a pre-release below its release; empty when it is none."""
    found = _VERSION.match(text.strip())
    if not found:
        return ()
    digits = found.group(1).split(".")[:_PART_COUNT]
    if any(len(part) > _MOST_DIGITS for part in digits):
        return ()
    parts = [int(part) for part in digits]
    rest = found.group(2).partition("+")[0].lower()
    if re.match(r"[._-]?(a|b|c|rc|dev|alpha|beta|pre|nightly)", rest):
        final = -1
    else:
        final = 1 if re.match(r"[._-]?(post|rev|r)\d", rest) else 0
    return (*parts, *([0] * (_PART_COUNT - len(parts))), final)


@dataclass(frozen=True)
class Limit:
    """One limit: its value, how it was come by (field, prose, arithmetic, choice, pin), where, and the
    sentence.
    """

    value: Any = None
    how: str = ""
    where: str = ""
    text: str = ""

    @property
    def stated(self) -> bool:
        """Whether the source states it."""
        return self.value is not None

    def as_dict(self) -> dict[str, Any]:
        """How the limit was come by, for documents."""
        return {"how": self.how or "not stated", "where": self.where, "text": self.text}


@dataclass(frozen=True)
class Choice:
    """What of a recipe is meant; an empty part is the recipe's own recommendation."""

    hardware: str = ""
    strategy: str = ""
    variant: str = "default"


@dataclass(frozen=True)
class Boundary:
    """All limits of one model for one choice of hardware, strategy and variant."""

    model: str
    choice: Choice
    limits: dict[str, Limit]
    features: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dates: dict[str, str] = field(default_factory=dict)
    # Reported size of the checkpoint in GB, where the recipe's own memory figure is an estimate.
    checkpoint_gb: float | None = None

    def limit(self, name: str) -> Limit:
        """A limit by name; one without a value when it is not stated."""
        return self.limits.get(name, Limit())

    def value(self, name: str) -> Any:
        """A limit's value; None when it is not stated."""
        return self.limit(name).value

    def as_dict(self) -> dict[str, Any]:
        """The boundary as it stands in documents: values by name, and beside them how each was come by."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "hardware": self.choice.hardware,
            "strategy": self.choice.strategy,
            "variant": self.choice.variant,
            **{name: self.value(name) for name in LIMITS},
            "sources": {name: self.limit(name).as_dict() for name in LIMITS},
            "checkpoint_gb": self.checkpoint_gb,
            "features": self.features,
            "model_facts": self.facts,
            "dates": self.dates,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Difference:
    """A limit on which pin and live value differ, and which of the two holds."""

    limit: str
    pinned: Any
    live: Any
    used: Any

    @property
    def text(self) -> str:
        """For people."""
        told = {None: "not stated"}
        pinned, live = told.get(self.pinned, self.pinned), told.get(self.live, self.live)
        return f"{LIMITS[self.limit]}: pinned {pinned}, recipe now {live}; {self.used} holds"

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return {
            "limit": self.limit,
            "pinned": self.pinned,
            "live": self.live,
            "used": self.used,
            "text": self.text,
        }


def stricter(pin: Boundary, live: Boundary) -> tuple[Boundary, list[Difference]]:
    """The boundary that holds when a pinned one and a live one are known, and all on which they differ."""
    limits: dict[str, Limit] = {}
    differences = []
    for name in LIMITS:
        old, new = pin.limit(name), live.limit(name)
        used = _stricter_limit(name, old, new)
        limits[name] = used
        if not _equal(name, old.value, new.value):
            differences.append(Difference(name, old.value, new.value, used.value))
    notes = tuple(dict.fromkeys([*pin.notes, *live.notes]))
    return replace(live, limits=limits, notes=notes, checkpoint_gb=pin.checkpoint_gb), differences


def _stricter_limit(name: str, old: Limit, new: Limit) -> Limit:
    if not old.stated or not new.stated:
        return old if old.stated else new
    if name not in MINIMA:
        # Two names cannot be ranked. The pin was checked by a person; the difference is told.
        return old
    return new if _ranked(new.value) > _ranked(old.value) else old


def _ranked(value: Any) -> tuple[float, ...]:
    return (float(value),) if isinstance(value, (int, float)) else as_version(str(value))


def _equal(name: str, old: Any, new: Any) -> bool:
    if old is None or new is None or name not in MINIMA:
        return bool(old == new)
    return _ranked(old) == _ranked(new)
