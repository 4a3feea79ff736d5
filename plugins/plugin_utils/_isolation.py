# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a failure should be taken to an isolated environment, and what to do next (pure; private, controller only).

Eleven conditions. Each is met or not met with its evidence, or undecided with what is missing: seven for moving to an
isolated environment, and four more under which nothing can be compared in place. One that is met is enough; a condition
that nobody measured or answered is never taken as not met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

SCHEMA = "gpufleet.baseline/isolation/1"

MET, NOT_MET, UNDECIDED = "met", "not met", "undecided"
ISOLATE, IN_PLACE = "isolate", "in place"
REPAIR, UPGRADE, COLLECT = "repair", "upgrade", "collect"
LEAST_SCORE, GOOD_SCORE = 8, 12
CAVEAT = "a success in isolation does not prove that production is compatible"

# What only a person can answer; true, false, or left out.
POLICY = {
    "host_can_stay_on_one_driver": "can the hosts stay on one driver version during the diagnosis?",
    "version_can_be_frozen": "can image and versions be frozen during the diagnosis?",
    "driver_change_can_be_undone": "can a change of the driver be fully undone?",
    "must_keep_serving": "must the cluster keep serving during the diagnosis?",
    "restarts_can_be_stopped": "can health-check restarts and client retries be switched off?",
}


@dataclass(frozen=True)
class Policy:
    """The answers of a person to what can't be measured; None where nobody answered."""

    host_can_stay_on_one_driver: bool | None = None
    version_can_be_frozen: bool | None = None
    driver_change_can_be_undone: bool | None = None
    must_keep_serving: bool | None = None
    restarts_can_be_stopped: bool | None = None


@dataclass(frozen=True)
class Attempted:
    """One finished attempt of the reproduction."""

    run: str
    launch: str
    outcome: str
    signature: Mapping[str, Any] = field(default_factory=dict)
    changed_variable: str = ""


@dataclass(frozen=True)
class Observed:
    """What the runs of a reproduction tell. None means that it was not measured; empty, that nothing was found."""

    # Image ids seen under one reference, by reference.
    images: Mapping[str, Sequence[str]] | None = None
    # Driver versions seen, by host.
    drivers: Mapping[str, Sequence[str]] | None = None
    # Processes on the GPUs that are neither the engine's nor ours, one line each.
    foreign_holders: Sequence[str] | None = None
    # Variables that a scheduler put into the engine's environment, by host.
    injected: Mapping[str, Sequence[str]] | None = None
    # Restart policies, health checks and restart counts of the engine's containers, one line each.
    restarts: Sequence[str] | None = None
    attempts: Sequence[Attempted] = ()
    # Rungs of a ladder that came and went, and those that were proven to be the cause.
    flaky: Sequence[str] = ()
    caused: Sequence[str] = ()
    # Versions that the recipe or vLLM's documentation asks for and a host does not have: text with its source.
    upgrades: Sequence[str] = ()
    score: int | None = None
    missing: Sequence[str] = ()


@dataclass(frozen=True)
class Condition:
    """One condition with its state and evidence."""

    name: str
    text: str
    state: str
    evidence: str


def policy_of(document: Any) -> Policy:
    """The answers in a policy file; raises BaselineError for another question or answer."""
    if document is None:
        return Policy()
    expected = "expected a mapping of " + ", ".join(POLICY)
    if not isinstance(document, Mapping):
        raise BaselineError(f"{expected} to true or false in the policy, found {type(document).__name__}")
    unknown = [str(name) for name in document if name not in POLICY]
    if unknown:
        raise BaselineError(f"{expected}, found {', '.join(sorted(unknown))}; remove or correct it")
    wrong = [name for name, answer in document.items() if answer is not None and not isinstance(answer, bool)]
    if wrong:
        raise BaselineError(f"{wrong[0]}: expected true or false in the policy, found {document[wrong[0]]!r}")
    return Policy(**document)


