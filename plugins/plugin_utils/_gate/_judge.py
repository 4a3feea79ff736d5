# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge: asks every rule about every host and the group, and sums up (private to the collection,
controller only; pure).

Only required rules make the gate fail or leave it undecided. The advisory ones warn. Equal answers of
several hosts are one finding that names the hosts, so that a thousand hosts stay readable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import (
    _container_rules,
    _count_rules,
    _driver_rules,
    _fabric_rules,
    _health_rules,
    _holder_rules,
    _host_rules,
    _image_cuda_rules,
    _image_rules,
    _probe_rules,
    _recipe_rules,
    _weights_rules,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    FAIL,
    GROUP,
    NOT_APPLICABLE,
    PASS,
    REQUIRED,
    UNDECIDED,
    VERDICTS,
    WARN,
    Answer,
    Case,
    Rule,
    undecided,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._waivers import Waiver

RULES: tuple[Rule, ...] = (
    *_host_rules.RULES,
    *_recipe_rules.RULES,
    *_driver_rules.RULES,
    *_count_rules.RULES,
    *_health_rules.RULES,
    *_holder_rules.RULES,
    *_fabric_rules.RULES,
    *_image_rules.RULES,
    *_image_cuda_rules.RULES,
    *_container_rules.RULES,
    *_weights_rules.RULES,
    *_probe_rules.RULES,
)
RULE_IDS = tuple(rule.id for rule in RULES)
# The rule that says that there are no facts of a host; nothing else is asked about such a host.
PRESENCE = "facts.there"


@dataclass(frozen=True)
class Finding:
    """One answer of one rule: about the hosts that are named, or about the group (then ``hosts`` are the
    odd ones).
    """

    rule: Rule
    answer: Answer
    hosts: tuple[str, ...]
    evidence: tuple[dict[str, str], ...] = ()
    waiver: Waiver | None = None

    @property
    def severity(self) -> str:
        """The rule's, unless the answer is graver than the rule."""
        return REQUIRED if self.answer.required else self.rule.severity

    @property
    def counts_as(self) -> str:
        """The verdict that the finding adds to the whole."""
        verdict = self.answer.verdict
        if verdict in (NOT_APPLICABLE, PASS, WARN):
            return verdict
        if self.waiver is not None:
            return WARN
        if self.severity == ADVISORY:
            # What an advisory rule could not find out is shown, and is no reason to stop.
            return WARN if verdict == FAIL else PASS
        return verdict

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        answer = self.answer
        return {
            "rule": self.rule.id,
            "title": self.rule.title,
            "severity": self.severity,
            "scope": self.rule.scope,
            "verdict": answer.verdict,
            "hosts": list(self.hosts),
            "wanted": answer.wanted,
            "found": answer.found,
            "reason": answer.reason,
            "remedy": answer.remedy,
            "needs_root": answer.needs_root,
            "evidence": list(self.evidence),
            "waiver": self.waiver.as_dict() if self.waiver else None,
        }


@dataclass(frozen=True)
class Result:
    """The judgement of a launch group."""

    case: Case
    findings: tuple[Finding, ...]
    ended_waivers: tuple[Waiver, ...] = ()

    @property
    def verdict(self) -> str:
        """Pass, warn, fail or undecided; without any host it is undecided."""
        if not self.case.hosts:
            return UNDECIDED
        worst = max((finding.counts_as for finding in self.findings), key=VERDICTS.index, default=UNDECIDED)
        return PASS if worst == NOT_APPLICABLE else worst

    @property
    def good(self) -> bool:
        """Whether a rollout may go on."""
        return self.verdict in (PASS, WARN)

    def host_verdicts(self) -> dict[str, str]:
        """The worst verdict for each host: of its own findings, and of those of the group that name it."""
        found = {host.name: PASS for host in self.case.hosts}
        for finding in self.findings:
            for host in finding.hosts:
                if host in found and VERDICTS.index(finding.counts_as) > VERDICTS.index(found[host]):
                    found[host] = finding.counts_as
        return found

    def counts(self) -> dict[str, int]:
        """How many rules ended with each verdict, the worst one of each rule."""
        worst: dict[str, str] = {}
        for finding in self.findings:
            verdict, known = finding.answer.verdict, worst.get(finding.rule.id, NOT_APPLICABLE)
            worst[finding.rule.id] = max(verdict, known, key=VERDICTS.index)
        return {name: sum(verdict == name for verdict in worst.values()) for name in reversed(VERDICTS)}

    def odd_hosts(self) -> dict[str, list[str]]:
        """Hosts that differ from the others, with the rules of the group that name them."""
        odd: dict[str, list[str]] = {}
        for finding in self.findings:
            named_all = len(finding.hosts) == len(self.case.hosts)
            if finding.rule.scope == GROUP and finding.answer.verdict == FAIL and not named_all:
                for host in finding.hosts:
                    odd.setdefault(host, []).append(finding.rule.id)
        return odd

    def needs_root(self) -> dict[str, list[str]]:
        """Per host the rules that only root's eyes can decide."""
        found: dict[str, list[str]] = {}
        for finding in self.findings:
            for host in finding.hosts if finding.answer.needs_root else ():
                found.setdefault(host, []).append(finding.rule.id)
        return found


def judge(case: Case, waivers: Sequence[Waiver] = ()) -> Result:
    """Ask all rules."""
    live = [waiver for waiver in waivers if waiver.holds(case.today)]
    findings: list[Finding] = []
    for rule in RULES:
        if rule.host is not None:
            findings += _ask_hosts(rule, case, live)
        elif rule.group is not None and case.hosts:
            answer = _ask(rule, partial(rule.group, case))
            evidence = _evidence(rule, [(host, answer) for host in case.measured])
            findings.append(Finding(rule, answer, answer.hosts, evidence, _waiver(live, rule, answer, "")))
    ended = tuple(waiver for waiver in waivers if waiver not in live)
    return Result(case, tuple(findings), ended)


def _ask(rule: Rule, ask: Callable[[], Answer]) -> Answer:
    """One rule's answer. A document that is damaged in a way that the rule cannot read leaves it undecided."""
    try:
        answer = ask()
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        reason = f"the rule cannot read what was measured ({type(error).__name__}: {error})"
        answer = undecided("not understood", reason, "measure again; report it when it stays")
    # An answer that came before the rule knew what exactly it wants says the rule's title.
    return answer if answer.wanted else answer.want(rule.title)


def _waiver(waivers: Sequence[Waiver], rule: Rule, answer: Answer, host: str) -> Waiver | None:
    """The waiver of an answer that needs one; the group's is one without hosts."""
    if answer.verdict not in (FAIL, UNDECIDED):
        return None
    return next((item for item in waivers if item.covers(rule.id, host)), None)


def _ask_hosts(rule: Rule, case: Case, waivers: Sequence[Waiver]) -> list[Finding]:
    """One finding for each set of hosts with equal answers and waivers."""
    groups: dict[tuple[Any, ...], list[tuple[HostFacts, Answer]]] = {}
    used: dict[tuple[Any, ...], Waiver | None] = {}
    for host in case.hosts:
        if (host.reason and rule.id != PRESENCE) or rule.host is None:
            continue
        answer = _ask(rule, partial(rule.host, case, host))
        waiver = _waiver(waivers, rule, answer, host.name)
        key = (answer.verdict, answer.found, answer.reason, answer.remedy, answer.wanted, waiver)
        groups.setdefault(key, []).append((host, answer))
        used[key] = waiver
    found = []
    for key, members in groups.items():
        answer = replace(members[0][1], needs_root=any(item.needs_root for _host, item in members))
        evidence = _evidence(rule, members)
        found.append(Finding(rule, answer, tuple(host.name for host, _item in members), evidence, used[key]))
    return found


def _evidence(rule: Rule, hosts: Iterable[tuple[HostFacts, Answer]]) -> tuple[dict[str, str], ...]:
    """Host, probe and time: of the facts that decided an answer, else of those that the rule reads."""
    return tuple(
        {"host": host.name, "probe": fact.source, "time": host.time, "outcome": fact.outcome}
        for host, answer in hosts
        for fact in (answer.facts if rule.host and answer.facts else [host.read(name) for name in rule.reads])
    )
