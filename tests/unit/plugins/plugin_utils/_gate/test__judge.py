# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge: what counts, who is named, what is waived."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Difference
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import _judge
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    Options,
    RecipeState,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._waivers import (
    Waiver,
    parse_waivers,
)
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    TODAY,
    about,
    bad,
    boundary,
    case,
    changed,
    document,
    fact,
    judged,
    verdict,
    with_engine,
)

LATER = TODAY + datetime.timedelta(days=1)


def test_ids_are_unique_and_every_rule_is_about_hosts_or_the_group() -> None:
    assert len(set(_judge.RULE_IDS)) == len(_judge.RULE_IDS)
    for rule in _judge.RULES:
        assert (rule.host is None) != (rule.group is None), rule.id


def test_every_answer_of_a_bad_host_has_wanted_found_reason_and_remedy() -> None:
    made = document(1)
    made["gpu"]["driver"] = {}
    made["gpu"]["gpus"][0]["state"] = {}
    del made["engine"]
    result = judged([made, document(2)])
    for finding in result.findings:
        answer = finding.answer
        if answer.verdict in ("fail", "undecided", "warn"):
            assert answer.wanted, finding.rule.id
            assert answer.found, finding.rule.id
            assert answer.reason, finding.rule.id
            assert answer.remedy, finding.rule.id
            assert "\n" not in answer.reason


def test_evidence_names_host_probe_and_time() -> None:
    result = judged([document(1), document(2)])
    evidence = about(result, "driver.branch").as_dict()["evidence"]
    assert evidence[0] == {
        "host": "n1",
        "probe": "/proc/driver/nvidia/version",
        "time": "2026-11-30T12:00:00Z",
        "outcome": "ok",
    }
    assert [item["host"] for item in evidence] == ["n1", "n2"]


def test_every_rule_about_something_measured_has_evidence_of_every_host() -> None:
    documents = [with_engine(document(1)), with_engine(document(2))]
    for finding in judged(documents).findings:
        told = finding.as_dict()
        if told["verdict"] != "not applicable" and not told["rule"].startswith(("recipe.", "facts.")):
            assert {item["host"] for item in told["evidence"]} == {"n1", "n2"}, told["rule"]
            assert all(item["probe"] and item["time"] for item in told["evidence"]), told["rule"]


def test_no_host_is_no_pass() -> None:
    result = judged([])
    assert (result.verdict, result.good) == ("undecided", False)


@pytest.mark.parametrize(
    "reason", ["unreachable: no route", "its facts are of another run (run-001) and are refused"]
)
def test_a_host_without_facts_of_this_run_is_undecided(reason: str) -> None:
    result = judged([document(1)], missing={"n2": reason})
    assert about(result, "facts.there", "n2").answer.reason == reason
    assert about(result, "gpu.count").answer.verdict == "undecided"
    assert "n2" in about(result, "driver.equal").hosts
    assert result.verdict == "undecided"
    assert result.host_verdicts()["n2"] == "undecided"


def test_a_missing_host_does_not_hide_a_failure() -> None:
    old = changed(document(1), gpu__driver__loaded=fact("570.1"))
    assert judged([old], missing={"n2": "unreachable"}).verdict == "fail"


def test_enough_gpus_do_not_make_a_missing_host_good() -> None:
    result = judged([document(1), document(2)], missing={"n3": "unreachable"})
    assert verdict(result, "gpu.count") == "pass"
    assert result.verdict == "undecided"


def test_only_required_rules_stop_a_rollout() -> None:
    loose = changed(document(1), gpu__gpus__0__state__persistence=fact(False))
    result = judged([loose, document(2)])
    assert (result.verdict, result.good) == ("warn", True)
    unknown = changed(document(1), gpu__gpus__0__state__persistence=fact(None, "error", "no"))
    result = judged([unknown, document(2)])
    assert bad(result) == {"gpu.persistence": "undecided"}
    assert result.verdict == "pass"


def waived(until: datetime.date, *hosts: str) -> Waiver:
    return Waiver("gpu.mig", "known", until, hosts)


def mig_on() -> list[dict[str, Any]]:
    return [changed(document(1), gpu__gpus__0__state__mig=fact(True)), document(2)]


def test_a_waived_finding_stays_and_counts_as_a_warning() -> None:
    result = judged(mig_on(), None, [waived(TODAY)])
    finding = about(result, "gpu.mig", "n1")
    assert (finding.answer.verdict, finding.counts_as, result.verdict) == ("fail", "warn", "warn")
    assert finding.as_dict()["waiver"]["reason"] == "known"


def test_a_waiver_that_has_ended_waives_nothing_and_is_named() -> None:
    ended = waived(TODAY - datetime.timedelta(days=1))
    result = judged(mig_on(), None, [ended])
    assert result.verdict == "fail"
    assert result.ended_waivers == (ended,)


def test_a_waiver_for_other_hosts_does_not_hold() -> None:
    assert judged(mig_on(), None, [waived(LATER, "n2")]).verdict == "fail"
    assert judged(mig_on(), None, [waived(LATER, "n1")]).verdict == "warn"


