# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look in one host's record for secrets of the others (private to the collection, controller only).

Between hosts only keyed digests travel (module_utils/_redact/_fingerprint.py). The record is read once, in constant
memory, and cut into the same runs of letters, digits, ``_`` and ``-`` that were digested; a run of a known length is
digested and looked up. Names of members are read like content. A secret without such a run cannot be found this way
and is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._fingerprint import (
    INNER_RUN,
    RUN,
    digest,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._seal import member_blocks

# Text that waits for the rest of its run; a longer run is no secret that was digested.
LONGEST_RUN = 64 * 1024
# Runs that were looked up already; a log repeats most of its words.
REMEMBERED = 200_000

_RUN_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


@dataclass(frozen=True)
class Leak:
    """One hit: the member, whose secret it is, and its name and digest; never the value."""

    member: str
    value_of_host: str
    name: str
    digest: str


def find_leaks(
    archive: Path, digests_by_host: Mapping[str, Sequence[Mapping[str, Any]]], key: bytes, host: str
) -> list[Leak]:
    """Every secret of another host in a record; each member and secret once."""
    known = {
        str(entry["digest"]): (other, str(entry["name"]))
        for other, entries in digests_by_host.items()
        if other != host
        for entry in entries
        if entry["digest"]
    }
    lengths = {
        int(entry["length"])
        for other, entries in digests_by_host.items()
        if other != host
        for entry in entries
    }
    if not known:
        return []
    found: dict[tuple[str, str], Leak] = {}
    asked: set[bytes] = set()
    with open(archive, "rb") as stream:
        for member, blocks in member_blocks(stream):
            for run in _runs(member, blocks):
                if len(run) not in lengths or run in asked:
                    continue
                value = digest(key, run)
                if value in known:
                    other, name = known[value]
                    found.setdefault((member, value), Leak(member, other, name, value))
                elif len(asked) < REMEMBERED:
                    asked.add(run)
    return list(found.values())


def untestable(digests_by_host: Mapping[str, Sequence[Mapping[str, Any]]], host: str) -> int:
    """How many secrets of other hosts cannot be looked for as they are, by host and name; encoded copies may be."""
    names, tested = set(), set()
    for other, entries in digests_by_host.items():
        for entry in entries if other != host else ():
            names.add((other, entry["name"]))
            if entry["form"] == "raw" and entry["digest"]:
                tested.add((other, entry["name"]))
    return len(names - tested)


def _runs(member: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The runs of a member's name and content, as they are and without ``_`` and ``-`` round them."""
    waiting = member.encode() + b"\n"
    for block in blocks:
        text = waiting + block
        end = len(text)
        while end > 0 and text[end - 1] in _RUN_BYTES and len(text) - end < LONGEST_RUN:
            end -= 1
        yield from _cut(text[:end])
        waiting = text[end:]
    yield from _cut(waiting)


def _cut(text: bytes) -> Iterator[bytes]:
    for run in set(RUN.findall(text)):
        yield run
        if not run.isalnum():
            yield from INNER_RUN.findall(run)
