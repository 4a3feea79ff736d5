# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _reader
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._analysis import Analysis
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import KERNEL, NOISE
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import TABLE, classify

FIXTURE = Path(__file__).parents[4] / "fixtures" / "logs" / "signature-lines.txt"


def _examples() -> dict[str, str]:
    sections = FIXTURE.read_text(encoding="utf-8").split("\n== ")[1:]
    return {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}


EXAMPLES = _examples()


def _rows_hit(text: str) -> set[str]:
    analysis = Analysis("auto", None)
    for number, line in enumerate(text.splitlines(), 1):
        analysis.feed(number, line.encode())
    analysis.end()
    return {classify(block).row.key for run in analysis.runs for block in run.blocks}


def test_names_of_rows_are_unique() -> None:
    keys = [row.key for row in TABLE]
    assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_every_row_is_hit_by_its_example(row) -> None:
    assert row.key in EXAMPLES, "add an example to " + FIXTURE.name
    assert row.key in _rows_hit(EXAMPLES[row.key])


def test_no_example_without_a_row() -> None:
    assert set(EXAMPLES) <= {row.key for row in TABLE}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.key)
def test_rows_say_where_they_come_from_and_what_to_do(row) -> None:
    assert row.source.startswith("https://")
    assert row.role == NOISE or row.advice.endswith(".")
    assert "max-model-len" not in row.advice
    assert "max_model_len" not in row.advice


@pytest.mark.parametrize("row", [row for row in TABLE if row.where != KERNEL], ids=lambda row: row.key)
def test_fast_reading_stops_at_every_example(row) -> None:
    """While serving, pieces without a telling word are skipped; every failure must hold such a word."""
    if row.role == NOISE or row.stage == "container":
        return  # harmless, or from before the engine serves
    assert any(word in EXAMPLES[row.key].lower().encode() for word in _reader.SERVING_WORDS)
