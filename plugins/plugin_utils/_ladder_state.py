# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a ladder does next (pure; private to the collection, controller only).

A ladder is a list of rungs and the steps done so far; ``next_step`` reads both and nothing else, so that a killed
controller resumes where it was. A step is one attempt. Its purpose says what for:

base     the launch the ladder begins with, which must be stable
control  the last stable launch under the load of the next rung, where a rung needs its own before and after
try      the last stable launch and the one change of the rung
back     after a failure: the last stable launch again, to prove that it still is
again    after a proven way back: only the change again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

SCHEMA = "gpufleet.baseline/ladder-state/1"

BASE, CONTROL, TRY, BACK, AGAIN = "base", "control", "try", "back", "again"
PURPOSES = (BASE, CONTROL, TRY, BACK, AGAIN)

STABLE = "stable"
CAUSED = "caused"
FLAKY = "flaky"
BLOCKED = "blocked"
INVALID = "invalid"
SKIPPED = "skipped"
UNDECIDED = "undecided"

# Outcomes of an attempt that are no word about the launch; the same step is done again.
_NO_WORD = ("disturbed", "interrupted")
_NOT_ALLOWED = ("blocked", "refused")
_BAD = ("failed", "hung")
MOST_NO_WORD = 3
MOST_STEPS = 100


@dataclass(frozen=True)
class Rung:
    """What the machine has to know of a rung."""

    name: str
    repeat: int = 1
    control: bool = False
    skip: str = ""


@dataclass(frozen=True)
class Step:
    """One attempt, finished when it has an outcome. ``parent`` is the rung whose launch was stable before."""

    number: int
    rung: str
    purpose: str
    parent: str = ""
    outcome: str = ""
    signature: dict[str, Any] = field(default_factory=dict)
    run: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return asdict(self)


@dataclass(frozen=True)
class Decision:
    """Either the next step, or why there is none. ``done`` tells a ladder at its end from one that waits."""

    step: Step | None
    done: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """What became of a rung: bad of all attempts with its change, and the signature of the first bad one."""

    rung: str
    verdict: str
    bad: int = 0
    attempts: int = 0
    signature: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return asdict(self)


def step_of(document: Any) -> Step:
    """A step as it stands in a document; raises BaselineError for what is none."""
    try:
        step = Step(**document)
    except TypeError as error:
        raise BaselineError(f"expected a step of a ladder, found {document!r}: {error}") from error
    if step.purpose not in PURPOSES:
        raise BaselineError(
            f"expected one of {', '.join(PURPOSES)} as a step's purpose, found {step.purpose!r}"
        )
    return step


def next_step(
    rungs: Sequence[Rung],
    steps: Sequence[Step],
    go_past: Sequence[str] = (),
    base: str = "minimal",
    since: int = 0,
) -> Decision:
    """What to do now. A last step without an outcome was begun and not recorded: it is to be done again.

    ``since`` is how many finished steps there were when this call of the ladder began: what made an earlier call wait
    does not make this one wait.
    """
    steps = [step for step in steps if step.outcome]
    number = len(steps) + 1
    decided = verdicts(rungs, steps)
    stuck = _stuck(steps[since:])
    if stuck:
        return Decision(None, False, stuck)
    if not any(step.purpose == BASE and step.outcome == STABLE for step in steps):
        if any(step.purpose == BASE and step.outcome in _BAD for step in steps[since:]):
            return Decision(None, False, "the launch that the ladder begins with is not stable itself")
        return Decision(Step(number, base, BASE))
    stable = base
    for rung in rungs:
        verdict = decided[rung.name]
        if verdict.verdict == SKIPPED:
            continue
        if verdict.verdict == STABLE:
            stable = rung.name
            continue
        if verdict.verdict == UNDECIDED:
            return _within(rung, stable, [step for step in steps if step.rung == rung.name], number)
        if rung.name not in go_past:
            return Decision(None, True, f"{rung.name} is {verdict.verdict}: {verdict.reason}")
    return Decision(None, True, f"every rung is done; the last stable one is {stable}")


