# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The score of a run: each criterion counts for itself, and what is absent gives nothing (T52)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._score import Evidence, Score, score
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    Document,
    changed,
    document,
    fact,
    judged,
    with_engine,
)

NAMES = [
    "host and driver",
    "image and versions",
    "devices, host against container",
    "complete launch per rank",
    "first failure",
    "fixed request",
    "order of changes, second run",
]
RANKS = [{"argv": ["vllm", "serve"], "env": {}}, {"argv": ["vllm", "serve"], "env": {"A": "1"}}]
WHOLE: dict[str, Any] = {
    "failure": {"stage": "engine", "time": "2026-12-01 00:46:49", "node": 0},
    "requests": [{"outcome": "connection lost", "body": "{}"}],
    "launch": {"ranks": RANKS},
    "second_run": "run-001 and run-002",
}


def evidence(*documents: Document, **more: Any) -> Evidence:
    """Two trays with an engine, and everything that an attempt can leave."""
    made = documents or (with_engine(document(1)), with_engine(document(2)))
    return Evidence(judged(made).case.hosts, **{**WHOLE, **more})


def points(found: Score) -> list[int]:
    assert [item.name for item in found.criteria] == NAMES
    return [item.points for item in found.criteria]


def first_tray(**changes: Any) -> Evidence:
    return evidence(changed(with_engine(document(1)), **changes), with_engine(document(2)))


def first_engine(**changes: Any) -> Evidence:
    return evidence(with_engine(document(1), **changes), with_engine(document(2)))


def test_t52_everything_gives_fourteen_and_never_more() -> None:
    found = score(evidence())
    assert points(found) == [2] * 7
    assert (found.points, found.missing, found.next) == (14, (), "a controlled reproduction may begin")
    assert found.may_begin
    written = found.as_dict()
    assert (written["points"], written["most"]) == (14, 14)
    assert "no promise of a start" in written["meaning"]


UNREAD = fact(None, "error", "no answer")
FLIPS: list[tuple[str, Evidence, int, str]] = [
    ("host and driver", first_tray(gpu__driver__agreement=UNREAD), 1, "against the loaded module: n1"),
    ("image and versions", first_engine(cuda=UNREAD), 1, "CUDA of torch: n1"),
    ("image and versions", first_engine(versions=fact({"vllm": []})), 1, "version of vLLM: n1"),
    ("image and versions", first_engine(image__digests=[]), 1, "image id and digest: n1"),
    ("devices, host against container", first_engine(visible_devices=UNREAD), 1, "inside the container: n1"),
    ("devices, host against container", first_tray(gpu__holders=UNREAD), 1, "processes on the GPUs: n1"),
    ("complete launch per rank", evidence(launch={"ranks": [*RANKS, {"argv": ["vllm"]}]}), 1, "environment"),
    ("complete launch per rank", evidence(launch={"ranks": [*RANKS, None]}), 0, "command of every rank"),
    ("first failure", evidence(failure={"stage": "engine", "time": "t"}), 1, "node of the first failure"),
    ("first failure", evidence(failure={"stage": "engine", "host": "n1"}), 1, "time of the first failure"),
    ("first failure", evidence(failure={"stage": "none"}), 0, "stage of the first failure"),
    ("first failure", evidence(failure={}), 0, "node of the first failure"),
    ("fixed request", evidence(requests=[], request_body=True), 1, "what it gave"),
    ("fixed request", evidence(requests=[{"outcome": "planned", "body": "{}"}]), 0, "body of the fixed"),
    ("fixed request", evidence(requests=[{**WHOLE["requests"][0], "disturbed": "others"}]), 1, "it gave"),
    ("order of changes, second run", evidence(second_run=""), 1, "second clean run"),
    ("order of changes, second run", first_tray(host__changes__events=[]), 1, "earlier changes: n1"),
]


@pytest.mark.parametrize(("name", "found", "left", "missing"), FLIPS)
def test_t52_each_criterion_counts_for_itself(name: str, found: Evidence, left: int, missing: str) -> None:
    told = score(found)
    assert points(told) == [left if criterion == name else 2 for criterion in NAMES]
    assert any(missing in text for text in told.missing)
    assert told.points == 12 + left


def test_t52_every_criterion_has_a_test_that_flips_only_it() -> None:
    assert {name for name, _found, _left, _missing in FLIPS} == set(NAMES)


def test_without_an_attempt_the_engines_tell_the_launch() -> None:
    assert points(score(evidence(launch={})))[3] == 2
    assert points(score(replace(first_engine(command=[]), launch={})))[3] == 1


@pytest.mark.parametrize(
    ("less", "total", "next_step"),
    [
        ({"failure": {}}, 12, "a controlled reproduction may begin"),
        ({"failure": {}, "second_run": ""}, 11, "collect the missing evidence first"),
        ({"failure": {}, "requests": []}, 10, "collect the missing evidence first"),
    ],
)
def test_bands(less: dict[str, Any], total: int, next_step: str) -> None:
    found = score(evidence(**less))
    assert (found.points, found.next, found.is_baseline) == (total, next_step, True)


def test_below_eight_it_is_no_baseline() -> None:
    found = score(evidence(document(1), document(2), failure={}, requests=[], second_run=""))
    assert (found.points, found.is_baseline) == (6, False)
    assert found.next == "not a valid diagnostic baseline"


def test_t52_nothing_gives_nothing() -> None:
    found = score(Evidence(()))
    assert found.points == 0
    assert all(item.missing for item in found.criteria)


def test_t52_one_host_without_facts_costs_its_points() -> None:
    hosts = judged([with_engine(document(1))], missing={"n2": "unreachable"}).case.hosts
    found = score(Evidence(hosts))
    assert found.points == 0
    assert "loaded driver: n2" in found.missing


@pytest.mark.parametrize(
    ("local", "there"), [(["cu130"], True), (["cpu"], False), ([], False), (None, False)]
)
def test_the_version_of_torch_tells_its_cuda_too(local: Any, there: bool) -> None:
    told = fact({"torch_build": None, "torch_local_version": local})
    assert (score(first_engine(cuda=told)).points == 14) == there
