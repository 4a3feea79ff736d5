# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the collection says about itself in several places is the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baseline.tests.unit._checkout import ROOT, documentation, files, modules

FRAGMENT = "gpufleet.baseline._attributes"


def load(path: Path | str) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_action_group_has_every_module() -> None:
    assert load("meta/runtime.yml")["action_groups"]["all"] == sorted(path.stem for path in modules())


@pytest.mark.parametrize("path", [str(path) for path in modules()])
def test_module_documents_its_attributes(path: str) -> None:
    told = yaml.safe_load(documentation(Path(path))["DOCUMENTATION"])
    fragments = told["extends_documentation_fragment"]
    assert {FRAGMENT, f"{FRAGMENT}.actiongroup_all"} <= set(fragments)
    if f"{FRAGMENT}.info_module" not in fragments:
        assert {"check_mode", "diff_mode", "idempotent"} <= set(told["attributes"])
    assert told["version_added"] in {"0.1.0", load("galaxy.yml")["version"]}
    assert set(documentation(Path(path))) == {"DOCUMENTATION", "EXAMPLES", "RETURN"}


def role_specs() -> list[Path]:
    return [path for path in files("roles") if path.match("roles/*/meta/argument_specs.yml")]


@pytest.mark.parametrize("path", [str(path) for path in role_specs()])
def test_role_says_each_default_once(path: str) -> None:
    role = Path(path).parents[1]
    options = load(path)["argument_specs"]["main"].get("options", {})
    defaults = load(role / "defaults/main.yml") or {} if (ROOT / role / "defaults/main.yml").exists() else {}
    assert set(defaults) <= set(options), "a default that the argument spec does not have"
    told = {name: option["default"] for name, option in options.items() if "default" in option}
    # A default that is a template can't be told as a value.
    plain = {name: value for name, value in defaults.items() if "{{" not in str(value)}
    assert told == plain


def test_every_role_has_an_argument_spec() -> None:
    roles = {path.parts[1] for path in files("roles")}
    assert roles == {path.parts[1] for path in role_specs()}


def plays() -> list[tuple[str, dict[str, Any]]]:
    playbooks = [
        path for path in files("playbooks") if path.parent == Path("playbooks") and path.suffix == ".yml"
    ]
    return [(str(path), play) for path in playbooks for play in load(path)]


def test_t13_no_play_gathers_facts() -> None:
    found = plays()
    assert found, "expected playbooks"
    for path, play in found:
        if "import_playbook" not in play and "ansible.builtin.import_playbook" not in play:
            assert play.get("gather_facts") is False, f"{path}: {play.get('name')} gathers facts"


def test_t13_no_role_gathers_facts() -> None:
    task_files = [path for path in files("roles", "playbooks") if path.suffix == ".yml"]
    gathering = [str(path) for path in task_files if "setup:" in (ROOT / path).read_text("utf-8").split()]
    assert not gathering
    assert not [
        str(path) for path in task_files if "ansible.builtin.setup" in (ROOT / path).read_text("utf-8")
    ]


def test_collection_needs_no_galaxy_server() -> None:
    assert load("galaxy.yml")["dependencies"] == {}
    asked = [path for path in files() if path.name in {"requirements.yml", "requirements.yaml"}]
    assert not asked
