# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an attempt leaves in its run, read as evidence and written as documents (private to the collection,
controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import LogSource, judge_files
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt import Evidence, Rank
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._requests_kept import kept
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, safe_name
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import log_path

LAUNCH = "launch.json"
VERDICT = "verdict.json"
STARTS = "start"
WATCHES = "watch"


def launch_of(run: Run) -> dict[str, Any]:
    """The launch of the run; raises BaselineError when there is none."""
    document = _run.read_json(run.path / LAUNCH)
    if not isinstance(document, dict) or not isinstance(document.get("ranks"), list) or not document["ranks"]:
        raise BaselineError(
            f"expected a launch with ranks in {run.path / LAUNCH}, found none; plan the launch again"
        )
    return document


def ranks_of(launch: Mapping[str, Any]) -> list[Rank]:
    """The ranks of a launch document."""
    return [Rank(str(rank["host"]), int(rank["node_rank"]), str(rank["role"])) for rank in launch["ranks"]]


def keep_answer(run: Run, kind: str, host: str, answer: Mapping[str, Any]) -> None:
    """Keep what a host's task of starting, watching or stopping returned."""
    _run.write_json(run.path / kind / (safe_name(host) + ".json"), dict(answer))


def answers(run: Run, kind: str, hosts: list[str]) -> dict[str, dict[str, Any]]:
    """What was kept, by host."""
    found = {}
    for host in hosts:
        path = run.path / kind / (safe_name(host) + ".json")
        if path.is_file():
            found[host] = _run.read_json(path)
    return found


def log_of(run: Run, rank: Rank) -> Path | None:
    """The kept log of a rank, plain or packed; None when it never spoke."""
    growing = log_path(run.path, rank.host, rank.node_rank)
    return next((path for path in (growing, Path(f"{growing}.gz")) if path.is_file()), None)


def first_failure(run: Run, ranks: list[Rank]) -> dict[str, Any]:
    """The first failure over the logs of all ranks; its paths are below the run."""
    logs = [(rank, log_of(run, rank)) for rank in ranks]
    sources = [LogSource(str(path), rank.node_rank) for rank, path in logs if path is not None]
    if not sources:
        return {}
    verdict: dict[str, Any] = dict(judge_files(sources))
    if verdict.get("path"):
        verdict["path"] = str(Path(str(verdict["path"])).relative_to(run.path))
    return verdict


def evidence(run: Run, requests_wanted: int) -> Evidence:
    """All that the attempt left."""
    launch = launch_of(run)
    ranks = ranks_of(launch)
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    watched = answers(run, WATCHES, hosts)
    return Evidence(
        ranks=ranks,
        started=answers(run, STARTS, hosts),
        watched=watched,
        requests=kept(run),
        first_failure=first_failure(run, ranks),
        diagnostics=str(launch.get("diagnostics", "none")),
        requests_wanted=requests_wanted,
    )
