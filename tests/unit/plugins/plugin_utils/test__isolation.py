# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._isolation import (
    CONDITIONS,
    POLICY,
    Attempted,
    Observed,
    Policy,
    judge,
    next_action,
    policy_of,
)

SAME = {"stage": "engine", "class": "nccl-init"}
# Everything measured and answered, and nothing speaks for isolation.
CALM = Observed(
    images={"vllm:k3": ["sha256:1", "sha256:1"]},
    drivers={"tray1": ["580.1", "580.1"]},
    foreign_holders=(),
    injected={"tray1": []},
    restarts=(),
    attempts=(Attempted("run-002", "L", "failed", SAME), Attempted("run-003", "L", "failed", SAME)),
    score=13,
)
FREE = Policy(True, True, True, False, True)
OTHER = Attempted("run-004", "L", "failed", {"stage": "weights"})
GOOD = Attempted("run-004", "L", "stable")


def states(observed: Observed = CALM, policy: Policy = FREE) -> dict[str, str]:
    return {condition["name"]: condition["state"] for condition in judge(observed, policy)["conditions"]}


def test_with_everything_measured_and_nothing_against_it_the_failure_stays_in_place() -> None:
    assert set(states().values()) == {"not met"}
    assert judge(CALM, FREE)["verdict"] == "in place"
    assert judge(CALM, FREE)["questions"] == []


FLIPS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("driver", {}, {"host_can_stay_on_one_driver": False}),
    ("driver", {"drivers": {"tray1": ["580.1", "580.2"]}}, {}),
    ("image", {"images": {"vllm:k3": ["sha256:1", "sha256:2"]}}, {}),
    ("scheduler", {"injected": {"tray1": ["SLURM_JOB_ID"]}}, {}),
    ("changing error", {"attempts": (*CALM.attempts, OTHER)}, {}),
    ("restarts", {}, {"restarts_can_be_stopped": False}),
    ("serving", {}, {"must_keep_serving": True}),
    ("no frozen version", {}, {"version_can_be_frozen": False}),
    ("driver for good", {}, {"driver_change_can_be_undone": False}),
    ("sporadic", {"flaky": ("context",)}, {}),
    ("sporadic", {"attempts": (*CALM.attempts, GOOD)}, {}),
]


@pytest.mark.parametrize(("name", "observed", "policy"), FLIPS)
def test_each_condition_is_met_by_its_own_evidence_alone(
    name: str, observed: dict[str, Any], policy: dict[str, Any]
) -> None:
    one, other = replace(CALM, **observed), replace(FREE, **policy)
    assert [found for found, state in states(one, other).items() if state == "met"] == [name]
    assert judge(one, other)["verdict"] == "isolate"


@pytest.mark.parametrize(
    "observed",
    [
        {"foreign_holders": ("tray1: pid 7 python of user b",)},
        {"attempts": (*CALM.attempts, Attempted("run-004", "L", "disturbed"))},
    ],
)
def test_other_jobs_count_in_both_lists(observed: dict[str, Any]) -> None:
    met = [found for found, state in states(replace(CALM, **observed)).items() if state == "met"]
    assert met == ["other jobs", "other tasks"]


UNKNOWN: list[tuple[list[str], dict[str, Any], dict[str, Any]]] = [
    (["driver"], {}, {"host_can_stay_on_one_driver": None}),
    (["image"], {"images": None}, {}),
    (["image"], {"images": {"vllm:k3": ["sha256:1"]}}, {}),
    (["other jobs", "other tasks"], {"foreign_holders": None}, {}),
    (["scheduler"], {"injected": None}, {}),
    (["changing error", "sporadic"], {"attempts": ()}, {}),
    (["restarts"], {}, {"restarts_can_be_stopped": None}),
    (["restarts"], {"restarts": None}, {"restarts_can_be_stopped": None}),
    (["restarts"], {"restarts": ("policy always",)}, {"restarts_can_be_stopped": None}),
    (["serving"], {}, {"must_keep_serving": None}),
    (["no frozen version"], {}, {"version_can_be_frozen": None}),
    (["driver for good"], {}, {"driver_change_can_be_undone": None}),
]


@pytest.mark.parametrize(("names", "observed", "policy"), UNKNOWN)
def test_what_was_not_measured_or_answered_is_undecided_and_never_not_met(
    names: list[str], observed: dict[str, Any], policy: dict[str, Any]
) -> None:
    one, other = replace(CALM, **observed), replace(FREE, **policy)
    assert [found for found, state in states(one, other).items() if state == "undecided"] == names
    assert judge(one, other)["verdict"] == "undecided"


def test_there_are_seven_and_four_conditions_and_nothing_known_is_undecided() -> None:
    assert len(CONDITIONS) == 7 + 4
    document = judge(Observed(), Policy())
    assert {condition["state"] for condition in document["conditions"]} == {"undecided"}
    assert document["questions"] == list(POLICY.values())
    assert document["next_action"] == "collect"


@pytest.mark.parametrize(
    ("observed", "verdict", "action", "word"),
    [
        ({"score": None}, "in place", "collect", "no score"),
        ({"score": 7, "upgrades": ("driver 580",)}, "isolate", "collect", "not a valid baseline"),
        ({"upgrades": ("driver 580 or newer: recipe",), "caused": ("x",)}, "isolate", "upgrade", "recipe"),
        ({"caused": ("prefix-caching",)}, "isolate", "repair", "run-002 and run-003 failed in the same way"),
        ({"caused": ("prefix-caching",), "attempts": ()}, "isolate", "isolate", "met"),
        ({"score": 9, "missing": ("second run",)}, "in place", "collect", "second run"),
        ({}, "in place", "collect", "climb the ladder"),
    ],
)
def test_the_next_action_is_what_the_evidence_allows(
    observed: dict[str, Any], verdict: str, action: str, word: str
) -> None:
    found, reason = next_action(replace(CALM, **observed), verdict, ["serving"])
    assert (found, word in reason) == (action, True)


@pytest.mark.parametrize(
    "document", [[], "yes", {"other": True}, {"must_keep_serving": "no"}, {"must_keep_serving": 1}]
)
def test_another_question_or_answer_in_the_policy_is_an_error(document: Any) -> None:
    with pytest.raises(BaselineError, match="expected"):
        policy_of(document)


def test_a_policy_may_leave_questions_open() -> None:
    assert policy_of(None) == Policy()
    assert policy_of({"must_keep_serving": False}) == Policy(must_keep_serving=False)