def judge(observed: Observed, policy: Policy) -> dict[str, Any]:
    """All conditions, the verdict over them, and the next action."""
    conditions = [Condition(name, text, *check(observed, policy)) for name, text, check in CONDITIONS]
    met = [condition for condition in conditions if condition.state == MET]
    open_ones = [condition for condition in conditions if condition.state == UNDECIDED]
    verdict = ISOLATE if met else UNDECIDED if open_ones else IN_PLACE
    action, why = next_action(observed, verdict, [condition.name for condition in met])
    return {
        "schema": SCHEMA,
        "verdict": verdict,
        "conditions": [asdict(condition) for condition in conditions],
        "questions": [POLICY[name] for name in POLICY if getattr(policy, name) is None],
        "next_action": action,
        "reason": why,
        "caveat": CAVEAT,
    }


def next_action(observed: Observed, verdict: str, met: Sequence[str]) -> tuple[str, str]:
    """Collect, upgrade, repair or isolate, with why; the first that its evidence allows."""
    if observed.score is None or observed.score < LEAST_SCORE:
        points = "no score" if observed.score is None else f"{observed.score} of 14 points"
        return COLLECT, f"{points}: not a valid baseline; missing: {_few(observed.missing) or 'everything'}"
    if observed.upgrades:
        return UPGRADE, _few(observed.upgrades)
    repeated = _repeated(observed.attempts)
    if observed.caused and repeated:
        return REPAIR, f"{_few(observed.caused)} was proven to be the cause; {repeated}"
    if verdict == ISOLATE:
        return ISOLATE, f"met: {_few(met)}"
    if observed.score < GOOD_SCORE:
        return (
            COLLECT,
            f"{observed.score} of 14 points: {_few(observed.missing) or 'collect what is missing'}",
        )
    return COLLECT, "no change has been attributed yet: climb the ladder"


def _repeated(attempts: Sequence[Attempted]) -> str:
    """Two attempts of one launch that failed in the same way."""
    for one in attempts:
        for other in attempts:
            if (
                one.run < other.run
                and one.launch == other.launch
                and one.outcome == other.outcome
                and one.outcome in ("failed", "hung")
                and one.signature == other.signature
            ):
                return f"{one.run} and {other.run} failed in the same way"
    return ""


State = tuple[str, str]
Check = Callable[[Observed, Policy], State]


def _answered(answer: bool | None, met_when: bool, name: str) -> State:
    if answer is None:
        return UNDECIDED, f"nobody answered: {POLICY[name]}"
    return (MET if answer is met_when else NOT_MET), f"policy: {name} is {str(answer).lower()}"


def _one_driver(observed: Observed, policy: Policy) -> State:
    changed = [
        f"{host} had {', '.join(versions)}"
        for host, versions in (observed.drivers or {}).items()
        if len(set(versions)) > 1
    ]
    if changed:
        return MET, f"the driver changed during the reproduction: {_few(changed)}"
    return _answered(policy.host_can_stay_on_one_driver, False, "host_can_stay_on_one_driver")


def _image_rebuilt(observed: Observed, _policy: Policy) -> State:
    if observed.images is None:
        return UNDECIDED, "no image id was measured"
    several = [
        f"{reference} was {len(set(ids))} images"
        for reference, ids in observed.images.items()
        if len(set(ids)) > 1
    ]
    if several:
        return MET, _few(several)
    if not any(len(ids) > 1 for ids in observed.images.values()):
        return UNDECIDED, "only one run tells an image id"
    return NOT_MET, "one image id under each reference in all runs"


def _other_jobs(observed: Observed, _policy: Policy) -> State:
    disturbed = [attempt.run for attempt in observed.attempts if attempt.outcome == "disturbed"]
    if disturbed or observed.foreign_holders:
        told = [f"disturbed: {', '.join(disturbed)}"] if disturbed else []
        return MET, _few([*told, *(observed.foreign_holders or ())])
    if observed.foreign_holders is None:
        return UNDECIDED, "the processes on the GPUs were not measured"
    return NOT_MET, "no process but the engine's was seen on the GPUs"


