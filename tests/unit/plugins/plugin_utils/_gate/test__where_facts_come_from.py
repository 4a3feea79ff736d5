# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live facts of this run, recorded ones, the boundary of this run: foreign and stale input is refused (T28)."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import (
    _documents,
    _live,
    _recipe_state,
    _recorded,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import judge
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import Case
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_source import (
    RecipeUnreachable,
    Source,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_source import read as read_source
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import SCHEMA, Run, write_json
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    TODAY,
    boundary,
    document,
    fact,
    with_engine,
)
from hypothesis import given, settings
from hypothesis import strategies as st

RECIPES = Path(__file__).parents[4] / "fixtures" / "recipes"
CHOICE = Choice("gb300", "multi_node_tp", "")


def left(**more: Any) -> dict[str, Any]:
    """What the tasks of a run leave for a host."""
    made = document(1)
    return {
        "run": "/repro/run-001",
        "asked": 1796040000.0,
        "heard": 1796040001.0,
        "gpu_info": {"gpu": made["gpu"], "host": made["host"]},
        "engine_info": {"engine": made["engine"]},
        **more,
    }


def test_live_facts() -> None:
    host = _live.live_host("n1", left(), "/repro/run-001", True)
    assert (host.reason, host.time, len(host.gpu_list)) == ("", "2026-11-30T12:00:01Z", 4)
    assert host.engines_read.ok


@pytest.mark.parametrize(
    ("found", "in_play", "words"),
    [
        (None, False, "outside of the limit"),
        (None, True, "not visited before the judgement"),
        (left(run="/repro/run-000"), True, "of another run (/repro/run-000) and are refused"),
        (left(gpu_info={"unreachable": True, "msg": "no route"}), True, "unreachable: no route"),
        (left(gpu_info={"failed": True, "msg": "a\nb"}), True, "gpu_info failed: a b"),
        (left(gpu_info={"skipped": True}), True, "gpu_info was skipped"),
        (left(gpu_info=None), True, "gpu_info did not run"),
        (
            left(gpu_info={"gpu": {"schema": "other/1"}}),
            True,
            "expected gpufleet.baseline/gpu/1, found other/1",
        ),
        (left(gpu_info={}), True, "expected the document gpufleet.baseline/gpu/1, found none"),
    ],
)
def test_facts_of_no_use_leave_the_host_undecided(found: Any, in_play: bool, words: str) -> None:
    assert words in _live.live_host("n1", found, "/repro/run-001", in_play).reason


@pytest.mark.parametrize(
    "result", [{"failed": True, "msg": "x"}, {"skipped": True}, {"unreachable": True}, None]
)
def test_an_engine_that_could_not_be_asked_about_is_unknown(result: Any) -> None:
    host = _live.live_host("n1", left(engine_info=result), "/repro/run-001", True)
    assert host.reason == ""
    assert not host.engines_read.ok


def test_a_part_that_a_document_lacks_is_not_measured() -> None:
    made = document(1)
    del made["gpu"]["driver"], made["gpu"]["fabric"], made["host"]
    made["gpu"]["gpus"][0]["state"] = None
    host = _documents.host_facts("n1", made, "r", "t")
    for name in ("driver", "imex_status", "clock", "units"):
        assert not host.fact(name).ok
    assert not host.gpu_list[0].fact("mig").ok


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_document_never_passes_for_a_whole_one(data: st.DataObject) -> None:
    """It gives an error in words, or facts that some rule cannot decide; never another exception."""
    made = with_engine(document(1))
    place: Any = made
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
        if isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(json_values)
        break
    host = _live.live_host("n1", left(gpu_info=made, engine_info=made), "/repro/run-001", True)
    result = judge(Case(boundary(), (host,), today=TODAY))
    assert result.verdict in ("fail", "undecided")  # one tray is too few in any case
    assert "\n" not in host.reason


def recorded(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run-001")
    entries = {"n1": {"state": "frozen"}, "n2": {"state": "failed", "reason": "disk full"}}
    write_json(run.path / "run.json", {"schema": SCHEMA, "hosts": entries, "started": "2026-11-30T12:00:00Z"})
    write_json(run.path / "facts" / "n1.json", {"schema": "gpufleet.baseline/facts/1", **document(1)})
    return run


def test_records_of_a_run(tmp_path: Path) -> None:
    first, second = _recorded.recorded_hosts(_recorded.recorded_run(str(recorded(tmp_path).path)))
    assert (first.name, first.reason, len(first.gpu_list), first.time) == (
        "n1",
        "",
        4,
        "2026-11-30T12:00:00Z",
    )
    assert second.reason == "the run has no facts of it: failed disk full"


def test_t28_no_run_and_no_facts_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"expected a run with run\.json"):
        _recorded.recorded_run(str(tmp_path))
    run = recorded(tmp_path)
    write_json(run.path / "facts" / "n1.json", {"schema": "gpufleet.baseline/facts/9"})
    with pytest.raises(BaselineError, match="/facts/9; freeze"):
        _recorded.recorded_hosts(run)
    write_json(run.path / "run.json", {"schema": SCHEMA})
    with pytest.raises(BaselineError, match="expected the hosts of the run"):
        _recorded.recorded_hosts(run)
    write_json(run.path / "run.json", {"schema": "gpufleet.baseline/run/9", "hosts": {}})
    with pytest.raises(
        BaselineError, match=r"expected gpufleet\.baseline/run/1, found gpufleet\.baseline/run/9"
    ):
        _recorded.recorded_run(str(run.path))
    write_json(run.path / "run.json", [])
    with pytest.raises(BaselineError, match="found list"):
        _recorded.recorded_run(str(run.path))


