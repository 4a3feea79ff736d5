# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule of the gate is, and what it answers (private to the collection, controller only).

Pure. A rule is asked for each host or once for the launch group and answers with one of four verdicts, or
that it does not apply, with the reason. What was not measured is undecided and never a pass.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import DENIED
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Boundary, Difference
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary_hardware import HARDWARE, Hardware
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Gpu, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import Launch

PASS, WARN, FAIL, UNDECIDED, NOT_APPLICABLE = "pass", "warn", "fail", "undecided", "not applicable"
# From the best to the worst.
VERDICTS = (NOT_APPLICABLE, PASS, WARN, UNDECIDED, FAIL)
REQUIRED, ADVISORY = "required", "advisory"
HOST, GROUP = "host", "group"

AS_ROOT = "run the gate as root (become), which changes nothing on the host"


@dataclass(frozen=True)
class RecipeState:
    """Where the boundary came from in this run."""

    pin: str = ""
    pin_age_days: int | None = None
    configured: str = ""
    live_commit: str = ""
    live_read_at: str = ""
    unreachable: str = ""
    differences: tuple[Difference, ...] = ()
    changed_since_last_run: str = ""


@dataclass(frozen=True)
class Options:
    """What the caller decides."""

    allowed_processes: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    clock_skew_seconds: float = 1.0
    stale_after_days: int = 14
    # The controller's times between which a host's clock was read, by host; none for recorded facts.
    heard_between: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Everything that is judged together: one launch group against one boundary."""

    boundary: Boundary
    hosts: tuple[HostFacts, ...]
    launch: Launch | None = None
    recipe: RecipeState = RecipeState()
    options: Options = Options()
    today: datetime.date = datetime.date.min

    @property
    def hardware(self) -> Hardware | None:
        """The kind of host that the boundary asks for; None when the collection does not know it."""
        return HARDWARE.get(str(self.boundary.value("gpu_model") or ""))

    @cached_property
    def measured(self) -> tuple[HostFacts, ...]:
        """The hosts of which there are facts of this run."""
        return tuple(host for host in self.hosts if not host.reason)

    @cached_property
    def missing(self) -> tuple[HostFacts, ...]:
        """The others."""
        return tuple(host for host in self.hosts if host.reason)

    @cached_property
    def has_engine(self) -> bool:
        """Whether any host has an engine."""
        return any(host.engines for host in self.measured)


@dataclass(frozen=True)
class Answer:
    """What a rule answers. ``hosts`` are the odd ones out of a group; ``required`` overrules the rule's
    severity.
    """

    verdict: str
    found: str = ""
    reason: str = ""
    remedy: str = ""
    wanted: str = ""
    facts: tuple[Measured, ...] = ()
    hosts: tuple[str, ...] = ()
    needs_root: bool = False
    required: bool = False

    def want(self, wanted: str) -> Answer:
        """The same answer with what was wanted."""
        return replace(self, wanted=wanted)


HostJudge = Callable[[Case, HostFacts], Answer]
GroupJudge = Callable[[Case], Answer]


@dataclass(frozen=True)
class Rule:
    """One rule: its id, what it is about for people, how grave it is, who answers it, and which facts it reads.

    A fact is one of the host, of its GPUs or of its engines; ``gpus`` and ``engines`` are the lists themselves.
    """

    id: str
    title: str
    severity: str
    host: HostJudge | None = None
    group: GroupJudge | None = None
    reads: tuple[str, ...] = ()

    @property
    def scope(self) -> str:
        """Whether it is asked for each host or once for the group."""
        return HOST if self.host else GROUP


def passed(found: str, *facts: Measured) -> Answer:
    """As wanted."""
    return Answer(PASS, found, facts=facts)


def warned(found: str, reason: str, remedy: str, *facts: Measured) -> Answer:
    """Works, or may work, with a risk that has a name."""
    return Answer(WARN, found, reason, remedy, facts=facts)


def failed(found: str, reason: str, remedy: str, *facts: Measured) -> Answer:
    """Not as wanted."""
    return Answer(FAIL, found, reason, remedy, facts=facts)


def not_applicable(reason: str) -> Answer:
    """The rule has nothing to judge here."""
    return Answer(NOT_APPLICABLE, "", reason)


def undecided(found: str, reason: str, remedy: str, *facts: Measured) -> Answer:
    """Not known."""
    return Answer(UNDECIDED, found, reason, remedy, facts=facts)


def unmeasured(what: str, fact: Measured, remedy: str = "") -> Answer:
    """A fact that was not measured, in the words of its probe."""
    root = fact.outcome == DENIED
    reason = f"not measured ({fact.outcome}): {what}: {fact.message or 'no reason given'}"
    return Answer(
        UNDECIDED,
        "not measured",
        reason,
        AS_ROOT if root else remedy or "find out why the probe did not answer, then run the gate again",
        facts=(fact,),
        needs_root=root,
    )


def without_gpus(host: HostFacts) -> Answer | None:
    """Why rules about GPUs have nothing to judge on a host; None when there are GPUs."""
    if not host.gpus.ok:
        return unmeasured("the list of GPUs", host.gpus)
    if host.gpu_list:
        return None
    return not_applicable("no NVIDIA GPU on this host; see gpu.model")


GpuJudge = Callable[[Gpu], Answer | None]


def over_gpus(host: HostFacts, judge: GpuJudge, good: str) -> Answer:
    """One answer for all GPUs of a host: the worst, naming the GPUs; ``judge`` gives None for a good one."""
    none = without_gpus(host)
    if none is not None:
        return none
    answered = [gpu for gpu in host.gpu_list if gpu.answered]
    silent = len(host.gpu_list) - len(answered)
    if not answered:
        problem = host.problems[0] if host.problems else "the driver's tools told nothing about any GPU"
        return undecided("not measured", f"no GPU answered: {problem}", "see gpu.lost")
    found = [(gpu, answer) for gpu in answered if (answer := judge(gpu)) is not None]
    if not found:
        return passed(
            f"{good} ({silent} of {len(host.gpu_list)} GPUs did not answer, see gpu.lost)" if silent else good
        )
    worst = max((answer.verdict for _gpu, answer in found), key=VERDICTS.index)
    same = [(gpu, answer) for gpu, answer in found if answer.verdict == worst]
    first = same[0][1]
    labels = ", ".join(gpu.address for gpu, _answer in same)
    facts = tuple(fact for _gpu, answer in same for fact in answer.facts)
    many = f"{len(same)} of {len(host.gpu_list)} GPUs" if len(host.gpu_list) > 1 else "the GPU"
    texts = list(dict.fromkeys(answer.found for _gpu, answer in same))
    return replace(
        first,
        found=f"{many} ({labels}): {'; '.join(texts)}",
        facts=facts,
        needs_root=any(answer.needs_root for _gpu, answer in same),
    )


def odd_ones(values: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The value of most hosts and those that differ; without a majority no value, and all hosts."""
    counted: dict[str, list[str]] = {}
    for host, value in values.items():
        counted.setdefault(value, []).append(host)
    if len(counted) == 1:
        return next(iter(counted)), ()
    usual, hosts = max(counted.items(), key=lambda item: len(item[1]))
    if len(hosts) * 2 <= len(values):
        return "", tuple(values)
    return usual, tuple(host for host in values if values[host] != usual)


