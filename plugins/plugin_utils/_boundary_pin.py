# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pinned boundaries: those that ship with the collection, and a user's own (private, controller only).

A pin is a compact YAML file with its source, the day on which a person checked it, the limits, and the
official launches as flags and variables. docs/adding-a-boundary.md says how to write one.
"""

from __future__ import annotations

import datetime
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _recipe_source
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import (
    Boundary,
    Choice,
    Limit,
    as_version,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import Document, parse
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import (
    DECODE,
    HEAD,
    PREFILL,
    WORKER,
    Launch,
    Rank,
)

SCHEMA = "gpufleet.baseline/pinned-boundary/1"
SHIPPED = Path(__file__).parent / "_boundaries"

_NAME = re.compile(r"^[a-z0-9][a-z0-9.-]*$")
_RANK = re.compile(r"^RANK(?:\*(\d+))?$")
_KEYS = {
    *("schema", "name", "model", "source", "default", "limits", "variants", "hardware", "strategies"),
    *("flags", "variables", "launches"),
}
_LIMITS = {"driver_branch": int, "cuda": str, "image": str, "vllm": str}
# In the place of a recipe: the pinned boundary of this name.
PINNED = "pinned:"


@dataclass(frozen=True)
class Pin:
    """A pinned boundary as it was read."""

    name: str
    document: Document
    source: dict[str, str]
    checked: datetime.date

    def choice(self, hardware: str = "", strategy: str = "", variant: str = "") -> Choice:
        """A whole choice: what is not given is the pin's own default."""
        default = self.document.mapping("default")
        chosen = hardware or str(default.get("hardware", ""))
        if chosen not in self.document.mapping("hardware"):
            _unknown(self.document, "hardware", chosen, self.document.mapping("hardware"))
        own = self.document.text("hardware", chosen, "strategy")
        first = str(default.get("strategy", "")) if chosen == default.get("hardware") else ""
        return Choice(chosen, strategy or first or own, variant or str(default.get("variant", "default")))

    def boundary(self, choice: Choice) -> Boundary:
        """The limits for one choice."""
        document = self.document
        if choice.variant not in document.mapping("variants"):
            _unknown(document, "variant", choice.variant, document.mapping("variants"))
        limits = {name: self._limit(name) for name in _LIMITS if document.get("limits", name) is not None}
        memory = document.number("variants", choice.variant, "memory_gb")
        if memory is not None:
            limits["memory_gb"] = Limit(memory, "pin", f"variants.{choice.variant}.memory_gb")
        limits["gpu_model"] = Limit(choice.hardware, "pin", "hardware")
        limits["gpu_count"] = self._gpus(choice)
        per_host = document.number("hardware", choice.hardware, "per_host")
        if per_host:
            hosts = -(-limits["gpu_count"].value // int(per_host))
            limits["hosts"] = Limit(hosts, "pin", f"{per_host:g} GPUs per host")
        model = document.text("variants", choice.variant, "model") or document.need_text("model")
        checkpoint = document.number("variants", choice.variant, "checkpoint_gb")
        return Boundary(model, choice, limits, checkpoint_gb=checkpoint)

    def launch(self, choice: Choice) -> Launch | None:
        """The pinned launch for one choice; None when the pin has no launches at all."""
        document = self.document
        if document.get("launches") is None:
            return None
        path = ("launches", choice.hardware, choice.strategy)
        part = document.mapping(*path)
        if not part:
            known = document.mapping("launches", choice.hardware)
            _unknown(document, f"strategy for {choice.hardware}", choice.strategy, known)
        if PREFILL in part:
            ranks = [self._rank(role, (*path, role), "flags", choice, 0) for role in (PREFILL, DECODE)]
            pools = {role: {"hosts": int(part[role]["hosts"]), "gpus": int(part[role]["gpus"])}
                     for role in (PREFILL, DECODE)}  # fmt: skip
            count = 1
        else:
            count, pools = int(document.number(*path, "hosts") or 0), {}
            if "all" in part:
                ranks = [self._rank(HEAD, path, "all", choice, 0)]
            else:
                ranks = [self._rank(HEAD, path, "head", choice, 0)]
                ranks += [self._rank(WORKER, path, "worker", choice, rank) for rank in range(1, count)]
        image = str(self._limit("image").value)
        return Launch(choice.hardware, choice.strategy, choice.variant, image, count, tuple(ranks), pools)

    def age_days(self, today: datetime.date) -> int:
        """Days since a person checked it."""
        return (today - self.checked).days

    def _limit(self, name: str) -> Limit:
        value = self.document.get("limits", name, "value")
        if not isinstance(value, _LIMITS[name]) or isinstance(value, bool):
            self.document.wrong(
                "a number" if _LIMITS[name] is int else "a text", value, "limits", name, "value"
            )
        if name in ("cuda", "vllm") and not as_version(str(value)):
            self.document.wrong("a version", value, "limits", name, "value")
        return Limit(value, "pin", self.document.text("limits", name, "where"))

    def _gpus(self, choice: Choice) -> Limit:
        found = [
            Limit(int(count), "pin", ".".join(path))
            for path in (("hardware", choice.hardware, "gpus"), ("strategies", choice.strategy))
            if (count := self.document.number(*path)) is not None
        ]
        if not found:
            self.document.wrong("a number of GPUs", None, "hardware", choice.hardware, "gpus")
        return max(found, key=lambda limit: int(limit.value))

    def _rank(self, role: str, path: tuple[str, ...], flags: str, choice: Choice, number: int) -> Rank:
        document = self.document
        model = document.text("variants", choice.variant, "model") or document.need_text("model")
        words = [word for part in shlex.split(document.need_text(*path, flags)) for word in self._words(part)]
        env: dict[str, str] = {}
        for name in document.texts(*path, "variables"):
            block = document.mapping("variables", name)
            if not block:
                document.wrong("a block of variables", None, "variables", name)
            env.update({key: document.text("variables", name, key) for key in block})
        return Rank(role, ("vllm", "serve", model, *(_with_rank(word, number) for word in words)), env)

    def _words(self, word: str) -> list[str]:
        if not word.startswith("+"):
            return [word]
        return shlex.split(self.document.need_text("flags", word[1:]))


def load(name: str, read: Any = _recipe_source.read) -> Pin:
    """A pin by the name of one that ships with the collection, or by the path of a user's own file."""
    if not name.strip():
        raise BaselineError("expected the name or path of a boundary, found an empty text; such as kimi-k3")
    path = (
        SHIPPED / f"{name}.yml" if _NAME.match(name) and not name.endswith((".yml", ".yaml")) else Path(name)
    )
    if path.parent == SHIPPED and not path.is_file():
        known = ", ".join(sorted(found.stem for found in SHIPPED.glob("*.yml")))
        raise BaselineError(
            f"expected a boundary that ships with the collection ({known}) or a path, found {name}"
        )
    source = read(str(path))
    document = parse(str(path) if path.parent != SHIPPED else f"boundary {name}", source.content)
    if document.get("schema") != SCHEMA:
        document.wrong(SCHEMA, document.get("schema"), "schema")
    foreign = set(document.root) - _KEYS
    if foreign:
        raise BaselineError(
            f"{document.location}: expected the keys of {SCHEMA}, found {', '.join(sorted(foreign))}"
        )
    strange = set(document.mapping("limits")) - set(_LIMITS)
    if strange:
        raise BaselineError(
            f"{document.location}: expected as limits {', '.join(_LIMITS)}; found "
            f"{', '.join(sorted(strange))}"
        )
    document.need_text("model")
    origin = {key: document.text("source", key) for key in document.mapping("source")}
    return Pin(
        document.need_text("name"), document, {**origin, "pin_sha256": source.sha256}, _checked(document)
    )


def _checked(document: Document) -> datetime.date:
    text = document.need_text("source", "checked")
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        document.wrong("a day such as 2026-11-30", text, "source", "checked")


def _with_rank(word: str, number: int) -> str:
    found = _RANK.match(word)
    return str(number * int(found.group(1) or 1)) if found else word


def _unknown(document: Document, what: str, found: str, known: Any) -> None:
    raise BaselineError(
        f"{document.location}: expected as {what} one of {', '.join(known) or 'none'}; found {found or 'none'}"
    )
