# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_table, _nvml_calls, _smi
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_table import Row

CAPTURES = Path(__file__).resolve().parents[3] / "fixtures" / "captures" / "h200"


def of_capture() -> tuple[Dict[str, Any], Dict[str, Any]]:
    xml = _smi.parse_xml((CAPTURES / "smi-q.xml").read_text())["gpus"][0]["facts"]
    query = _smi.parse_query((CAPTURES / "smi-q.txt").read_text())["gpus"][0]["facts"]
    return xml, query


ROWS_OF_BOTH = [row.name for row in _gpu_table.ROWS if row.xml and row.query]


@pytest.mark.parametrize("name", ROWS_OF_BOTH)
def test_the_two_outputs_of_nvidia_smi_give_one_fact(name: str) -> None:
    xml, query = of_capture()
    row = next(row for row in _gpu_table.ROWS if row.name == name)
    from_xml = _gpu_table.read(row, None, xml, None)
    from_query = _gpu_table.read(row, None, None, query)
    assert (from_xml.value, from_xml.outcome) == (from_query.value, from_query.outcome)
    assert from_xml.source != from_query.source


@pytest.mark.parametrize("row", [row for row in _gpu_table.ROWS if row.xml], ids=lambda row: row.name)
def test_every_path_of_the_table_is_in_a_real_capture(row: Row) -> None:
    xml, query = of_capture()
    assert _smi.at(xml, row.xml) is not None
    assert not row.query or _smi.at(query, row.query) is not None


def test_every_fact_of_nvml_in_the_table_is_asked_for() -> None:
    asked = {call.fact for call in _nvml_calls.GPU}
    assert {row.nvml for row in _gpu_table.ROWS if row.nvml} <= asked


def test_names_stand_once() -> None:
    names = [row.name for row in _gpu_table.ROWS]
    assert len(names) == len(set(names))


def answer(value: Any, outcome: str = "ok", message: str = "") -> Dict[str, Any]:
    return {"value": value, "outcome": outcome, "code": 0, "message": message}


ECC = next(row for row in _gpu_table.ROWS if row.name == "ecc")


@pytest.mark.parametrize(
    ("nvml", "xml", "value", "outcome", "source"),
    [
        ({"ecc": answer({"current": True, "pending": False})}, "Disabled", True, "ok", "NVML"),
        ({"ecc": answer(None, "error", "x")}, "Disabled", False, "ok", "nvidia-smi -q -x"),
        ({"ecc": answer(None, "error", "x")}, "N/A", None, "error", "NVML"),
        ({"ecc": answer(None, "absent", "x")}, "ERR!", None, "error", "nvidia-smi -q -x"),
        ({}, "N/A", None, "absent", "NVML"),
        (None, "[Unknown Error]", None, "error", "nvidia-smi -q -x"),
        (None, "Perhaps", None, "error", "nvidia-smi -q -x"),
    ],
)
def test_a_fact_comes_from_the_first_source_that_has_it(
    nvml: Optional[Dict[str, Any]], xml: str, value: Any, outcome: str, source: str
) -> None:
    fact = _gpu_table.read(ECC, nvml, {"ecc_mode": {"current_ecc": xml}}, None)
    assert (fact.value, fact.outcome, fact.source) == (value, outcome, source)


def test_t1_a_gpu_that_no_source_lists_has_no_facts_and_says_so() -> None:
    fact = _gpu_table.read(ECC, None, None, None)
    assert (fact.value, fact.outcome) == (None, "absent")
    assert fact.message


def test_t46_what_changes_by_the_second_stands_apart_from_what_the_gpu_is() -> None:
    sections = _gpu_table.sections(None, *of_capture())
    assert {"temperature", "power_draw", "utilization", "memory_used", "clock_sm"} <= set(sections["now"])
    assert set(sections) == {"identity", "state", "now"}
    assert sections["identity"]["memory_total"].value == 143771 * 1024**2


@pytest.mark.parametrize(("words", "value"), [("5", 5), ("77.72 W", 77.72), ("345 MHz", 345), ("-8 C", -8)])
def test_whole_numbers_stay_whole(words: str, value: float) -> None:
    found = _gpu_table.number(words)
    assert found == value
    assert type(found) is type(value)
