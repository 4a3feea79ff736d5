# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Official recipes are read as they are; what is missing, empty, foreign or malformed is an error (T28)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe import Recipe, read_recipe

FIXTURES = Path(__file__).parents[3] / "fixtures" / "recipes"
YAML = FIXTURES / "models/example/Model.yaml"
JSON = FIXTURES / "api/example/Model.json"


def read(path: Path, *choice: str) -> Recipe:
    return read_recipe(str(path), Choice(*choice))


def refused(path: Path, *choice: str) -> str:
    with pytest.raises(BaselineError) as caught:
        read(path, *choice)
    return str(caught.value)


def test_yaml_gives_boundary_and_no_launch() -> None:
    recipe = read(YAML, "gb300", "multi_node_tp")
    told = recipe.as_dict()
    assert told["launch"] is None
    boundary = told["boundary"]
    limits = {
        "driver_branch": 580,
        "cuda": "13.0",
        "image": "vllm/vllm-openai:model",
        "vllm": "0.27.1",
        "gpu_model": "gb300",
        "gpu_count": 8,
        "memory_gb": 1680,
        "hosts": 2,
    }
    assert {name: boundary[name] for name in limits} == limits
    assert boundary["sources"]["driver_branch"]["how"] == "prose"
    assert boundary["sources"]["driver_branch"]["where"] == "model.install.docker.note"
    assert boundary["sources"]["vllm"] == {"how": "field", "where": "model.min_vllm_version", "text": ""}
    assert boundary["dates"] == {"date_updated": "2026-08-15"}
    assert boundary["features"]["drafts"]["opt_in"] is True
    assert boundary["features"]["reasoning"]["opt_in"] is False
    assert [file["location"].rpartition("/")[2] for file in told["source"]["files"]] == [
        "Model.yaml",
        "taxonomy.yaml",
    ]
    assert len(told["source"]["sha256"]) == 64


def test_hosts_and_gpus_follow_from_memory_where_the_text_names_other_gpus() -> None:
    boundary = read(YAML, "gb200", "multi_node_tp").boundary
    assert boundary.value("gpu_count") == 9  # 1680 GB / 192 GB
    assert boundary.value("hosts") == 3
    assert "the recipe calls gb200 testing, not verified" in boundary.notes


def test_variant_has_its_own_memory_model_and_version() -> None:
    boundary = read(YAML, "gb300", "multi_node_tp", "small").boundary
    assert (boundary.model, boundary.value("memory_gb"), boundary.value("vllm")) == (
        "example/Model-Small",
        400,
        "0.28.0",
    )


def test_what_a_recipe_does_not_state_has_no_value(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text("model: {model_id: a/b}\nvariants: {default: {}}\n")
    boundary = read(path).as_dict()["boundary"]
    assert [
        boundary[name] for name in ("driver_branch", "cuda", "image", "vllm", "gpu_count", "memory_gb")
    ] == [None] * 6
    assert boundary["sources"]["cuda"]["how"] == "not stated"


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (("gb999", ""), ["hardware", "gb300", "gb999"]),
        (("gb300", "multi_node_magic"), ["strategy for gb300", "multi_node_tp_dp", "multi_node_magic"]),
        (("h200", "multi_node_dep"), ["strategy for h200", "multi_node_dep"]),
        (("gb300", "multi_node_tp", "large"), ["variant", "default, small", "large"]),
    ],
)
def test_t28_unknown_choice_is_an_error(choice: tuple[str, ...], words: list[str]) -> None:
    message = refused(YAML, *choice)
    assert all(word in message for word in words), message


def test_json_follows_the_links_of_the_site() -> None:
    told = read(JSON, "gb300", "multi_node_tp").as_dict()
    launch = told["launch"]
    assert launch["image"] == "vllm/vllm-openai:latest"
    assert launch["node_count"] == 2
    assert [rank["role"] for rank in launch["ranks"]] == ["head", "worker"]
    assert launch["ranks"][1]["argv"][-1] == "--headless"
    # A process gets texts, also where the site publishes a number.
    assert launch["ranks"][0]["env"] == {"NCCL_SOCKET_IFNAME": "$IFACE_NAME", "PYTHONHASHSEED": "0"}
    assert launch["placeholders"] == ["HEAD_IP", "IFACE_NAME"]
    assert launch["gpus"] == 8
    assert told["boundary"]["driver_branch"] == 580
    assert told["boundary"]["hosts"] == 2


