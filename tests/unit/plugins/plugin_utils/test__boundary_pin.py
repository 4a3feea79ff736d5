# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pinned boundary of Kimi K3 is what the recipe said on its day, launches included."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Boundary, Choice, stricter
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary_pin import Pin, load
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe import read_recipe

OWN = """\
schema: gpufleet.baseline/pinned-boundary/1
name: own
model: a/b
source: {location: "a page", checked: "2026-11-01"}
default: {hardware: h200, strategy: single_node_tp, variant: default}
limits:
  driver_branch: {value: 570, where: a page}
variants: {default: {memory_gb: 250}}
hardware: {h200: {gpus: 2, per_host: 8, strategy: single_node_tp}}
"""


def choices(pin: Pin) -> list[Choice]:
    launches = pin.document.mapping("launches")
    return [pin.choice(hardware, strategy) for hardware, named in launches.items() for strategy in named]


def boundary_of(path: Path) -> Boundary:
    pin = load(str(path))
    return pin.boundary(pin.choice())


def test_kimi_k3_in_short() -> None:
    pin = load("kimi-k3")
    boundary = pin.boundary(pin.choice())
    assert {name: boundary.value(name) for name in boundary.limits} == {
        "driver_branch": 580,
        "cuda": "13.0",
        "image": "vllm/vllm-openai:kimi-k3",
        "vllm": "0.27.1",
        "gpu_model": "gb300",
        "gpu_count": 8,
        "memory_gb": 1680,
        "hosts": 2,
    }
    launch = pin.launch(pin.choice())
    assert launch is not None
    assert (launch.node_count, launch.gpus, launch.image) == (2, 8, "vllm/vllm-openai:kimi-k3")
    assert launch.ranks[1].argv[:3] == ("vllm", "serve", "moonshotai/Kimi-K3")
    assert "--headless" in launch.ranks[1].argv


def test_pin_of_one_hardware_has_its_own_strategy() -> None:
    assert load("kimi-k3").choice("b300") == Choice("b300", "single_node_tp", "default")
    assert load("kimi-k3").choice() == Choice("gb300", "multi_node_tp", "default")


def test_every_pinned_launch_is_the_published_one(shared: Path) -> None:
    pin = load("kimi-k3")
    published = shared / "recipes/api/moonshotai/Kimi-K3.json"
    compared = 0
    for choice in choices(pin):
        launch = pin.launch(choice)
        recipe = read_recipe(str(published), choice)
        assert launch is not None
        assert recipe.launch is not None
        assert launch.ranks == recipe.launch.ranks, choice
        assert (launch.node_count, launch.pools, launch.gpus) == (
            recipe.launch.node_count,
            recipe.launch.pools,
            recipe.launch.gpus,
        )
        _held, differences = stricter(pin.boundary(choice), recipe.boundary)
        assert differences == [], choice
        compared += 1
    assert compared > 25


def test_pin_was_made_from_this_file(shared: Path) -> None:
    pin = load("kimi-k3")
    content = (shared / "recipes/models/moonshotai/Kimi-K3.yaml").read_bytes()
    assert pin.source["sha256"] == hashlib.sha256(content).hexdigest()
    assert pin.source["commit"] in (shared / "recipes/README.md").read_text()


def test_age() -> None:
    pin = load("kimi-k3")
    assert pin.age_days(pin.checked + datetime.timedelta(days=15)) == 15


def test_a_users_own_file(tmp_path: Path) -> None:
    path = tmp_path / "own.yml"
    path.write_text(OWN)
    pin = load(str(path))
    boundary = pin.boundary(pin.choice())
    assert (boundary.value("gpu_count"), boundary.value("hosts"), boundary.value("memory_gb")) == (2, 1, 250)
    assert boundary.value("cuda") is None
    assert pin.launch(pin.choice()) is None


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("pinned-boundary/1", "pinned-boundary/2", "expected gpufleet.baseline/pinned-boundary/1 at schema"),
        ("schema: gpufleet.baseline/pinned-boundary/1\n", "", "at schema, found nothing"),
        ("value: 570", "value: r570", "expected a number at limits.driver_branch.value"),
        ("value: 570", "value: true", "expected a number at limits.driver_branch.value"),
        ('"2026-11-01"', '"last week"', "expected a day such as 2026-11-30 at source.checked"),
        (', checked: "2026-11-01"', "", "expected a text at source.checked, found nothing"),
        ("driver_branch:", "drivr_branch:", "found drivr_branch"),
        ("variants:", "variant:", "found variant"),
        ("gpus: 2, ", "", "expected a number of GPUs at hardware.h200.gpus"),
        ("{hardware: h200,", "{hardware: h999,", "expected as hardware one of h200; found h999"),
    ],
)
def test_t28_a_wrong_pin_is_an_error(tmp_path: Path, before: str, after: str, words: str) -> None:
    path = tmp_path / "own.yml"
    assert before in OWN
    path.write_text(OWN.replace(before, after))
    with pytest.raises(BaselineError) as caught:
        boundary_of(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["", "no-such-model", "/no/such/file.yml"])
def test_t28_a_missing_pin_is_an_error(name: str) -> None:
    with pytest.raises(BaselineError):
        load(name)


def test_t28_unknown_choice_is_an_error() -> None:
    pin = load("kimi-k3")
    with pytest.raises(BaselineError, match="expected as hardware one of gb300"):
        pin.choice("a100")
    with pytest.raises(BaselineError, match="expected as strategy for b300 one of single_node_tp"):
        pin.launch(pin.choice("b300", "multi_node_tp"))
    with pytest.raises(BaselineError, match="expected as variant one of default, nvfp4"):
        pin.boundary(pin.choice("gb300", "", "int4"))


def test_every_shipped_pin_is_read_whole() -> None:
    names = sorted(path.stem for path in _boundary_pin.SHIPPED.glob("*.yml"))
    assert names == ["kimi-k3"]
    for name in names:
        pin = load(name)
        for choice in choices(pin):
            launch = pin.launch(choice)
            assert launch is not None
            assert not [word for rank in launch.ranks for word in rank.argv if word.startswith(("+", "RANK"))]
