# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A planned launch on a terminal: what is started where, as commands to paste, and what was left out (private to the
collection, controller only; pure).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import OFF, ON, shown
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Launch, LeftOut
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._render import command_text
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._wrap import COLUMNS

_LABEL = 10
_NAME = 34


def commands(launch: Launch) -> str:
    """The commands of all ranks, each with its host above it."""
    return "\n".join(line for rank in launch.ranks for line in _rank_lines(launch, rank.node_rank))


def render(launch: Launch, run: str, addresses: Mapping[str, str]) -> list[str]:
    """The lines to show, none longer than 100 columns."""
    topology = launch.topology
    what = " ".join(part for part in (launch.hardware, launch.strategy) if part) or launch.model
    title = (
        f"Launch {run or '(check mode)'}: {launch.name}, {what}, {topology.hosts} hosts, {topology.gpus} GPUs"
    )
    lines = [title]
    for label, text in _about(launch, addresses):
        lines += _labelled(label, text)
    for rank in launch.ranks:
        lines += ["", *_rank_lines(launch, rank.node_rank)]
    if launch.left_out:
        lines += ["", "left out, against the official launch:"]
        for item in launch.left_out:
            lines += _item(item)
    return lines


def _about(launch: Launch, addresses: Mapping[str, str]) -> list[tuple[str, str]]:
    told = [("engine", launch.engine)]
    if launch.image:
        identifier = launch.image.id[:19] or "(id not measured)"
        told.append(("image", f"{launch.image.reference} {identifier}".strip()))
    if launch.source:
        told.append(("source", _source(launch)))
    told += [("address", f"{host} {how}") for host, how in addresses.items()]
    if launch.overrides:
        told.append(("overrides", _overrides(launch.overrides)))
    if launch.diagnostics != "none":
        told.append(("diagnosis", f"{launch.diagnostics}: this run counts neither as stable nor as a parent"))
    told += [("note", note) for note in launch.notes if not note.startswith("correction ")]
    corrections = [
        note.split(":")[0].removeprefix("correction ")
        for note in launch.notes
        if note.startswith("correction ")
    ]
    if corrections:
        told.append(("corrected", f"{', '.join(corrections)} (why: launch.json, notes)"))
    return told


def _source(launch: Launch) -> str:
    source = launch.source
    told = [str(source.get("asked") or source.get("location", ""))]
    if source.get("commit"):
        told.append(f"commit {str(source['commit'])[:7]}")
    if "age_days" in source:
        days = "day" if source["age_days"] == 1 else "days"
        told.append(f"checked {source.get('checked')} ({source['age_days']} {days} ago)")
    return ", ".join(part for part in told if part)


def _overrides(overrides: Mapping[str, object]) -> str:
    told = [str(overrides["model"])] if "model" in overrides else []
    for part in ("flags", "env", "container"):
        values = overrides.get(part)
        told += [str(name) for name in values] if isinstance(values, Mapping) else []
    return ", ".join(told)


def _rank_lines(launch: Launch, number: int) -> list[str]:
    rank = next(rank for rank in launch.ranks if rank.node_rank == number)
    role = f"{rank.role}, API on port {rank.api_port}" if rank.api_port else f"{rank.role}, no API"
    return [f"# {rank.host}: rank {rank.node_rank}, {role}", *command_text(launch, rank).splitlines()]


def _labelled(label: str, text: str) -> list[str]:
    return _hung(f"  {label:<{_LABEL}}", text)


def _item(item: LeftOut) -> list[str]:
    name = _short(item)
    if len(name) > _NAME:
        return [f"  {name}"[:COLUMNS], *_hung(" " * (_NAME + 4), item.why)]
    return _hung(f"  {name:<{_NAME + 2}}", item.why)


def _short(item: LeftOut) -> str:
    if item.variable.startswith("--"):
        text = shown(item.variable, item.value)
        return text if item.value in (ON, OFF) or len(text) <= COLUMNS - 4 else item.variable
    return f"{item.variable}={item.value}"


def _hung(first: str, text: str) -> list[str]:
    """Text behind a label, further lines below its beginning."""
    lines: Sequence[str] = textwrap.wrap(text, COLUMNS - len(first), break_on_hyphens=False) or [""]
    return [(first + lines[0]).rstrip(), *(" " * len(first) + line for line in lines[1:])]
