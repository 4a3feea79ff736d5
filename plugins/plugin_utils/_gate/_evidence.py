# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the evidence of a score from a run, or from all runs of a reproduction (private, controller only).

What is damaged or of another version counts as missing and is named; it costs points and never the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_logs import SCHEMA as FREEZE_SCHEMA
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import SCHEMA as LAUNCH_SCHEMA
from ansible_collections.gpufleet.baseline.plugins.module_utils._request._send import SCHEMA as REQUEST_SCHEMA
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _attempt, _attempt_files
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._recorded import (
    host_entries,
    recorded_host,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._score import Evidence, Score, score
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._record import read_document
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._requests_kept import DIRECTORY, numbered
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, read_json, runs

BODY = "body.json"
# An attempt that others disturbed, or that never began, is no clean run.
CLEAN = (_attempt.STABLE, _attempt.FAILED, _attempt.HUNG)
FAILURES = (_attempt.FAILED, _attempt.HUNG)


@dataclass
class _Reader:
    """Reads documents; remembers why some could not be read."""

    unread: list[str] = field(default_factory=list)

    def document(self, path: Path, schema: str) -> dict[str, Any]:
        """The document at a path; empty when there is none of this schema."""
        if not path.is_file():
            return {}
        try:
            content = read_json(path)
        except BaselineError as error:
            return self._refuse(str(error))
        return self._checked(content, schema, str(path))

    def first_failures(self, run: Run, host: str) -> dict[str, Any]:
        """What the freeze found first in each log of a host."""
        record = run.record(host)
        if not record.is_file():
            return {}
        try:
            content = read_document(record, "first-failure.json")
        except BaselineError as error:
            return self._refuse(str(error))
        return self._checked(content, FREEZE_SCHEMA, str(record))

    def _checked(self, content: Any, schema: str, where: str) -> dict[str, Any]:
        found = content.get("schema") if isinstance(content, dict) else type(content).__name__
        if found != schema:
            return self._refuse(f"expected {schema} in {where}, found {found}")
        checked: dict[str, Any] = content
        return checked

    def _refuse(self, reason: str) -> dict[str, Any]:
        if reason not in self.unread:
            self.unread.append(reason)
        return {}


def score_of(path: Path | str) -> Score:
    """The score of a run, or of a reproduction with all that its runs found; an error when it is neither."""
    place = Path(path).expanduser().absolute()
    if (place / "run.json").is_file():
        run = Run(place)
        return score(evidence_of([run], _hosts([run]), _siblings(run)))
    found = runs(place) if place.is_dir() else []
    if not found:
        raise BaselineError(f"expected a run or a reproduction with runs in {place}, found none; name one")
    return score(evidence_of(found, _hosts(found), found))


def evidence_of(of: Sequence[Run], hosts: Sequence[HostFacts], among: Sequence[Run]) -> Evidence:
    """What these runs have for a score; a second run with the same signature is looked for among others too."""
    reader = _Reader()
    newest = [*reversed(of)]
    verdicts = {
        run.name: reader.document(run.path / _attempt_files.VERDICT, _attempt.SCHEMA) for run in among
    }
    launches = {run.name: reader.document(run.path / _attempt_files.LAUNCH, LAUNCH_SCHEMA) for run in among}
    clean = [run.name for run in among if _is_clean(verdicts[run.name]) and launches[run.name].get("sha256")]
    mine = {run.name for run in of}
    pairs = [
        (one, other)
        for one, other in combinations(clean, 2)
        if mine & {one, other}
        and _attempt.same(verdicts[one], verdicts[other])
        and launches[one]["sha256"] == launches[other]["sha256"]
    ]
    return Evidence(
        hosts=hosts,
        failure=_failure(reader, newest, verdicts),
        request_body=any((run.path / DIRECTORY / BODY).is_file() for run in of),
        requests=[
            document
            for run in of
            for path in numbered(run)
            if (document := reader.document(path, REQUEST_SCHEMA))
        ],
        launch=next((launches[run.name] for run in newest if launches.get(run.name)), {}),
        second_run=" and ".join(pairs[-1]) if pairs else "",
        unread=tuple(reader.unread),
    )


def _siblings(run: Run) -> list[Run]:
    """All runs of the reproduction that a run belongs to, the run itself among them under whatever name."""
    return [*(other for other in runs(run.reproduction) if other.path != run.path), run]


def evidence_of_run(run: Run | None, hosts: Sequence[HostFacts]) -> Evidence:
    """What one run has for its score; without a run only what was measured just now."""
    return Evidence(hosts) if run is None else evidence_of([run], hosts, _siblings(run))


def _is_clean(verdict: dict[str, Any]) -> bool:
    return verdict.get("outcome") in CLEAN and verdict.get("diagnostics", "none") == "none"


def _failure(reader: _Reader, newest: Sequence[Run], verdicts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The failure of the newest attempt that failed; without one, what a freeze found first in the logs."""
    for run in newest:
        if verdicts[run.name].get("outcome") in FAILURES:
            return verdicts[run.name]
    for run in newest:
        found = [
            {**verdict, "host": host}
            for host in _names(run)
            for verdict in _verdicts(reader.first_failures(run, host))
            if verdict.get("outcome") in FAILURES
        ]
        if found:
            # One without a time comes last: nobody knows that it was the first.
            return min(found, key=lambda verdict: (not verdict.get("time"), str(verdict.get("time"))))
    return {}


def _verdicts(document: dict[str, Any]) -> list[dict[str, Any]]:
    engines = document.get("engines")
    found = [engine.get("verdict") for engine in engines.values()] if isinstance(engines, dict) else []
    return [verdict for verdict in found if isinstance(verdict, dict)]


def _hosts(of: Sequence[Run]) -> list[HostFacts]:
    """The hosts of the newest run that tells of any; of each the newest facts that show an engine, else the
    newest ones.
    """
    named = next((names for run in reversed(of) if (names := _names(run))), [])
    return [_newest(name, of) for name in named]


def _newest(name: str, of: Sequence[Run]) -> HostFacts:
    found = [_facts(run, name) for run in reversed(of) if name in _names(run)]
    known = [host for host in found if not host.reason]
    return next((host for host in known if host.engines), known[0] if known else found[0])


def _facts(run: Run, name: str) -> HostFacts:
    try:
        entries, time = host_entries(run)
        return recorded_host(run, name, entries[name], time)
    except BaselineError as error:
        return HostFacts(name, str(error), run.name)


def _names(run: Run) -> list[str]:
    """The hosts that a run tells of; none when it is damaged or still empty."""
    try:
        return list(host_entries(run)[0])
    except BaselineError:
        return []
