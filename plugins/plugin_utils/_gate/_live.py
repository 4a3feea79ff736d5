# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the gate's tasks left in the variables of the hosts to host facts (private, controller only;
pure).

Only documents that carry the id of this run count: a variable of an earlier play or of a cache of facts is
refused. A host of the launch group without one is undecided, whatever the reason: outside of the limit,
dead, or not yet visited.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._documents import host_facts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts

FACTS_SCHEMA = "gpufleet.baseline/facts/1"
PROBE_SCHEMA = "gpufleet.baseline/probe/1"
WEIGHTS_SCHEMA = "gpufleet.baseline/weights/1"
NOT_VISITED = (
    "no facts of this run: the host was not visited before the judgement; give the gate a play of its own, "
    "with the linear strategy and without serial"
)


def live_host(name: str, document: Any, run: str, in_play: bool) -> HostFacts:
    """One host of the launch group from the document that its tasks left."""
    if not isinstance(document, Mapping):
        outside = "the host is outside of the limit of this run (--limit) or of the play"
        return HostFacts(name, NOT_VISITED if in_play else outside, run)
    if document.get("run") != run:
        return HostFacts(name, f"its facts are of another run ({document.get('run')}) and are refused", run)
    problem = _problem(document.get("gpu_info"), "gpu_info")
    if problem:
        return HostFacts(name, problem, run)
    try:
        return host_facts(name, documents(document), run, _utc(document.get("heard")), name)
    except BaselineError as error:
        return HostFacts(name, str(error), run)


def documents(document: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a host as a run keeps them; an engine that could not be asked about has no document."""
    gpu, engine = document.get("gpu_info") or {}, document.get("engine_info") or {}
    found = {
        "schema": FACTS_SCHEMA,
        "host": gpu.get("host"),
        "gpu": gpu.get("gpu"),
        "engine": None if _problem(engine, "engine_info") else engine.get("engine"),
    }
    hashed = document.get("hash") or {}
    if hashed.get("weights"):
        found["weights"] = hashed["weights"]
    elif _gave_nothing(hashed, "gate_hash"):
        failure = _failure(hashed, "gate_hash")
        found["weights"] = {"schema": WEIGHTS_SCHEMA, "paths": {"the model": failure}}
    probed = document.get("probe") or {}
    if probed.get("probe"):
        found["probe"] = probed["probe"]
    elif _gave_nothing(probed, "gate_probe"):
        failure = _failure(probed, "gate_probe")
        found["probe"] = {"schema": PROBE_SCHEMA, "container": failure, "cuda": failure, "started": []}
    return found


def _gave_nothing(result: Mapping[str, Any], task: str) -> bool:
    """Whether a task that was asked for gave nothing, which is not the same as one that was not asked for."""
    return bool(result) and not result.get("skipped") and bool(_problem(result, task))


def _failure(result: Mapping[str, Any], task: str) -> dict[str, Any]:
    return {"value": None, "outcome": "error", "source": task, "message": _problem(result, task)}


def _problem(result: Any, task: str) -> str:
    """Why a task gave no facts; empty when it did."""
    if not isinstance(result, Mapping):
        return f"{task} did not run on it"
    if result.get("unreachable"):
        return f"unreachable: {_line(result.get('msg'))}"
    if result.get("failed"):
        return f"{task} failed: {_line(result.get('msg'))}"
    if result.get("skipped"):
        return f"{task} was skipped on it"
    return ""


def _line(text: Any) -> str:
    return " ".join(str(text or "no message").split())[:200]


def _utc(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return ""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def heard_between(found: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """By host the controller's times between which its clock was read."""
    times = {}
    for name, document in found.items():
        if isinstance(document, Mapping):
            asked, heard = document.get("asked"), document.get("heard")
            if isinstance(asked, (int, float)) and isinstance(heard, (int, float)):
                times[name] = (float(asked), float(heard))
    return times


def plain(value: Any) -> Any:
    """A copy of a variable in plain containers: what Ansible hands out is resolved at every access."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    return value
