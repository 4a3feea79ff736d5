# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people and pipelines get: a table of 100 columns, JUnit XML, gate.json."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import (
    _junit,
    _report,
    _table,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Result
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import RecipeState
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._waivers import Waiver
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    TODAY,
    boundary,
    changed,
    document,
    fact,
    judged,
    with_engine,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def odd_one() -> Result:
    """Three hosts: the second has another driver, MIG on, and a host is dead."""
    other = changed(document(2), gpu__driver__loaded=fact("580.95.05"), gpu__gpus__0__state__mig=fact(True))
    return judged([document(1), other, document(3)], missing={"n4": "unreachable: no route to host"})


def table(result: Result) -> list[str]:
    return _table.render(result, "Gate run-001: FAIL", [("run", "/repro/run-001")])


def test_table_names_the_odd_host_out_and_fits() -> None:
    lines = table(odd_one())
    assert max(len(line) for line in lines) <= 100
    text = "\n".join(lines)
    assert "FAIL       driver.equal        n2" in text
    assert "FAIL       gpu.mig             n2" in text
    assert "UNDECIDED  facts.there         n4" in text
    assert "unreachable: no route to host" in text
    assert "odd host   n2: driver.equal" in text
    assert lines[-1] == "run        /repro/run-001"


def test_table_says_what_to_do_and_what_was_wanted() -> None:
    text = "\n".join(table(odd_one()))
    assert "wanted: one driver version in the launch group" in text
    assert "do: bring all hosts to one driver version" in text


def test_table_of_a_healthy_group_is_one_screen() -> None:
    lines = table(judged([with_engine(document(1)), with_engine(document(2))]))
    assert len(lines) < 30
    assert not [line for line in lines if line.startswith(("FAIL", "UNDECIDED", "warn"))]


def test_table_of_many_hosts_stays_short() -> None:
    many = [changed(document(n), gpu__gpus__0__state__mig=fact(n % 2 == 0)) for n in range(1, 201)]
    lines = table(judged(many, boundary(gpu_count=8)))
    assert len(lines) < 40
    assert max(len(line) for line in lines) <= 100
    assert [line for line in lines if "+" in line and "gpu.mig" in line]


def test_table_says_once_per_host_what_needs_root() -> None:
    denied = fact(None, "denied", "root only")
    result = judged([changed(document(1), gpu__xid=denied, gpu__holders=denied), document(2)])
    lines = [line for line in table(result) if line.startswith("needs root")]
    assert lines == ["needs root n1: gpu.xid, gpu.holders"]


def test_every_output_shows_a_waiver() -> None:
    made = changed(document(1), gpu__gpus__0__state__mig=fact(True))
    waiver = Waiver("gpu.mig", "the slice is wanted", TODAY)
    result = judged([made, document(2)], None, [waiver])
    assert "waived until 2026-11-30: the slice is wanted" in "\n".join(table(result))
    assert "waived until 2026-11-30: the slice is wanted" in _junit.junit(result, "gate", "t").decode()
    written = _report.document(result, {}, [], {})
    waived = [item["waiver"]["reason"] for item in written["findings"] if item["waiver"]]
    assert waived == ["the slice is wanted"]


def test_table_tells_the_age_of_the_pin_in_every_run() -> None:
    state = RecipeState("kimi-k3", 3, "https://example.org/r.json", unreachable="no route")
    text = "\n".join(table(judged([document(1), document(2)], recipe=state)))
    assert "pin kimi-k3, checked 3 days ago; recipe not reachable: the pin holds" in text


def test_junit_counts_failures_errors_and_skips() -> None:
    result = odd_one()
    root = ElementTree.fromstring(_junit.junit(result, "gate run-001", "2026-11-30T12:00:00Z"))
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"launch group", "n1", "n2", "n3", "n4"}
    assert suites["n1"].get("failures") == suites["n1"].get("errors") == "0"
    assert suites["n2"].get("failures") == "1"
    assert suites["n4"].get("errors") == "1"
    failed = [case for case in suites["n2"] if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["gpu.mig"]
    message = failed[0].find("failure")
    assert message is not None
    assert "MIG is on" in str(message.get("message"))
    for suite in root:
        assert suite.get("tests") == str(len(suite))


@settings(max_examples=60)
@given(st.text(max_size=60), st.text(max_size=60))
def test_outputs_hold_any_text(name: str, message: str) -> None:
    made = document(1)
    made["gpu"]["gpus"][0]["identity"]["name"] = fact(name)
    made["gpu"]["gpus"][1]["state"]["mig"] = fact(None, "error", message)
    result = judged([made])
    ElementTree.fromstring(_junit.junit(result, "gate", "t"))
    assert max(len(line) for line in table(result)) <= 100
    json.dumps(_report.document(result, {}, [], {}))


def test_gate_json() -> None:
    about = {"run": "run-001", "judged": "live", "time": "2026-11-30T12:00:00Z"}
    written = _report.document(odd_one(), about, [{"host": "n1", "started": "container"}], {"points": 4})
    assert written["schema"] == "gpufleet.baseline/gate/1"
    assert (written["verdict"], written["good"]) == ("fail", False)
    assert written["hosts"]["n2"]["verdict"] == "fail"
    assert written["hosts"]["n4"] == {
        "verdict": "undecided",
        "reason": "unreachable: no route to host",
        "time": "",
        "run": "",
    }
    assert written["odd_hosts"] == {"n2": ["driver.equal"]}
    assert written["exceptions"] == [{"host": "n1", "started": "container"}]
    assert written["rules"]["fail"] == 2
    assert written["boundary"]["driver_branch"] == 580
    assert json.loads(json.dumps(written)) == written


def test_what_a_host_tells_cannot_act_on_the_terminal() -> None:
    made = changed(document(1), gpu__gpus__0__identity__name=fact("\x1b[2J\x1b]0;owned\x07 H\x00200\u202e"))
    text = "\n".join(table(judged([made, document(2)])))
    assert "FAIL       gpu.model" in text
    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert "\u202e" not in text


def test_one_day_is_one_day() -> None:
    text = "\n".join(table(judged([document(1), document(2)], recipe=RecipeState("kimi-k3", 1))))
    assert "pin kimi-k3, checked 1 day ago;" in text
