# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement as a table for a terminal of 100 columns (private to the collection, controller only;
pure).
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._freeze_summary import names
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Finding, Result
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    FAIL,
    GROUP,
    NOT_APPLICABLE,
    PASS,
    UNDECIDED,
    WARN,
    days_ago,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain

WIDTH = 100
MARK, RULE, WHO = 11, 20, 18
SHOWN = (FAIL, UNDECIDED, WARN)
MOST_SHOWN = 40


def render(result: Result, title: str, where: Sequence[tuple[str, str]]) -> list[str]:
    """The table: what is not as wanted first, then what is, then what does not apply, then where everything
    is.
    """
    lines = [title, _sums(result), ""]
    lines += _recipe(result)
    lines += _problems(result)
    lines += _quiet(result)
    lines += _notes(result)
    lines.append("")
    for label, text in where:
        # A path must stay in one piece, or it cannot be copied.
        lines.append(f"{label:<{MARK}}{text}")
    # What a host told of itself must not act on the terminal.
    return [plain(line) for line in lines]


def _sums(result: Result) -> str:
    counted = ", ".join(f"{count} {name}" for name, count in result.counts().items() if count)
    hosts = len(result.case.hosts)
    return f"{hosts} host{'' if hosts == 1 else 's'}; rules: {counted or 'none asked'}"


def _recipe(result: Result) -> list[str]:
    """The boundary in one or two lines: every run says where it came from and how old it is."""
    state, boundary = result.case.recipe, result.case.boundary
    parts = []
    if state.pin_age_days is not None:
        parts.append(f"pin {state.pin}, checked {days_ago(state.pin_age_days)}")
    if state.live_read_at:
        commit = f" (commit {state.live_commit[:12]})" if state.live_commit else " (commit not known)"
        parts.append(f"recipe read {state.live_read_at}{commit}")
    elif state.configured:
        parts.append("recipe not reachable: the pin holds")
    else:
        parts.append("no recipe configured")
    choice = boundary.choice
    first = (
        f"{boundary.model} on {choice.hardware or '?'}, {choice.strategy or 'no strategy'}, {choice.variant}"
    )
    return [*_wrapped("boundary", first), *_wrapped("", "; ".join(parts)), ""]


def _problems(result: Result) -> list[str]:
    found = [finding for finding in result.findings if finding.answer.verdict in SHOWN]
    ranked = sorted(
        found, key=lambda finding: (SHOWN.index(finding.answer.verdict), finding.severity == ADVISORY)
    )
    lines: list[str] = []
    rows = _together(ranked)
    for row in rows[:MOST_SHOWN]:
        lines += _problem(row, len(result.case.hosts))
    if len(rows) > MOST_SHOWN:
        lines.append(f"... and {len(rows) - MOST_SHOWN} more: see gate.json")
    return lines


def _together(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings that say the same about the same hosts, as when a host did not answer at all, are one row."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for number, finding in enumerate(findings):
        answer = finding.answer
        same = (answer.verdict, finding.severity, finding.hosts, answer.reason, finding.waiver)
        groups.setdefault(same if answer.verdict == UNDECIDED else (number,), []).append(finding)
    return list(groups.values())


def _problem(group: Sequence[Finding], hosts: int) -> list[str]:
    finding = group[0]
    answer = finding.answer
    mark = answer.verdict.upper() if finding.severity != ADVISORY else answer.verdict
    who = _who(finding, hosts)
    label = finding.rule.id if len(group) == 1 else f"{len(group)} rules"
    head = f"{mark:<{MARK}}{label:<{RULE}}{who:<{WHO}}"
    body = textwrap.wrap(answer.found or answer.verdict, WIDTH - MARK - RULE - WHO) or [""]
    lines = [head + body[0]]
    lines += [" " * (MARK + RULE + WHO) + text for text in body[1:3]]
    if len(group) > 1:
        lines += _wrapped("", ", ".join(item.rule.id for item in group), 4)
    elif answer.wanted:
        lines += _wrapped("", f"wanted: {answer.wanted}", 2)
    if answer.reason and answer.reason != answer.found:
        lines += _wrapped("", answer.reason, 3)
    if finding.waiver is not None:
        lines += _wrapped("", f"waived until {finding.waiver.until}: {finding.waiver.reason}", 2)
    elif answer.remedy:
        lines += _wrapped("", f"do: {answer.remedy}", 3)
    return lines


def _who(finding: Finding, hosts: int) -> str:
    if finding.rule.scope == GROUP and not finding.hosts:
        return "group"
    if len(finding.hosts) == hosts > 2:
        return f"all {hosts} hosts"
    return names(list(finding.hosts), WHO - 2)


def _quiet(result: Result) -> list[str]:
    """Rules that passed, and those that do not apply, in few lines."""
    loud = {finding.rule.id for finding in result.findings if finding.answer.verdict in SHOWN}
    good = dict.fromkeys(
        finding.rule.id
        for finding in result.findings
        if finding.answer.verdict == PASS and finding.rule.id not in loud
    )
    lines = _wrapped(PASS, ", ".join(good), 6) if good else []
    reasons: dict[str, dict[str, None]] = {}
    for finding in result.findings:
        identifier = finding.rule.id
        if finding.answer.verdict == NOT_APPLICABLE and identifier not in loud and identifier not in good:
            reasons.setdefault(finding.answer.reason, {})[identifier] = None
    for number, (reason, identifiers) in enumerate(reasons.items()):
        lines += _wrapped("n/a" if number == 0 else "", f"{', '.join(identifiers)}: {reason}", 4)
    return lines


def _notes(result: Result) -> list[str]:
    lines: list[str] = []
    for host, rules in result.odd_hosts().items():
        lines += _wrapped("odd host", f"{host}: {', '.join(rules)}", 2)
    for host, rules in result.needs_root().items():
        lines += _wrapped("needs root", f"{host}: {', '.join(rules)}", 2)
    for waiver in result.ended_waivers:
        lines += _wrapped(
            "waiver", f"{waiver.rule}: ended {waiver.until}, it waives nothing ({waiver.reason})", 2
        )
    for note in result.case.boundary.notes:
        lines += _wrapped("recipe", note, 2)
    return ["", *lines] if lines else []


def _wrapped(label: str, text: str, most: int = 3) -> list[str]:
    """A text beside a label, cut with dots after some lines."""
    lines = textwrap.wrap(text, WIDTH - MARK)
    if len(lines) > most:
        lines = [
            *lines[: most - 1],
            textwrap.shorten(" ".join(lines[most - 1 :]), WIDTH - MARK, placeholder=" ..."),
        ]
    return [f"{label if number == 0 else '':<{MARK}}{line}" for number, line in enumerate(lines)]


VERDICT_TITLES = {PASS: "PASS", WARN: "PASS with warnings", FAIL: "FAIL", UNDECIDED: "UNDECIDED"}
