# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the host documents of a run for the gate (private, controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._documents import host_facts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import SCHEMA, Run, read_json, safe_name

FACTS_SCHEMA = "gpufleet.baseline/facts/1"


def recorded_run(path: str) -> Run:
    """The run at a path; an error when there is none."""
    run = Run(Path(path).expanduser().absolute())
    if not (run.path / "run.json").is_file():
        raise BaselineError(
            f"gate_run: expected a run with run.json in {run.path}, found none; name a run-NNN folder"
        )
    document = run.document()
    found = document.get("schema") if isinstance(document, Mapping) else type(document).__name__
    if found != SCHEMA:
        raise BaselineError(
            f"{run.path / 'run.json'}: expected {SCHEMA}, found {found}; use the version that made the run"
        )
    return run


def recorded_hosts(run: Run) -> list[HostFacts]:
    """The hosts of a run, those that it has no facts of with their reason."""
    entries, time = host_entries(run)
    return [recorded_host(run, name, entries[name], time) for name in entries]


def host_entries(run: Run) -> tuple[dict[str, Any], str]:
    """Every host that the run tells of, with what it tells, and when the run began.

    A gate or a freeze within another run keeps its hosts in a part of that run's document.
    """
    document = run.document()
    parts = document.get("parts") if isinstance(document, Mapping) else None
    told = [document, *(parts.values() if isinstance(parts, Mapping) else ())]
    found = [
        part["hosts"] for part in told if isinstance(part, Mapping) and isinstance(part.get("hosts"), Mapping)
    ]
    if not found:
        raise BaselineError(
            f"{run.path / 'run.json'}: expected the hosts of the run, found none; it is not a run"
        )
    entries = {str(name): entry for hosts in reversed(found) for name, entry in hosts.items()}
    return entries, str(document.get("started") or "")


def recorded_host(run: Run, name: str, entry: Any, time: str) -> HostFacts:
    """One host of a run; its reason says why there are no facts of it."""
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