def test_a_waiver_for_one_host_does_not_waive_the_group() -> None:
    group = [document(1)]
    assert judged(group, None, [Waiver("gpu.count", "x", LATER, ("n1",))]).verdict == "fail"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            {"rule": "gpu.mgi", "reason": "x", "until": "2026-12-31"},
            "expected the id of a rule, found gpu.mgi",
        ),
        ({"rule": "gpu.mig", "until": "2026-12-31"}, "expected a reason"),
        ({"rule": "gpu.mig", "reason": " ", "until": "2026-12-31"}, "expected a reason"),
        ({"rule": "gpu.mig", "reason": "x"}, "expected until as a day"),
        ({"rule": "gpu.mig", "reason": "x", "until": "soon"}, "expected until as a day"),
        (
            {"rule": "gpu.mig", "reason": "x", "until": "2026-12-31", "hosts": "n1"},
            "expected a list of host names",
        ),
        ({"rule": "gpu.mig", "reason": "x", "until": "2026-12-31", "host": "n1"}, "found {'rule'"),
        ("gpu.mig", "expected rule, reason, until"),
    ],
)
def test_t28_a_wrong_waiver_is_an_error(item: Any, words: str) -> None:
    with pytest.raises(BaselineError) as caught:
        parse_waivers([item], _judge.RULE_IDS)
    assert words in str(caught.value)


def test_equal_answers_are_one_finding() -> None:
    result = judged([document(number) for number in range(1, 31)], boundary(gpu_count=8))
    findings = [item for item in result.findings if item.rule.id == "gpu.mig"]
    assert len(findings) == 1
    assert len(findings[0].hosts) == 30


@pytest.mark.parametrize(
    ("state", "rule", "expected"),
    [
        (RecipeState("kimi-k3", 14), "recipe.pin", "pass"),
        (RecipeState("kimi-k3", 15), "recipe.pin", "warn"),
        (RecipeState("kimi-k3", 15, "url", "", "2026-11-30T12:00:00Z"), "recipe.pin", "pass"),
        (RecipeState("kimi-k3", -1), "recipe.pin", "warn"),
        (RecipeState("kimi-k3", 0), "recipe.live", "not applicable"),
        (RecipeState("kimi-k3", 0, "url", unreachable="no route"), "recipe.live", "warn"),
        (RecipeState("kimi-k3", 0, "url", "", "2026-11-30T12:00:00Z"), "recipe.live", "pass"),
        (RecipeState("k", 0, "url", "", "t", differences=(Difference("vllm", "1", "2", "2"),)), "recipe.drift", "warn"),
        (RecipeState("kimi-k3", 0, "url", "", "t"), "recipe.drift", "pass"),
        (RecipeState("kimi-k3", 0, "url", "", "t", changed_since_last_run="a.yaml"), "recipe.changed", "warn"),
    ],
)  # fmt: skip
def test_t37_age_and_drift_are_shown_and_never_silent(state: RecipeState, rule: str, expected: str) -> None:
    result = judged([document(1), document(2)], recipe=state)
    assert verdict(result, rule) == expected
    assert result.verdict == ("warn" if expected == "warn" else "pass")


@pytest.mark.parametrize(
    ("asked", "heard", "expected"),
    [
        (1796040000.0, 1796040002.0, "pass"),
        (1796039999.5, 1796039999.5, "pass"),
        (1796039990.0, 1796039995.0, "warn"),  # the host is 5 s ahead
        (1796040010.0, 1796040020.0, "warn"),  # the host is 10 s behind
    ],
)
def test_clock_of_a_host(asked: float, heard: float, expected: str) -> None:
    options = Options(heard_between={"n1": (asked, heard)})
    result = judged([document(1), document(2)], options=options)
    assert verdict(result, "host.clock", "n1") == expected
    assert verdict(result, "host.clock", "n2") == "not applicable"


def test_clocks_that_nothing_keeps() -> None:
    loose = changed(document(1), host__time=fact({"now": 1.0, "kernel": {"synchronized": False}}))
    finding = about(judged([loose, document(2)]), "host.time_service")
    assert (finding.answer.verdict, finding.hosts) == ("warn", ("n1",))


def test_ports() -> None:
    documents = [document(1), document(2)]
    for made in documents:
        made["host"]["listening"] = fact([{"port": 8000}])
    result = judged(documents, options=Options(ports=(8000, 29501)))
    assert verdict(result, "host.ports", "n1") == "warn"
    assert verdict(judged(documents, options=Options(ports=(29501,))), "host.ports", "n1") == "pass"
    unread = judged([document(1), document(2)], options=Options(ports=(8000,)))
    assert verdict(unread, "host.ports", "n1") == "undecided"


def test_launch_may_need_more_gpus_than_the_boundary() -> None:
    from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin

    pin = _boundary_pin.load("kimi-k3")
    choice = pin.choice("gb300", "multi_node_tp_pp")
    made = case([document(1), document(2)], pin.boundary(choice))
    result = _judge.judge(
        type(made)(made.boundary, made.hosts, pin.launch(choice), made.recipe, made.options, TODAY)
    )
    assert "16 are needed" in about(result, "gpu.count").answer.reason


def test_the_documentation_lists_every_rule_with_its_severity() -> None:
    text = (Path(__file__).parents[5] / "docs" / "gate.md").read_text()
    rows = re.findall(r"^\| `([a-z_.]+)` \| (\w+) \| (\w+) \|", text, re.MULTILINE)
    assert rows == [(rule.id, rule.severity, rule.scope) for rule in _judge.RULES]