def test_json_of_a_launch_finds_its_model() -> None:
    recipe = read(JSON.parent / "Model/hw/gb300/strategies/pd_cluster.json")
    assert recipe.launch is not None
    assert [rank.role for rank in recipe.launch.ranks] == ["prefill", "decode"]
    assert (recipe.launch.hosts, recipe.launch.gpus) == (6, 24)
    assert recipe.launch.ranks[0].env == {"A": "1"}
    assert recipe.boundary.value("driver_branch") == 580


def test_json_without_a_choice_is_what_the_recipe_recommends() -> None:
    recipe = read(JSON)
    assert recipe.boundary.choice == Choice("h200", "single_node_tp", "default")
    # By the recipe's own numbers one host of 1128 GB is too small for 1680 GB.
    assert [note for note in recipe.notes if "need 2" in note]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (("b300", ""), ["hardware", "h200, gb300", "b300"]),
        (("gb300", "multi_node_dep"), ["strategy for gb300", "multi_node_tp, pd_cluster", "multi_node_dep"]),
        (("gb300", "", "large"), ["variant", "default, small"]),
        (("gb300", "", "small"), ["Model-Small.json", "No such file"]),
    ],
)
def test_t28_what_is_not_published_is_an_error(choice: tuple[str, ...], words: list[str]) -> None:
    message = refused(JSON, *choice)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "found an empty file"),
        ("  \n\n", "found an empty file"),
        ("just a text", "found str"),
        ("- a\n- b\n", "found list"),
        ("[]", "found list"),
        ("{", "expected a recipe in YAML or JSON"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "a key twice"),
        ("model: {}\nmodel: {}\n", "the key model twice"),
        ("a: *nothing\n", "expected a recipe in YAML or JSON"),
        ("kind: Deployment\nmetadata: {}\n", "found neither"),
        ("model: {model_id: a/b}\nvariants: {}\n", "expected as variant one of ; found default"),
        ("model: {model_id: [1]}\nvariants: {default: {}}\n", "expected a text at model.model_id"),
        ("model: {}\nvariants: {default: {}}\n", "expected a text at model.model_id, found nothing"),
        (
            "model: {model_id: a, min_vllm_version: soon}\nvariants: {default: {}}\n",
            "expected a version at model.min_vllm_version",
        ),
        (
            "model: {model_id: a}\nvariants: {default: {vram_minimum_gb: much}}\n",
            "expected a number at variants.default.vram_minimum_gb, found str 'much'",
        ),
        (
            "model: {model_id: a}\nvariants: {default: {vram_minimum_gb: .nan}}\n",
            "expected a number at variants.default.vram_minimum_gb",
        ),
        (
            "model: {model_id: a}\nvariants: {default: {}}\nmeta: {hardware: [x]}\n",
            "expected a mapping at meta.hardware",
        ),
    ],
)  # fmt: skip
def test_t28_empty_foreign_or_malformed_is_an_error(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "recipe"
    path.write_text(content)
    message = refused(path)
    assert words in message
    assert "\n" not in message


def test_t28_binary_missing_and_directory_are_errors(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x80\x81\x00")
    assert "expected a recipe in YAML or JSON" in refused(tmp_path / "binary")
    assert "No such file" in refused(tmp_path / "missing.yaml")
    assert "Is a directory" in refused(tmp_path)
    with pytest.raises(BaselineError, match="found an empty text"):
        read_recipe(" ", Choice())
    with pytest.raises(BaselineError, match="found the scheme ftp"):
        read_recipe("ftp://example.org/recipe.yaml", Choice())


def published(tmp_path: Path, change: dict[str, Any]) -> Path:
    """A copy of the published files in which one launch is changed."""
    shutil.copytree(JSON.parent.parent, tmp_path / "api")
    path = tmp_path / "api/example/Model/hw/gb300/strategies/multi_node_tp.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node_count": 3}, "expected one argv for each of 2 hosts at node_count, found int '3'"),
        ({"node_count": 0}, "expected a number of hosts at node_count"),
        ({"node_count": 10**9}, "expected a number at node_count"),
        ({"head_argv": []}, "expected the words of a command at head_argv"),
        ({"head_argv": "vllm serve"}, "expected a list of texts at head_argv"),
        ({"worker_argvs": [["vllm", {}]]}, "expected a list of texts at worker_argvs[0]"),
        ({"env": ["A=1"]}, "expected a mapping at env"),
        ({"docker_image": ""}, "expected a text at docker_image"),
        ({"hardware": ""}, "expected a text at hardware"),
    ],
)
def test_t28_malformed_launch_is_an_error(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    assert words in refused(published(tmp_path, change))


def test_a_link_out_of_the_site_is_not_followed(tmp_path: Path) -> None:
    shutil.copytree(JSON.parent.parent, tmp_path / "api")
    path = tmp_path / "api/example/Model.json"
    model = json.loads(path.read_text())
    for link in ("/../../etc/secret.json", "https://example.org/x.json", "x.json", "/etc/passwd"):
        model["recommended_command"]["by_hardware"]["gb300"] = link
        path.write_text(json.dumps(model))
        assert "expected a link to a JSON file of the site" in refused(path, "gb300")


def test_a_file_at_another_place_than_its_name_has_no_links(tmp_path: Path) -> None:
    shutil.copy(JSON, tmp_path / "other.json")
    assert "ORGANISATION/MODEL.json" in refused(tmp_path / "other.json", "gb300")


def test_all_of_the_official_recipes_are_read(shared: Path) -> None:
    paths = sorted((shared / "recipes/models").rglob("*.yaml")) + sorted(
        (shared / "recipes/api").rglob("*.json")
    )
    assert len(paths) > 300
    for path in paths:
        recipe = read(path)
        document = json.loads(path.read_text()) if path.suffix == ".json" else None
        if document is None:
            assert recipe.launch is None
            continue
        assert recipe.launch is not None
        launch = document.get("recommended_command", document)
        ranks = recipe.launch.as_dict()["ranks"]
        assert recipe.launch.node_count == launch["node_count"]
        assert recipe.launch.image == launch["docker_image"]
        if "argv" in launch:
            assert [rank["argv"] for rank in ranks] == [launch["argv"]]
        elif "head_argv" in launch:
            assert [rank["argv"] for rank in ranks] == [launch["head_argv"], *launch["worker_argvs"]]
            assert ranks[0]["env"] == {key: str(value) for key, value in launch["env"].items()}


def test_kimi_k3_as_its_authors_write_it(shared: Path) -> None:
    boundary = read(shared / "recipes/models/moonshotai/Kimi-K3.yaml", "gb300", "multi_node_tp").boundary
    assert boundary.value("driver_branch") == 580
    # The sentence on an r575 host tells what to do there; it is no floor.
    assert boundary.limit("driver_branch").where == "model.install.docker.note, guide"
    assert (boundary.value("cuda"), boundary.value("image")) == ("13.0", "vllm/vllm-openai:kimi-k3")
    assert (boundary.value("vllm"), boundary.value("gpu_count"), boundary.value("hosts")) == ("0.27.1", 8, 2)


def test_gb200_as_published_does_not_fit_by_its_own_numbers(shared: Path) -> None:
    recipe = read(shared / "recipes/api/moonshotai/Kimi-K3.json", "gb200", "multi_node_tp")
    assert recipe.boundary.value("hosts") == 3
    assert [note for note in recipe.notes if note.startswith("the published launch has 2 hosts")]


BOMB = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BOMB + "model: {model_id: *a8}\nvariants: {default: {}}\n", "aliases that stand for as many"),
        ("model: &a [*a]\nvariants: {}\n", "aliases that stand for as many"),
        ("model:\n  <<: &a {x: *a}\n", "expected a recipe"),
        ("model: {model_id: " + "x" * 1024 * 1024 + "}\n", "more than 1024 KiB of YAML"),
        ("model: " + "[" * 20000, "recursion"),
        ("model: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        ("model: " + "9" * 5000 + "\n", "Exceeds the limit"),
        ("model: 2026-99-99\n", "month must be in"),
        ('{"model": NaN}', "NaN, which is no number in JSON"),
    ],
)
def test_t28_hostile_yaml_and_json_are_errors_in_a_line(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(content)
    with pytest.raises(BaselineError, match=words) as caught:
        read_recipe(str(path), Choice())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
