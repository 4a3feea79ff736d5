# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen at the end of a freeze (private to the collection, controller only).

Pure: what each host gave goes in, lines of at most 100 columns come out, at most 25 of them, also for many hosts.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WIDTH = 100
TABLE_ROWS = 8
NOTE_LINES = 5
FROZEN = "frozen"

# Column of the table: key of the short answer, heading, widest cell.
COLUMNS = (
    ("devices", "devices", 20),
    ("driver", "driver", 12),
    ("image", "image", 19),
    ("engine", "engine", 14),
    ("failure", "first failure", 30),
)
# A difference in one of these makes a host the odd one out.
COMPARED = ("devices", "driver", "image", "engine")


@dataclass(frozen=True)
class HostResult:
    """What one host gave: its state, the reason when it is not frozen, short answers, and what was not measured."""

    host: str
    state: str
    reason: str = ""
    short: dict[str, str] = field(default_factory=dict)
    active: str = ""
    not_measured: Sequence[str] = ()
    probes_ok: int = 0
    probes: int = 0
    left_behind: str = ""


def render(title: str, results: Sequence[HostResult], where: Sequence[tuple[str, str]]) -> list[str]:
    """The screen: title, table, notes, and ``where`` (label and text) as the last lines."""
    lines = [title, ""]
    lines += _table(results)
    notes = (
        _failures(results)
        + _left(results)
        + _same(results)
        + _odd(results)
        + _active(results)
        + _missing(results)
    )
    lines.append("")
    lines += _labelled(notes, NOTE_LINES)
    for label, text in where:
        # A path must stay in one piece, or it cannot be copied.
        lines.append(f"{label:<14}{text}")
    return lines