def _scheduler(observed: Observed, _policy: Policy) -> State:
    if observed.injected is None:
        return UNDECIDED, "no environment of an engine was measured"
    found = [f"{host}: {', '.join(names[:4])}" for host, names in observed.injected.items() if names]
    return (
        (MET, _few(found)) if found else (NOT_MET, "no variable of a scheduler in any engine's environment")
    )


def _error_changes(observed: Observed, _policy: Policy) -> State:
    failed = [attempt for attempt in observed.attempts if attempt.outcome in ("failed", "hung")]
    by_launch: dict[str, list[Attempted]] = {}
    for attempt in failed:
        by_launch.setdefault(attempt.launch, []).append(attempt)
    for attempts in by_launch.values():
        other = next((one for one in attempts[1:] if one.signature != attempts[0].signature), None)
        if other is not None:
            return MET, f"one launch, two failures: {attempts[0].run} and {other.run}"
    if not any(len(attempts) > 1 for attempts in by_launch.values()):
        return UNDECIDED, "no launch failed twice"
    return NOT_MET, "launches that failed again failed in the same way"


def _restarts(observed: Observed, policy: Policy) -> State:
    if policy.restarts_can_be_stopped is not None:
        return _answered(policy.restarts_can_be_stopped, False, "restarts_can_be_stopped")
    if observed.restarts is None:
        return UNDECIDED, f"not measured, and nobody answered: {POLICY['restarts_can_be_stopped']}"
    if observed.restarts:
        return UNDECIDED, f"there are some ({_few(observed.restarts)}): {POLICY['restarts_can_be_stopped']}"
    return UNDECIDED, "none was seen in the containers; retries of clients cannot be seen there"


def _serving(_observed: Observed, policy: Policy) -> State:
    return _answered(policy.must_keep_serving, True, "must_keep_serving")


def _freezable(observed: Observed, policy: Policy) -> State:
    if _image_rebuilt(observed, policy)[0] == MET and policy.version_can_be_frozen is None:
        return UNDECIDED, f"the image changed; {POLICY['version_can_be_frozen']}"
    return _answered(policy.version_can_be_frozen, False, "version_can_be_frozen")


def _undoable(_observed: Observed, policy: Policy) -> State:
    return _answered(policy.driver_change_can_be_undone, False, "driver_change_can_be_undone")


def _sporadic(observed: Observed, _policy: Policy) -> State:
    if observed.flaky:
        return MET, f"came and went: {_few(observed.flaky)}"
    by_launch: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for attempt in observed.attempts:
        if attempt.outcome in ("stable", "failed", "hung"):
            by_launch.setdefault(attempt.launch, set()).add(
                "stable" if attempt.outcome == "stable" else "bad"
            )
            counts[attempt.launch] = counts.get(attempt.launch, 0) + 1
    if any(len(found) > 1 for found in by_launch.values()):
        return MET, "the same launch was stable once and failed once"
    bad_again = any(counts[launch] > 1 and found == {"bad"} for launch, found in by_launch.items())
    if not bad_again:
        return UNDECIDED, "no launch that failed was tried again"
    return NOT_MET, "a launch that failed failed again every time"


CONDITIONS: tuple[tuple[str, str, Check], ...] = (
    ("driver", "the host can't stay on one driver version", _one_driver),
    ("image", "the image is rebuilt between runs", _image_rebuilt),
    ("other jobs", "other jobs change GPU visibility or memory", _other_jobs),
    ("scheduler", "a shared scheduler injects environment variables", _scheduler),
    ("changing error", "the first error changes without a recorded change", _error_changes),
    ("restarts", "automatic retries or health-check restarts can't be stopped", _restarts),
    ("serving", "the cluster must keep serving during the diagnosis", _serving),
    ("no frozen version", "no version can be frozen", _freezable),
    ("other tasks", "other tasks change GPU memory or network state", _other_jobs),
    ("driver for good", "a change of the driver can't be fully undone", _undoable),
    ("sporadic", "the same error is only sporadic", _sporadic),
)


def _few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more