def describe_values(values: Mapping[str, str]) -> str:
    """Values and who has them, the most frequent first."""
    counted: dict[str, list[str]] = {}
    for host, value in values.items():
        counted.setdefault(value, []).append(host)
    ranked = sorted(counted.items(), key=lambda item: -len(item[1]))
    return "; ".join(f"{value}: {name_hosts(hosts)}" for value, hosts in ranked)


def days_ago(days: int) -> str:
    """A number of days for people."""
    return f"{days} day{'' if days == 1 else 's'} ago"


def name_hosts(hosts: Sequence[str], most: int = 4) -> str:
    """Host names, how many more there are when there are many."""
    shown = ", ".join(hosts[:most])
    return shown if len(hosts) <= most else f"{shown} and {len(hosts) - most} more"


def equal_over(
    case: Case, what: str, values: Mapping[str, str], unread: Mapping[str, Measured], remedy: str
) -> Answer:
    """Whether a value is the same on all hosts of the group; the odd host is named, never picked as right."""
    usual, odd = odd_ones(values) if values else ("", ())
    if odd:
        reason = f"{what} differs within the launch group"
        if usual:
            reason += f": the odd one is {name_hosts(odd)}"
        return replace(failed(describe_values(values), reason, remedy), hosts=odd)
    lacking = {**{host.name: Measured(message=host.reason) for host in case.missing}, **unread}
    if lacking:
        names = tuple(lacking)
        reason = f"not measured on {name_hosts(names)}: {what}: {next(iter(lacking.values())).message}"
        root = any(fact.outcome == DENIED for fact in unread.values())
        answer = undecided(usual or "not measured", reason, AS_ROOT if root else "measure these hosts too")
        return replace(answer, hosts=names, needs_root=root, facts=tuple(unread.values()))
    if len(values) < 2:
        one = len(case.hosts) == 1
        return not_applicable("the launch group has one host" if one else f"fewer than two hosts have {what}")
    return passed(f"{usual} on {len(values)} hosts")
