# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch made from what was asked for, and what is shown of it."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import Mount
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Launch
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _launch_plan, _launch_shown
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_place import Place

TODAY = datetime.date(2026, 12, 1)
HOSTS = ("tray-a", "tray-b")
PLACES = [Place(host, f"10.0.0.{number}", "eth0") for number, host in enumerate(HOSTS, 1)]
IDS = dict.fromkeys(HOSTS, "sha256:" + "a" * 64)


def asked(**changes: Any) -> _launch_plan.Asked:
    values = {"name": "minimal", "source": "pinned:kimi-k3", "choice": Choice("gb300"), "hosts": HOSTS,
              "mounts": (Mount("/m", "/root/.cache/huggingface"),), "run": "run-003", **changes}  # fmt: skip
    return _launch_plan.Asked(**values)


def made(ids_known: bool = True, today: datetime.date = TODAY, **changes: Any) -> Launch:
    wanted = asked(**changes)
    return _launch_plan.plan(
        wanted,
        _launch_plan.recipe_of(wanted.source, wanted.choice, today),
        PLACES,
        IDS if ids_known else None,
    )


def test_a_minimal_launch() -> None:
    launch = made()
    assert (launch.name, launch.hardware, launch.strategy) == ("minimal", "gb300", "multi_node_tp")
    assert launch.image is not None
    assert launch.image.id == IDS["tray-a"]
    assert launch.source["asked"] == "pinned:kimi-k3"
    assert launch.source["age_days"] == 1


def test_overrides_are_in_neither_list_of_what_was_left_out() -> None:
    launch = made(overrides={"flags": {"--kv-cache-dtype": "auto", "--max-model-len": 1024}})
    told = {item.variable for item in launch.left_out}
    assert not told & {"--kv-cache-dtype", "--max-model-len"}
    assert "--reasoning-parser" in told


def test_a_variable_that_the_user_takes_out_needs_no_value() -> None:
    gone = {"env": {"NCCL_SOCKET_IFNAME": None, "GLOO_SOCKET_IFNAME": None}}
    wanted = asked(overrides=gone)
    recipe = _launch_plan.recipe_of(wanted.source, wanted.choice, TODAY)
    places = [replace(place, interface="") for place in PLACES]
    assert "NCCL_SOCKET_IFNAME" not in _launch_plan.plan(wanted, recipe, places, IDS).ranks[0].env
    with pytest.raises(BaselineError, match="gpufleet_interface"):
        _launch_plan.plan(asked(), recipe, places, IDS)


def test_an_old_pin_is_a_warning() -> None:
    late = made(today=datetime.date(2027, 1, 1))
    assert any(note.startswith("warning: the pinned recipe was checked 32 days ago") for note in late.notes)
    assert not any(note.startswith("warning") for note in made().notes)


def test_the_json_of_the_site_gives_the_same_launch(shared: Path) -> None:
    live = made(name="official", source=str(shared / "recipes/api/moonshotai/Kimi-K3.json"))
    assert live.sha256() == made(name="official").sha256()


def test_a_recipe_without_a_launch_is_refused(shared: Path) -> None:
    with pytest.raises(BaselineError, match="expected a recipe with a launch"):
        made(source=str(shared / "recipes/models/moonshotai/Kimi-K3.yaml"))


def test_secrets_that_cannot_be_filled_in_are_named_before_a_start() -> None:
    overrides = {"env": {"HF_TOKEN": {"secret": "hub"}}}
    with pytest.raises(BaselineError, match="none for hub"):
        made(overrides=overrides)
    assert made(overrides=overrides, secrets=("hub",)).ranks[0].env["HF_TOKEN"]


def test_diagnostics_are_on_every_rank() -> None:
    assert [rank.env.get("NCCL_DEBUG") for rank in made(diagnostics="nccl").ranks] == ["INFO", "INFO"]


@pytest.mark.parametrize(
    ("variables", "place", "how"),
    [
        (
            {"gpufleet_address": "10.1.1.1", "ansible_host": "10.2.2.2"},
            Place("h", "10.1.1.1"),
            "gpufleet_address",
        ),
        ({"ansible_host": "10.2.2.2"}, Place("h", "10.2.2.2"), "ansible_host"),
        ({"ansible_host": "fd00::1"}, Place("h", "fd00::1"), "ansible_host"),
        ({"ansible_host": "tray.example"}, Place("h"), ""),
        ({"ansible_host": "127.0.0.1"}, Place("h"), ""),
        ({}, Place("h"), ""),
        (
            {"gpufleet_interface": "eth0", "gpufleet_api_port": "9000", "gpufleet_home": "/root"},
            Place("h", "", "eth0", 9000, "/root"),
            "",
        ),
    ],
)
def test_a_host_of_the_inventory(variables: dict[str, Any], place: Place, how: str) -> None:
    assert _launch_plan.place_of("h", variables) == (place, how)


def test_a_port_that_is_none_is_told() -> None:
    with pytest.raises(BaselineError, match="h: expected a number as gpufleet_api_port"):
        _launch_plan.place_of("h", {"gpufleet_api_port": "web"})


@pytest.mark.parametrize("name", ["minimal", "official"])
@pytest.mark.parametrize("model", ["moonshotai/Kimi-K3", "/srv/" + "very-long-" * 14 + "name"])
def test_what_is_shown_fits_and_says_all(name: str, model: str) -> None:
    launch = made(name=name, overrides={"model": model}, diagnostics="logs")
    lines = _launch_shown.render(launch, "run-003", {"tray-a": "10.0.0.1, from ansible_host"})
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    assert f"Launch run-003: {name}, gb300 multi_node_tp, 2 hosts, 8 GPUs" in text
    for part in (
        "# tray-a: rank 0, head, API on port 8000",
        "# tray-b: rank 1, worker, no API",
        "logs: this run counts",
    ):
        assert part in text
    assert ("left out" in text) == (name == "minimal")


def test_an_image_that_nobody_has_looked_for_is_shown_as_such() -> None:
    launch = made(ids_known=False)
    assert "(id not measured)" in "\n".join(_launch_shown.render(launch, "", {}))


def test_commands_of_all_ranks() -> None:
    text = _launch_shown.commands(made())
    assert text.count("docker run") == 2
    assert text.startswith("# tray-a: rank 0")
