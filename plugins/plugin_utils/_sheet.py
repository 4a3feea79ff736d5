# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run sheet: one page that says what an attempt was, what it changed and what came of it (pure; private,
controller only).

The document is ``gpufleet.baseline/sheet/1``; the table of changes of a ladder is made of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain

SCHEMA = "gpufleet.baseline/sheet/1"
FIRST = "none: the first attempt"


@dataclass(frozen=True)
class Tried:
    """What was tried, known before the attempt."""

    run: str
    what: str
    only_change: str = FIRST
    expectation: str = "every rank ready, the fixed request answered"
    way_back: str = ""
    parent: str = ""
    input_condition: str = "a sealed record of every host; GPUs free"
    launch_sha256: str = ""
    image: str = ""
    hosts: Sequence[str] = ()
    command: str = ""
    overrides: Sequence[str] = field(default_factory=tuple)


def sheet(tried: Tried, verdict: Mapping[str, Any], started_at: str, ended_at: str) -> dict[str, Any]:
    """The page as a document."""
    return {
        "schema": SCHEMA,
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(tried).items()},
        "outcome": verdict.get("outcome", ""),
        "first_failed_stage": verdict.get("stage", "none"),
        "observation": observation(verdict),
        "signature": verdict.get("signature", {}),
        "started_at": started_at,
        "ended_at": ended_at,
        "way_back_result": "",
        "does_not_show": limits(verdict),
    }


def observation(verdict: Mapping[str, Any]) -> str:
    """What was seen, in one line."""
    outcome = str(verdict.get("outcome", "unknown"))
    answered = sum(request.get("answered", 0) for request in verdict.get("requests", []))
    if outcome == "stable":
        return f"stable: every rank ready, {answered} of the fixed requests answered"
    where = f" in {verdict['stage']}" if verdict.get("stage") not in (None, "none", "") else ""
    what = (
        f" with {verdict['failure_class']}" if verdict.get("failure_class") not in (None, "none", "") else ""
    )
    place = f" on {verdict['host']}" if verdict.get("host") else ""
    return plain(
        f"{outcome}{where}{what}{place}: {verdict.get('message') or verdict.get('reason') or 'no message'}"
    )


def limits(verdict: Mapping[str, Any]) -> list[str]:
    """What this attempt must not be taken to prove."""
    found = ["one attempt shows no rate: a failure that comes and goes needs repeats"]
    if verdict.get("outcome") == "stable":
        found.append("long inputs, load and everything that was left out were not tried")
    if verdict.get("diagnostics", "none") != "none":
        found.append(
            f"diagnostics were on ({verdict['diagnostics']}): it counts neither as stable nor as a parent"
        )
    if verdict.get("outcome") in ("blocked", "refused", "disturbed", "interrupted"):
        found.append("nothing about the launch itself")
    return found


def markdown(document: Mapping[str, Any]) -> str:
    """The page for people."""
    rows = [
        ("what", document["what"]),
        ("parent run", document["parent"] or "none"),
        ("input condition", document["input_condition"]),
        ("only change", document["only_change"]),
        ("expected", document["expectation"]),
        ("seen", document["observation"]),
        ("first failed stage", document["first_failed_stage"]),
        ("way back", document["way_back"] or "none is needed"),
        ("result of the way back", document["way_back_result"] or "not tried"),
        ("hosts", ", ".join(document["hosts"])),
        ("image", document["image"] or "none"),
        ("launch", document["launch_sha256"]),
        ("overrides", "; ".join(document["overrides"]) or "none"),
        ("from, to", f"{document['started_at']}, {document['ended_at']}"),
    ]
    lines = [f"# {document['run']}: {document['outcome']}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_cell(str(value))} |" for name, value in rows]
    lines += ["", "What it does not show:", ""]
    lines += [f"- {plain(text)}" for text in document["does_not_show"]]
    if document["command"]:
        lines += ["", "Command:", "", *("    " + plain(line) for line in document["command"].splitlines())]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return plain(" ".join(text.split())).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
