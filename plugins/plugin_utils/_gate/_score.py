# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The score of a run, 0 to 14: whether a failure in it can be compared with another run (private,
controller only).

Pure. Seven criteria of 0, 1 or 2 points; evidence that is not there gives none and is named. It measures
the evidence, not the performance of anything, and promises no start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._driver_rules import loaded_driver
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Engine, HostFacts

SCHEMA = "gpufleet.baseline/score/1"
MOST = 14
BEGIN, COLLECT = 12, 8
MEANING = (
    "how well a failure of this run can be compared with another run; no performance, no promise of a start"
)


@dataclass(frozen=True)
class Evidence:
    """What of a run, or of all runs of a reproduction, the score looks at."""

    hosts: Sequence[HostFacts]
    # The first failure: stage, time, and node or host, as far as they are known.
    failure: Mapping[str, Any] = field(default_factory=dict)
    # The body of a fixed request that was kept and not sent, and the documents of those that were sent.
    request_body: bool = False
    requests: Sequence[Mapping[str, Any]] = ()
    # The launch that was started, when one was.
    launch: Mapping[str, Any] = field(default_factory=dict)
    # Two clean runs with one launch and one signature.
    second_run: str = ""
    # Documents that are there and cannot be read: they count as missing, and this says why.
    unread: Sequence[str] = ()


@dataclass(frozen=True)
class Points:
    """One criterion: points, and what is missing for more."""

    name: str
    points: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """The points of all criteria."""

    criteria: tuple[Points, ...]
    unread: tuple[str, ...] = ()

    @property
    def points(self) -> int:
        """The sum, 0 to 14."""
        return sum(item.points for item in self.criteria)

    @property
    def missing(self) -> tuple[str, ...]:
        """All evidence that is missing, in words."""
        return tuple(text for item in self.criteria for text in item.missing)

    @property
    def may_begin(self) -> bool:
        """Whether a controlled reproduction may begin (12 to 14)."""
        return self.points >= BEGIN

    @property
    def is_baseline(self) -> bool:
        """Whether it is a valid diagnostic baseline at all (8 or more)."""
        return self.points >= COLLECT

    @property
    def next(self) -> str:
        """What to do with a run of so many points."""
        if self.may_begin:
            return "a controlled reproduction may begin"
        if self.is_baseline:
            return "collect the missing evidence first"
        return "not a valid diagnostic baseline"

    def as_dict(self) -> dict[str, Any]:
        """The score as it stands in documents."""
        return {
            "schema": SCHEMA,
            "points": self.points,
            "most": MOST,
            "meaning": MEANING,
            "next": self.next,
            "unread": list(self.unread),
            "criteria": [
                {"name": item.name, "points": item.points, "missing": list(item.missing)}
                for item in self.criteria
            ],
        }


def score(evidence: Evidence) -> Score:
    """The score of this evidence."""
    return Score(tuple(criterion(evidence) for criterion in CRITERIA), tuple(evidence.unread))


def _graded(name: str, parts: Sequence[tuple[bool, str]]) -> Points:
    """Two points when all parts are there, one when some are."""
    missing = tuple(text for there, text in parts if not there)
    points = 2 if not missing else 1 if len(missing) < len(parts) else 0
    return Points(name, points, missing)


def _over_hosts(
    evidence: Evidence, checks: Sequence[tuple[Callable[[HostFacts], bool], str]]
) -> list[tuple[bool, str]]:
    parts = []
    for check, what in checks:
        lacking = [host.name for host in evidence.hosts if host.reason or not check(host)]
        named = f"{', '.join(lacking[:3])}{' ...' if len(lacking) > 3 else ''}"
        parts.append((bool(evidence.hosts) and not lacking, f"{what}: {named or 'no host'}"))
    return parts


def _over_engines(
    evidence: Evidence, checks: Sequence[tuple[Callable[[Engine], bool], str]]
) -> list[tuple[bool, str]]:
    def every(check: Callable[[Engine], bool]) -> Callable[[HostFacts], bool]:
        return lambda host: bool(host.engines) and all(check(engine) for engine in host.engines)

    return _over_hosts(evidence, [(every(check), what) for check, what in checks])


def _host_and_driver(evidence: Evidence) -> Points:
    checks = [
        (lambda host: loaded_driver(host).ok, "loaded driver"),
        (lambda host: host.fact("driver_agreement").ok, "user libraries against the loaded module"),
        (lambda host: bool(host.uuids), "GPUs by UUID"),
    ]
    return _graded("host and driver", _over_hosts(evidence, checks))


def _image_and_versions(evidence: Evidence) -> Points:
    def named(engine: Engine) -> bool:
        return not engine.in_container or bool(engine.image.get("id") and engine.image.get("digests"))

    checks = [
        (named, "image id and digest"),
        (lambda engine: bool((engine.versions.value or {}).get("vllm")), "version of vLLM"),
        (_torch_cuda, "CUDA of torch"),
    ]
    return _graded("image and versions", _over_engines(evidence, checks))


def _torch_cuda(engine: Engine) -> bool:
    """Whether the CUDA that torch was built for is known, from its own file or from its version (2.13.0+cu130)."""
    told = engine.cuda.value or {}
    local = told.get("torch_local_version") or ()
    return bool(told.get("torch_build")) or any(str(part).startswith("cu") for part in local)


def _devices(evidence: Evidence) -> Points:
    parts = _over_engines(evidence, [(lambda engine: engine.devices.ok, "GPUs inside the container")])
    parts += _over_hosts(evidence, [(lambda host: host.fact("holders").ok, "processes on the GPUs")])
    return _graded("devices, host against container", parts)


def _launch(evidence: Evidence) -> Points:
    ranks = evidence.launch.get("ranks")
    if isinstance(ranks, list) and ranks:
        parts = [
            (all(isinstance(rank, Mapping) and rank.get(key) is not None for rank in ranks), what)
            for key, what in (("argv", "command of every rank"), ("env", "environment of every rank"))
        ]
        return _graded("complete launch per rank", parts)
    checks = [
        (lambda engine: bool(engine.argv), "command of every rank"),
        (lambda engine: bool(engine.environment), "environment of every rank"),
    ]
    return _graded("complete launch per rank", _over_engines(evidence, checks))


def _failure(evidence: Evidence) -> Points:
    known = evidence.failure
    parts = [
        (known.get("stage") not in (None, "", "none"), "stage of the first failure"),
        (known.get("time") not in (None, ""), "time of the first failure"),
        (known.get("node") is not None or bool(known.get("host")), "node of the first failure"),
    ]
    return _graded("first failure", parts)


def _request(evidence: Evidence) -> Points:
    sent = [request for request in evidence.requests if request.get("outcome") not in (None, "", "planned")]
    parts = [
        (evidence.request_body or any(request.get("body") for request in sent), "body of the fixed request"),
        (any(not request.get("disturbed") for request in sent), "what it gave"),
    ]
    return _graded("fixed request", parts)


def _order(evidence: Evidence) -> Points:
    without = [host.name for host in evidence.hosts if not host.timeline]
    named = ", ".join(without[:3]) or "no host"
    parts = [
        (bool(evidence.hosts) and not without, f"timeline of earlier changes: {named}"),
        (bool(evidence.second_run), "a second clean run with the same launch and signature"),
    ]
    return _graded("order of changes, second run", parts)


CRITERIA: tuple[Callable[[Evidence], Points], ...] = (
    _host_and_driver,
    _image_and_versions,
    _devices,
    _launch,
    _failure,
    _request,
    _order,
)