def test_hosts_of_a_gate_or_freeze_within_another_run(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    parts = {"gate": {"hosts": {"n1": {"state": "measured"}}}}
    write_json(run.path / "run.json", {"schema": SCHEMA, "kind": "minimal", "hosts": {}, "parts": parts})
    (host,) = _recorded.recorded_hosts(_recorded.recorded_run(str(run.path)))
    assert (host.name, host.reason) == ("n1", "")


def test_the_pin_alone() -> None:
    held = _recipe_state.hold("kimi-k3", "", CHOICE, TODAY)
    assert held.boundary.value("driver_branch") == 580
    assert held.state.pin_age_days == 0
    assert (held.state.configured, held.state.live_read_at) == ("", "")
    assert held.launch is not None
    assert held.launch.gpus == 8


def test_offline_the_pin_holds_and_says_so() -> None:
    def read(location: str) -> Source:
        raise RecipeUnreachable(f"{location}: no route")

    held = _recipe_state.hold("kimi-k3", "https://example.org/k.json", CHOICE, TODAY, read)
    assert held.state.unreachable == "https://example.org/k.json: no route"
    assert held.boundary.value("driver_branch") == 580


def test_t28_a_recipe_that_is_there_and_wrong_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text("kind: Deployment\n")
    with pytest.raises(BaselineError, match="found neither"):
        _recipe_state.hold("kimi-k3", str(path), CHOICE, TODAY)


def test_pin_and_recipe_are_compared_and_the_stricter_holds() -> None:
    held = _recipe_state.hold("kimi-k3", str(RECIPES / "models/example/Model.yaml"), CHOICE, TODAY)
    assert [difference.limit for difference in held.state.differences] == ["image"]
    assert held.boundary.value("image") == "vllm/vllm-openai:kimi-k3"
    assert held.launch is not None  # a model file has none: the pinned one holds
    assert held.state.live_read_at


def test_a_recipe_of_another_variant_than_asked_is_an_error() -> None:
    with pytest.raises(BaselineError, match="expected as variant one of default, small; found nvfp4"):
        _recipe_state.hold(
            "kimi-k3", str(RECIPES / "models/example/Model.yaml"), Choice("", "", "nvfp4"), TODAY
        )


def test_a_changed_recipe_is_a_changed_variable(tmp_path: Path) -> None:
    path = tmp_path / "Model.yaml"
    path.write_text((RECIPES / "models/example/Model.yaml").read_text())
    first, second, third = (Run(tmp_path / "repro" / f"run-00{number}") for number in (1, 2, 3))

    def sources() -> tuple[dict[str, Any], ...]:
        return _recipe_state.hold("kimi-k3", str(path), CHOICE, TODAY, read_source).sources

    for run in (first, second, third):
        run.path.mkdir(parents=True)
    state = _recipe_state.hold("kimi-k3", "", CHOICE, TODAY).state
    assert _recipe_state.with_change(state, first, sources()).changed_since_last_run == ""
    write_json(first.path / "gate.json", {"sources": list(sources())})
    assert _recipe_state.with_change(state, second, sources()).changed_since_last_run == ""
    write_json(second.path / "gate.json", json.loads(json.dumps({"sources": sources()})))
    path.write_text(path.read_text().replace("0.27.1", "0.27.2"))
    changed = _recipe_state.with_change(state, third, sources()).changed_since_last_run
    assert changed == f"the recipe changed since the last run: {path} (against run-002)"
    for damaged in ("[", "[]"):
        (second.path / "gate.json").write_text(damaged)
        told = _recipe_state.with_change(state, third, sources()).changed_since_last_run
        assert told.startswith(f"whether the recipe changed is not known: {second.path / 'gate.json'}")


def test_the_age_of_the_pin_counts_from_the_day_of_the_check() -> None:
    later = TODAY + datetime.timedelta(days=20)
    assert _recipe_state.hold("kimi-k3", "", CHOICE, later).state.pin_age_days == 20


def test_fact_helper_is_in_the_form_of_the_documents() -> None:
    assert set(fact(1)) == {"value", "outcome", "source", "message"}


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"skipped": True}, "skipped"),
        ({"failed": True, "msg": "no engine"}, "error"),
        ({"unreachable": True, "msg": "no route"}, "error"),
    ],
)
def test_a_probe_that_was_asked_for_and_gave_nothing_is_no_probe_that_was_not_asked(
    result: dict[str, Any], outcome: str
) -> None:
    host = _live.live_host("n1", left(probe=result), "/repro/run-001", True)
    assert host.fact("probe_cuda").outcome == outcome
