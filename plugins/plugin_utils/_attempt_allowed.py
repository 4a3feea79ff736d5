# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether an attempt may begin: the state is frozen, the group was judged, all ranks can be reached at once
(private to the collection, controller only)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, read_json, runs, sha256_of

FROZEN = "frozen"
PASSED = ("pass", "warn")


@dataclass(frozen=True)
class Reasons:
    """Why an operator goes on without a record or without a gate that passed; empty: he does not."""

    without_record: str = ""
    without_gate: str = ""


def refusals(run: Run, hosts: Sequence[str], forks: int, reasons: Reasons) -> list[str]:
    """Every reason why the attempt may not begin, one line each; none when it may."""
    found = []
    if forks < len(hosts):
        found.append(
            f"expected a fork for each of {len(hosts)} hosts, so that no rank waits for another one's task, found"
            f" {forks}; add --forks {len(hosts)}"
        )
    bare = (
        []
        if reasons.without_record
        else [host for host in hosts if sealed_record(run.reproduction, host) is None]
    )
    if bare:
        found.append(
            f"expected a sealed record of every host in {run.reproduction}, found none of {_names(bare)}; run"
            " freeze.yml into this reproduction first, or say why not with launch_without_record"
        )
    if not reasons.without_gate:
        problem = gate_problem(run)
        if problem:
            found.append(problem)
    return found


def sealed_record(reproduction: Path, host: str) -> Run | None:
    """The newest run of the reproduction whose record of the host is there and is what it was."""
    for run in reversed(runs(reproduction)):
        record = run.record(host)
        if record.is_file() and _recorded_sum(run, host) == sha256_of(record):
            return run
    return None


def _recorded_sum(run: Run, host: str) -> str:
    """The sum that the run keeps for a host's record; empty when the run tells of none."""
    try:
        document = run.document()
    except BaselineError:
        return ""
    for part in (document, (document.get("parts") or {}).get("freeze") or {}):
        entry = (part.get("hosts") or {}).get(host) or {}
        if entry.get("state") == FROZEN:
            return str(entry.get("sha256", ""))
    return ""


def gate_problem(run: Run) -> str:
    """Why the gate of this run does not let the launch begin; empty when it does."""
    path = run.path / "gate.json"
    after = "see gate.txt and mend it, or say why not with launch_without_gate"
    if not path.is_file():
        return f"expected a judgement of the gate in {run.path}, found none; {after}"
    try:
        verdict = read_json(path).get("verdict")
    except (BaselineError, AttributeError) as error:
        return f"expected a judgement of the gate in {path}, found: {error}; {after}"
    return "" if verdict in PASSED else f"expected the gate to pass, found {verdict} in {path}; {after}"


def _names(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - 5} more" if len(hosts) > 5 else ""
    return ", ".join(hosts[:5]) + more
