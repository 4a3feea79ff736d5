# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what a run holds for the gate: host documents, and the evidence of its score (private, controller
only).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._documents import host_facts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._score import Evidence
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, read_json, runs, safe_name

FACTS_SCHEMA = "gpufleet.baseline/facts/1"


def recorded_run(path: str) -> Run:
    """The run at a path; an error when there is none."""
    run = Run(Path(path).expanduser().absolute())
    if not (run.path / "run.json").is_file():
        raise BaselineError(
            f"gate_run: expected a run with run.json in {run.path}, found none; name a run-NNN folder"
        )
    return run


def recorded_hosts(run: Run) -> list[HostFacts]:
    """The hosts of a run, those that it has no facts of with their reason."""
    document = run.document()
    entries = document.get("hosts") if isinstance(document, Mapping) else None
    if not isinstance(entries, Mapping):
        raise BaselineError(
            f"{run.path / 'run.json'}: expected the hosts of the run, found none; it is not a run"
        )
    time = str(document.get("started") or "")
    return [_recorded(run, str(name), entries[name], time) for name in entries]


def _recorded(run: Run, name: str, entry: Any, time: str) -> HostFacts:
    path = run.path / "facts" / (safe_name(name) + ".json")
    if not path.is_file():
        state = entry if isinstance(entry, Mapping) else {}
        reason = (
            f"the run has no facts of it: {state.get('state', 'unknown')} {state.get('reason', '')}".strip()
        )
        return HostFacts(name, reason, run.name, time)
    content = read_json(path)
    schema = content.get("schema") if isinstance(content, Mapping) else type(content).__name__
    if schema != FACTS_SCHEMA:
        raise BaselineError(
            f"{path}: expected {FACTS_SCHEMA}, found {schema}; freeze the host with this version"
        )
    return host_facts(name, content, run.name, time, str(path))


def evidence_of(run: Run | None, hosts: Sequence[HostFacts]) -> Evidence:
    """What a run has for its score; without a run only what was measured just now."""
    if run is None:
        return Evidence(hosts)
    verdict = _optional(run.path / "verdict.json")
    failure = verdict.get("verdict", verdict)
    request = run.path / "request"
    answered = any(path.name != "body.json" for path in request.iterdir()) if request.is_dir() else False
    return Evidence(
        hosts,
        failure if isinstance(failure, Mapping) else {},
        (request / "body.json").is_file(),
        answered,
        _second_run(run, failure),
    )


def _optional(path: Path) -> dict[str, Any]:
    content = read_json(path) if path.is_file() else {}
    return content if isinstance(content, dict) else {}


def _second_run(run: Run, failure: Any) -> str:
    """Another run of the reproduction whose failure has the same signature."""
    signature = failure.get("signature") if isinstance(failure, Mapping) else None
    if not signature:
        return ""
    for other in runs(run.reproduction):
        if other.name != run.name:
            verdict = _optional(other.path / "verdict.json")
            if verdict.get("verdict", verdict).get("signature") == signature:
                return other.name
    return ""
