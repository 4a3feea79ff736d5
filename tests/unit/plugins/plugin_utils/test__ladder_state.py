# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ladder's machine, played in small worlds whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _ladder_state as ladder
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._ladder_state import (
    Rung,
    Step,
    next_step,
    verdicts,
)
from hypothesis import given
from hypothesis import strategies as st

World = Callable[[Step], str]
RUNGS = [Rung("prefix-caching", control=True), Rung("context"), Rung("parallel")]


def play(
    rungs: Sequence[Rung], world: World, go_past: Sequence[str] = (), killed_after: int = -1
) -> tuple[list[Step], ladder.Decision]:
    """Steps until the ladder ends; killed and resumed once, in the middle of the step after the given number."""
    steps: list[Step] = []
    while True:
        decision = next_step(rungs, steps, go_past)
        if decision.step is None or len(steps) > 60:
            return steps, decision
        if len(steps) == killed_after:
            killed_after = -1
            # It was begun, written down and never finished.
            again = next_step(rungs, [*steps, decision.step], go_past)
            assert again == decision
            continue
        outcome = world(decision.step)
        signature = {"stage": "engine", "class": decision.step.rung} if outcome in ("failed", "hung") else {}
        steps.append(replace(decision.step, outcome=outcome, signature=signature))


def told(rungs: Sequence[Rung], steps: Sequence[Step]) -> dict[str, str]:
    return {name: verdict.verdict for name, verdict in verdicts(rungs, steps).items()}


def purposes(steps: Sequence[Step], rung: str) -> list[str]:
    return [step.purpose for step in steps if step.rung == rung]


def all_good(_step: Step) -> str:
    return "stable"


def breaks(rung: str) -> World:
    """The change of this rung breaks every start."""
    return lambda step: "failed" if step.rung == rung and step.purpose in ("try", "again") else "stable"


def test_a_ladder_without_a_failure_goes_rung_by_rung_to_the_end() -> None:
    steps, decision = play(RUNGS, all_good)
    assert [(step.rung, step.purpose, step.parent) for step in steps] == [
        ("minimal", "base", ""),
        ("prefix-caching", "control", "minimal"),
        ("prefix-caching", "try", "minimal"),
        ("context", "try", "prefix-caching"),
        ("parallel", "try", "context"),
    ]
    assert decision.done
    assert "the last stable one is parallel" in decision.reason
    assert [step.number for step in steps] == [1, 2, 3, 4, 5]


def test_a_change_that_fails_twice_round_a_stable_way_back_is_the_cause() -> None:
    steps, decision = play(RUNGS, breaks("context"))
    assert purposes(steps, "context") == ["try", "back", "again"]
    assert {step.parent for step in steps if step.rung == "context"} == {"prefix-caching"}
    assert told(RUNGS, steps)["context"] == "caused"
    assert decision.done
    assert "2 of 2 attempts with the change failed, none without it" in decision.reason


def test_a_caused_rung_is_gone_past_only_by_name_and_without_its_change() -> None:
    assert purposes(play(RUNGS, breaks("context"), ["parallel"])[0], "parallel") == []
    steps, decision = play(RUNGS, breaks("context"), ["context"])
    assert [(step.purpose, step.parent) for step in steps if step.rung == "parallel"] == [
        ("try", "prefix-caching")
    ]
    assert "the last stable one is parallel" in decision.reason


def test_a_failure_that_does_not_come_again_is_flaky() -> None:
    steps, _decision = play(
        RUNGS, lambda step: "hung" if (step.rung, step.purpose) == ("context", "try") else "stable"
    )
    assert told(RUNGS, steps)["context"] == "flaky"
    assert "1 of 2 attempts" in verdicts(RUNGS, steps)["context"].reason


def test_a_way_back_that_fails_blames_nothing() -> None:
    steps, decision = play(RUNGS, lambda step: "failed" if step.rung == "context" else "stable")
    assert purposes(steps, "context") == ["try", "back"]
    assert told(RUNGS, steps)["context"] == "flaky"
    assert "nothing can be blamed" in decision.reason


def test_a_load_that_fails_without_the_change_is_not_the_change() -> None:
    steps, decision = play(RUNGS, lambda step: "failed" if step.purpose == "control" else "stable")
    assert purposes(steps, "prefix-caching") == ["control"]
    assert "already fails without the change" in decision.reason


def test_a_base_that_is_not_stable_ends_the_call_and_is_tried_again_in_the_next() -> None:
    steps, decision = play(RUNGS, lambda step: "failed")
    assert [step.purpose for step in steps] == ["base"]
    assert not decision.done
    again = next_step(RUNGS, steps, since=1)
    assert again.step is not None
    assert (again.step.number, again.step.purpose) == (2, "base")


@pytest.mark.parametrize("outcome", ["blocked", "refused"])
def test_a_blocked_step_waits_for_a_person_and_is_done_again_by_the_next_call(outcome: str) -> None:
    steps, decision = play(RUNGS, lambda step: outcome if step.rung == "context" else "stable")
    assert (decision.done, decision.step) == (False, None)
    assert outcome in decision.reason
    again = next_step(RUNGS, steps, since=len(steps))
    assert again.step is not None
    assert (again.step.rung, again.step.purpose) == ("context", "try")


