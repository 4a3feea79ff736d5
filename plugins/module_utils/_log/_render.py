# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict as text for a terminal; private to the collection."""

from __future__ import annotations

import textwrap
from typing import Dict, List, Mapping, Sequence, Tuple

_MAX_STEPS = 60
_MAX_ROWS = 24


def render_timeline(verdict: Mapping[str, object], width: int = 100) -> str:
    """Stages entered and left, then each rank's end, then the verdict; no line is longer than width."""
    width = max(40, width)
    lines: List[str] = []
    for title, body in (
        ("Stages", _stages(verdict)),
        ("Ranks", _ranks(verdict)),
        ("First failure", _summary(verdict)),
    ):
        if body:
            lines += ([""] if lines else []) + [title] + ["  " + line for line in body]
    return "\n".join(_clip(line, width) for line in lines) + "\n"


def _clip(line: str, width: int) -> str:
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= width else line[: width - 3] + "..."


def _rows(value: object) -> List[Mapping[str, object]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _columns(rows: Sequence[Sequence[str]]) -> List[str]:
    """Cells in aligned columns, empty columns left out."""
    kept = [index for index in range(len(rows[0])) if any(row[index] for row in rows[1:])] if rows else []
    widths = [max(len(row[index]) for row in rows) for index in kept]
    return ["  ".join(row[index].ljust(size) for index, size in zip(kept, widths)).rstrip() for row in rows]


def _who(row: Mapping[str, object]) -> str:
    return str(row.get("process") or "-")


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _stages(verdict: Mapping[str, object]) -> List[str]:
    steps = _rows(verdict.get("timeline"))
    if not steps:
        return []
    table: List[Tuple[str, ...]] = [
        ("entered", "left", "node", "rank", "process", "stage", "substage", "progress")
    ]
    for step in steps[:_MAX_STEPS]:
        left = _text(step.get("left"))
        table.append(
            (
                _text(step.get("entered")),
                left[-8:],
                _text(step.get("node")),
                _text(step.get("rank")),
                _who(step),
                _text(step.get("stage")),
                _text(step.get("substage")),
                _text(step.get("progress")),
            )
        )
    more = len(steps) - _MAX_STEPS
    return _columns(table) + (["{0} more steps".format(more)] if more > 0 else [])


def _ranks(verdict: Mapping[str, object]) -> List[str]:
    rows = [
        row
        for row in _rows(verdict.get("per_rank"))
        if row.get("rank") is not None or row.get("first_failure")
    ]
    table: List[Tuple[str, ...]] = [("rank", "node", "process", "what")]
    unseen: List[str] = []
    for row in rows:
        if row.get("seen") is False:
            unseen.append(_text(row.get("rank")))
            continue
        if len(table) > _MAX_ROWS:
            continue
        table.append((_text(row.get("rank")), _text(row.get("node")), _who(row), _end(row)))
    lines = _columns(table) if len(table) > 1 else []
    hidden = len(rows) - len(unseen) - (len(table) - 1)
    if hidden > 0:
        lines.append("{0} more processes".format(hidden))
    if unseen:
        lines.append(
            "never spoke in these logs: rank " + ", ".join(unseen[:16]) + (" ..." if len(unseen) > 16 else "")
        )
    return lines


def _end(row: Mapping[str, object]) -> str:
    failure = row.get("first_failure")
    if isinstance(failure, Mapping):
        when = _text(failure.get("time")) or "no time"
        return "failed {0}, line {1}: {2}".format(
            when, _text(failure.get("line")), _text(failure.get("failure_class"))
        )
    since = _text(row.get("silent_since"))
    return "no failure, last line at {0}".format(since) if since else "no failure"


def _summary(verdict: Mapping[str, object]) -> List[str]:
    facts: Dict[str, str] = {"outcome": _text(verdict.get("outcome"))}
    stage = _text(verdict.get("stage"))
    if stage and stage != "none":
        facts["stage"] = stage + (" / " + _text(verdict.get("substage")) if verdict.get("substage") else "")
    if verdict.get("failure_class") != "none":
        facts["class"] = _text(verdict.get("failure_class"))
    if verdict.get("line") is not None:
        facts["where"] = "node {0}, {1}:{2}".format(
            _text(verdict.get("node")), _text(verdict.get("path")), _text(verdict.get("line"))
        )
    if verdict.get("process"):
        rank = verdict.get("rank")
        facts["process"] = _text(verdict.get("process")) + ("" if rank is None else ", rank {0}".format(rank))
    if verdict.get("time"):
        facts["time"] = _text(verdict.get("time"))
    facts["says"] = _text(verdict.get("message"))
    followed = verdict.get("consequences")
    if isinstance(followed, list) and followed:
        facts["followed"] = "{0} more failures, all after it".format(len(followed))
    facts["confidence"] = "{0}: {1}".format(_text(verdict.get("confidence")), _text(verdict.get("reason")))
    facts["next"] = _text(verdict.get("advice"))
    lines: List[str] = []
    for name, text in facts.items():
        wrapped = textwrap.wrap(text, 84) if text else []
        for index, piece in enumerate(wrapped[:6]):
            lines.append((name if not index else "").ljust(12) + piece)
    return lines
