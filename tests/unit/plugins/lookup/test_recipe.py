# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup is a thin face of the recipe reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECIPES = Path(__file__).parents[3] / "fixtures" / "recipes"
MODEL = str(RECIPES / "models/example/Model.yaml")

# In a process of its own, for the loader changes how the collection is imported.
ASK = """
import json, sys
from ansible.errors import AnsibleLookupError
from ansible.plugins.loader import init_plugin_loader, lookup_loader
init_plugin_loader()
answers = []
for terms, options in json.load(sys.stdin):
    try:
        answers.append(lookup_loader.get("gpufleet.baseline.recipe").run(terms, variables={}, **options))
    except AnsibleLookupError as error:
        answers.append("refused: " + str(error))
print(json.dumps(answers))
"""

WRONG: list[list[Any]] = [[], [""], ["/no/such/recipe.yaml"], [None], [["a"]], ["pinned:"], ["pinned:other"]]


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    questions = [
        ([str(RECIPES / "api/example/Model.json")], {"hardware": "gb300", "strategy": "multi_node_tp"}),
        (["pinned:kimi-k3"], {"hardware": "b300"}),
        ([MODEL], {"variant": "large"}),
        *((terms, {}) for terms in WRONG),
    ]
    done = subprocess.run(
        [sys.executable, "-c", ASK], input=json.dumps(questions), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_fixed_form_of_the_answer(answers: list[Any]) -> None:
    (recipe,) = answers[0]
    assert set(recipe) == {"boundary", "launch", "source"}
    assert {"image", "node_count", "ranks"} <= set(recipe["launch"])
    assert [set(rank) for rank in recipe["launch"]["ranks"]] == [{"role", "argv", "env"}] * 2


def test_pinned_boundary(answers: list[Any]) -> None:
    (recipe,) = answers[1]
    assert recipe["boundary"]["gpu_model"] == "b300"
    assert recipe["launch"]["node_count"] == 1
    assert recipe["source"]["checked"] == "2026-11-30"


def test_t28_an_unknown_choice_is_an_error(answers: list[Any]) -> None:
    assert "expected as variant one of default, small; found large" in answers[2]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_t28_wrong_terms_are_errors(answers: list[Any], number: int) -> None:
    assert str(answers[3 + number]).startswith("refused: recipe: "), WRONG[number]
