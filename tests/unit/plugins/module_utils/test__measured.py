# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import OUTCOMES, Probe


def test_a_fact_in_a_document_has_always_the_same_four_fields() -> None:
    assert Measured(8, source="NVML").as_dict() == {
        "value": 8,
        "outcome": "ok",
        "source": "NVML",
        "message": "",
    }


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome != "ok"])
def test_t1_an_answer_that_is_not_ok_is_never_a_value_alone(outcome: str) -> None:
    fact = _measured.from_probe(Probe("smi", outcome, [1], message="why"), len)
    assert (fact.value, fact.outcome, fact.message, fact.ok) == (1, outcome, "why", False)


def test_what_an_answer_does_not_tell_is_absent() -> None:
    fact = _measured.from_probe(Probe("smi", "ok", {}, source="nvidia-smi"), lambda value: value.get("x"))
    assert (fact.value, fact.outcome, fact.message) == (None, "absent", "nvidia-smi does not tell it")


def test_t47_what_was_not_asked_is_told_from_what_is_missing() -> None:
    assert _measured.from_probe(None, name="gpu.nvml").outcome == "skipped"


@pytest.mark.parametrize("zero", [0, False, [], ""])
def test_nothing_found_is_a_value(zero: Any) -> None:
    assert _measured.from_probe(Probe("x", "ok", zero)).ok


def test_the_first_measured_fact_is_taken_else_the_most_telling_one() -> None:
    absent, late, good = Measured(None, "absent"), Measured(None, "timeout"), Measured(1)
    assert _measured.first_ok(absent, late, good) is good
    assert _measured.first_ok(absent, late) is late
    assert _measured.first_ok(absent, Measured(None, "skipped")) is absent


def test_a_document_is_made_plain_at_every_depth() -> None:
    document = {"a": [Measured({"b": Measured(1)})], 2: (Measured(None, "absent"),)}
    plain = _measured.plain(document)
    assert plain["a"][0]["value"]["b"]["value"] == 1
    assert plain["2"][0]["outcome"] == "absent"