def test_disturbed_is_no_word_and_is_done_again_three_times_at_most() -> None:
    seen: list[int] = []

    def world(step: Step) -> str:
        if step.rung == "context" and len(seen) < 2:
            seen.append(step.number)
            return "disturbed"
        return "stable"

    steps, _decision = play(RUNGS, world)
    assert told(RUNGS, steps) == {"prefix-caching": "stable", "context": "stable", "parallel": "stable"}
    steps, decision = play(RUNGS, lambda step: "interrupted" if step.rung == "context" else "stable")
    assert purposes(steps, "context") == ["try"] * 3
    assert "3 times" in decision.reason


def test_an_invalid_step_stops_at_its_rung() -> None:
    steps, decision = play(RUNGS, lambda step: "invalid" if step.rung == "context" else "stable")
    assert told(RUNGS, steps)["context"] == "invalid"
    assert decision.done


def test_a_skipped_rung_is_left_out_with_its_reason() -> None:
    rungs = [RUNGS[0], Rung("context", skip="not used here"), RUNGS[2]]
    steps, _decision = play(rungs, all_good)
    assert purposes(steps, "context") == []
    assert verdicts(rungs, steps)["context"].reason == "not used here"


def test_repeats_are_counted_and_one_bad_one_is_looked_into() -> None:
    rungs = [Rung("context", repeat=3)]
    steps, _decision = play(rungs, all_good)
    assert purposes(steps, "context") == ["try"] * 3
    tries: list[int] = []

    def third_fails(step: Step) -> str:
        if step.rung == "context" and step.purpose in ("try", "again"):
            tries.append(step.number)
            return "failed" if len(tries) == 3 else "stable"
        return "stable"

    steps, _decision = play(rungs, third_fails)
    assert purposes(steps, "context") == ["try", "try", "try", "back", "again"]
    assert verdicts(rungs, steps)["context"].as_dict()["bad"] == 1
    assert told(rungs, steps)["context"] == "flaky"


def test_a_call_ends_after_a_hundred_steps_and_the_next_goes_on() -> None:
    rungs = [Rung(f"rung-{number}") for number in range(150)]
    steps = [Step(1, "minimal", "base", outcome="stable")]
    steps += [Step(number, f"rung-{number - 2}", "try", outcome="stable") for number in range(2, 101)]
    assert next_step(rungs, steps).step is None
    going_on = next_step(rungs, steps, since=100).step
    assert going_on is not None
    assert going_on.rung == "rung-99"


@given(
    st.lists(st.sampled_from(["good", "breaks", "once", "control", "skip"]), min_size=1, max_size=5),
    st.integers(0, 25),
    st.booleans(),
)
def test_the_truth_of_every_rung_is_found_also_by_a_controller_that_was_killed(
    kinds: list[str], killed_after: int, past: bool
) -> None:
    rungs = [
        Rung(f"r{number}", control=kind == "control", skip="not wanted" if kind == "skip" else "")
        for number, kind in enumerate(kinds)
    ]

    def world(step: Step) -> str:
        kind = "good" if step.rung == "minimal" else kinds[int(step.rung[1:])]
        bad = (kind == "breaks" and step.purpose in ("try", "again")) or (
            kind == "once" and step.purpose == "try"
        )
        return "failed" if bad else "stable"

    names = [rung.name for rung in rungs] if past else []
    whole, end = play(rungs, world, names)
    resumed, end_after = play(rungs, world, names, killed_after)
    assert (whole, end) == (resumed, end_after)
    expected = {"good": "stable", "control": "stable", "breaks": "caused", "once": "flaky", "skip": "skipped"}
    reached = [kinds.index(kind) for kind in kinds if kind in ("breaks", "once")]
    last = len(kinds) if past or not reached else min(reached)
    for number, kind in enumerate(kinds):
        if number <= last or kind == "skip":
            assert told(rungs, whole)[f"r{number}"] == expected[kind]


@pytest.mark.parametrize(
    "document", [{}, {"number": 1, "rung": "x", "purpose": "leap"}, [], {"number": 1, "other": 2}]
)
def test_what_is_no_step_is_an_error(document: Any) -> None:
    with pytest.raises(BaselineError):
        ladder.step_of(document if isinstance(document, dict) else {"x": 1})


def test_a_step_is_written_and_read_again() -> None:
    step = Step(3, "context", "try", "minimal", "failed", {"stage": "engine"}, "run-004")
    assert ladder.step_of(step.as_dict()) == step


def test_what_few_attempts_show_is_said_honestly() -> None:
    assert ladder.rate_sentence(0, 0) == "not tried"
    assert "up to 100 %" in ladder.rate_sentence(0, 2)
    assert "up to 10 %" in ladder.rate_sentence(0, 30)
    assert ladder.rate_sentence(2, 5) == "2 of 5 failed"