def names(hosts: Sequence[str], width: int) -> str:
    """Host names within a width; how many more there are when they do not fit."""
    for count in range(len(hosts), 0, -1):
        more = f" +{len(hosts) - count} hosts" if count < len(hosts) else ""
        text = ", ".join(hosts[:count]) + more
        if len(text) <= width:
            return text
    return _fit(hosts[0], width) if len(hosts) == 1 else _fit(f"{len(hosts)} hosts", width)


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _table(results: Sequence[HostResult]) -> list[str]:
    """One row for each set of hosts with the same answers, the largest set first."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for result in results:
        if result.state == FROZEN:
            groups.setdefault(
                tuple(result.short.get(key, "not measured") for key, _h, _w in COLUMNS), []
            ).append(result.host)
    if not groups:
        return ["no host was frozen"]
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    widths = [
        min(widest, max([len(heading)] + [len(cells[number]) for cells in groups]))
        for number, (_key, heading, widest) in enumerate(COLUMNS)
    ]
    # One host's name stands there in full, if the failure's column must give way for it.
    shortest = max(8, min(24, max(len(hosts[0]) for hosts in groups.values())))
    widths[-1] = max(13, min(widths[-1], WIDTH - shortest - sum(widths[:-1]) - 2 * len(widths)))
    first = max(
        8, min(WIDTH - sum(widths) - 2 * len(widths), max(len(", ".join(hosts)) for hosts in groups.values()))
    )
    rows = [_row("host", [heading for _key, heading, _widest in COLUMNS], first, widths)]
    rows += [_row(names(hosts, first), list(cells), first, widths) for cells, hosts in ranked[:TABLE_ROWS]]
    rest = ranked[TABLE_ROWS:]
    if rest:
        count = sum(len(hosts) for _cells, hosts in rest)
        rows.append(f"... and {count} more hosts with {len(rest)} other sets of answers: see summary.txt")
    return rows


def _row(label: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    fitted = [_fit(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return _fit("  ".join([_fit(label, first).ljust(first), *fitted]).rstrip(), WIDTH)


def _failures(results: Sequence[HostResult]) -> list[tuple[str, str]]:
    return [("Not frozen", f"{r.host}: {r.state}: {r.reason}") for r in results if r.state != FROZEN]


def _left(results: Sequence[HostResult]) -> list[tuple[str, str]]:
    return [("Left there", f"{r.host}: {r.left_behind}") for r in results if r.left_behind]


def _same(results: Sequence[HostResult]) -> list[tuple[str, str]]:
    """Hosts that are one machine under several names."""
    machines: dict[str, list[str]] = {}
    for result in results:
        if result.short.get("machine"):
            machines.setdefault(result.short["machine"], []).append(result.host)
    return [
        ("Same machine", f"{names(hosts, 40)}: all of them are {machine}")
        for machine, hosts in machines.items()
        if len(hosts) > 1
    ]


def _odd(results: Sequence[HostResult]) -> list[tuple[str, str]]:
    """Hosts that differ from more than half of the frozen ones."""
    found = []
    frozen = [result for result in results if result.state == FROZEN]
    for key in COMPARED:
        counted = Counter(result.short.get(key, "not measured") for result in frozen)
        if len(counted) < 2:
            continue
        usual, count = counted.most_common(1)[0]
        if count * 2 > len(frozen):
            found += [
                (
                    "Odd host out",
                    f"{result.host}: {key} {result.short.get(key, 'not measured')} (the others: {usual})",
                )
                for result in frozen
                if result.short.get(key, "not measured") != usual
            ]
        else:
            values = "; ".join(
                f"{value}: {names([r.host for r in frozen if r.short.get(key, 'not measured') == value], 30)}"
                for value in sorted(counted)
            )
            found.append(("Hosts differ", f"{key}: {values}"))
    return found


def _active(results: Sequence[HostResult]) -> list[tuple[str, str]]:
    return [("Active then", f"{r.host}: {r.active}") for r in results if r.state == FROZEN and r.active]


def _missing(results: Sequence[HostResult]) -> list[tuple[str, str]]:
    groups: dict[str, list[str]] = {}
    for result in results:
        for text in result.not_measured:
            groups.setdefault(text, []).append(result.host)
    return [("Not measured", f"{names(hosts, 30)}: {text}") for text, hosts in groups.items()]


def _labelled(notes: Sequence[tuple[str, str]], limit: int) -> list[str]:
    """Notes as lines; every kind is shown before a second one of a kind takes its place."""
    kinds = list(dict.fromkeys(label for label, _text in notes))
    by_kind = {kind: [text for label, text in notes if label == kind] for kind in kinds}
    shown: dict[str, list[str]] = {kind: [] for kind in kinds}
    left = max(limit, len(kinds))
    while left and any(by_kind.values()):
        for kind in kinds:
            if by_kind[kind] and left:
                shown[kind].append(by_kind[kind].pop(0))
                left -= 1
    lines = []
    for kind in kinds:
        for number, text in enumerate(shown[kind]):
            more = (
                f" (+{len(by_kind[kind])} more)" if number == len(shown[kind]) - 1 and by_kind[kind] else ""
            )
            lines.append(f"{kind:<14}{_fit(text, WIDTH - 14 - len(more))}{more}")
    return lines


def planned(plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a freeze would collect: first what is the same on all hosts, then what each host has of its own."""
    ready = [plan for plan in plans if plan.get("plan")]
    lines = [f"Freeze would collect from {len(ready)} of {len(plans)} hosts; nothing was written"]
    for plan in plans:
        if plan not in ready:
            lines.append(f"{plan['host']}: {plan['state']}: {plan['reason']}")
    common = (
        [line for line in ready[0]["plan"] if all(line in plan["plan"] for plan in ready)] if ready else []
    )
    probes = [line.partition(" -> ")[0] for line in common]
    lines += _wrapped("probes", ", ".join(probes)) if probes else []
    for plan in ready:
        for text in (line for line in plan["plan"] if line not in common):
            lines += _wrapped(plan["host"], text)
    return lines


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{label + ' ':<14}{text}",
        WIDTH,
        subsequent_indent=" " * 14,
        break_long_words=False,
        break_on_hyphens=False,
    )


def full_text(results: Sequence[HostResult]) -> list[str]:
    """Every host with every answer, for summary.txt, where nothing is shortened."""
    lines = []
    for result in results:
        lines += ["", f"{result.host}: {result.state}{': ' + result.reason if result.reason else ''}"]
        if result.left_behind:
            lines.append(f"  left there    {result.left_behind}")
        if result.state == FROZEN:
            lines.append(f"  {result.probes_ok} of {result.probes} probes ok")
        rows = [(heading, result.short.get(key, "not measured")) for key, heading, _widest in COLUMNS]
        rows += [("active then", result.active)] if result.active else []
        rows += [("not measured", text) for text in result.not_measured]
        for label, text in rows if result.state == FROZEN else []:
            lines += textwrap.wrap(
                f"{label:<14}{text}",
                WIDTH - 2,
                initial_indent="  ",
                subsequent_indent=" " * 16,
                break_long_words=False,
            )
    return lines