def _within(rung: Rung, stable: str, steps: Sequence[Step], number: int) -> Decision:
    """The next step of a rung that is not decided. Steps of a purpose ``back`` carry the rung they came from."""

    def step(purpose: str) -> Decision:
        return Decision(Step(number, rung.name, purpose, stable))

    told = [one for one in steps if one.outcome not in _NO_WORD and one.outcome not in _NOT_ALLOWED]
    if rung.control and not any(one.purpose == CONTROL for one in told):
        return step(CONTROL)
    tries = [one for one in told if one.purpose == TRY]
    if not any(one.outcome in _BAD for one in tries):
        return step(TRY)
    return step(AGAIN if any(one.purpose == BACK for one in told) else BACK)


def _stuck(steps: Sequence[Step]) -> str:
    """Why the ladder waits for a person: GPUs that are held, or a step that others disturb again and again."""
    if not steps:
        return ""
    last = steps[-1]
    where = f"step {last.number} ({last.rung}, {last.purpose})"
    if last.outcome in _NOT_ALLOWED:
        return f"{where} is {last.outcome}"
    without = 0
    for step in reversed(steps):
        if step.outcome not in _NO_WORD or (step.rung, step.purpose) != (last.rung, last.purpose):
            break
        without += 1
    if without >= MOST_NO_WORD:
        return f"{where} was {last.outcome} {without} times"
    if len(steps) >= MOST_STEPS:
        return f"{len(steps)} steps were done in this call; the same command goes on"
    return ""


def verdicts(rungs: Sequence[Rung], steps: Sequence[Step]) -> dict[str, Verdict]:
    """What is known of each rung, by name."""
    return {rung.name: _verdict(rung, [step for step in steps if step.rung == rung.name]) for rung in rungs}


def _verdict(rung: Rung, steps: Sequence[Step]) -> Verdict:
    if rung.skip:
        return Verdict(rung.name, SKIPPED, reason=rung.skip)
    with_change = [step for step in steps if step.purpose in (TRY, AGAIN)]
    counted = [step for step in with_change if step.outcome in (STABLE, *_BAD)]
    bad = [step for step in counted if step.outcome in _BAD]
    first = bad[0].signature if bad else {}

    def verdict(word: str, reason: str) -> Verdict:
        return Verdict(rung.name, word, len(bad), len(counted), first, reason)

    control = [step for step in steps if step.purpose == CONTROL and step.outcome in _BAD]
    if control:
        return Verdict(
            rung.name, FLAKY, len(control), len(control), control[0].signature,
            "its load already fails without the change: the load is the cause, or the launch before is not stable",
        )  # fmt: skip
    if any(step.outcome == INVALID for step in steps):
        return verdict(INVALID, "what the engine really used differs in more than the variable, or not in it")
    back = [step for step in steps if step.purpose == BACK and step.outcome in (STABLE, *_BAD)]
    if any(step.outcome in _BAD for step in back):
        return verdict(
            FLAKY, "the launch before it failed as well when it was tried again: nothing can be blamed"
        )
    again = [step for step in counted if step.purpose == AGAIN]
    if again and back:
        return _after_again(verdict, bad, counted, again)
    if not bad and len(counted) >= rung.repeat:
        return verdict(STABLE, f"{len(counted)} of {len(counted)} attempts stable")
    return verdict(UNDECIDED, "")


def _after_again(
    verdict: Any, bad: Sequence[Step], counted: Sequence[Step], again: Sequence[Step]
) -> Verdict:
    rate = f"{len(bad)} of {len(counted)} attempts with the change failed, none without it"
    if again[-1].outcome == STABLE or any(step.outcome == STABLE for step in counted):
        found: Verdict = verdict(FLAKY, f"it comes and goes: {rate}")
        return found
    other = "" if all(step.signature == bad[0].signature for step in bad) else ", not always in the same way"
    caused: Verdict = verdict(CAUSED, f"{rate}{other}")
    return caused


def rate_sentence(bad: int, attempts: int) -> str:
    """What so many attempts can show, honestly: the rule of three bounds a rate of failures never seen.

    https://en.wikipedia.org/wiki/Rule_of_three_(statistics)
    """
    if attempts == 0:
        return "not tried"
    if bad == 0:
        bound = min(100, round(300 / attempts))
        return (
            f"0 of {attempts} failed; a failure in up to {bound} % of starts would often go unseen in so few"
        )
    return f"{bad} of {attempts} failed"
