# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model is identified by its small files, its revision and the names and sizes of its shards."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import find_engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._model_identity import (
    hub_cache,
    model_identity,
    wanted_models,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure

REVISION = "0893e1606ff3d5f97a441f405d5fc541a6bdf404"
BLOB = "a" * 64


def identify(
    root: Path, name: str, environment: dict[str, str] | None = None, **options: str
) -> dict[str, Any]:
    reading = model_identity(FileTree([str(root)]), name, environment or {}, "/root", "/work", options)
    value: dict[str, Any] = reading.value
    return value


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """The hub's cache with one snapshot: links into blobs, one of them missing."""
    repository = tmp_path / "root/.cache/huggingface/hub/models--moonshotai--Kimi-K3"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    (repository / "blobs" / BLOB).write_bytes(b"weights")
    (repository / "blobs" / "config").write_text('{"model_type": "kimi_k3"}')
    (snapshot / "config.json").symlink_to("../../blobs/config")
    (snapshot / "model-00001-of-00002.safetensors").symlink_to(f"../../blobs/{BLOB}")
    (snapshot / "model-00002-of-00002.safetensors").symlink_to("../../blobs/" + "b" * 64)
    index = {"metadata": {"total_size": 14}, "weight_map": {}}
    index["weight_map"] = {key: f"model-0000{key}-of-00002.safetensors" for key in "12"}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "modeling_kimi.py").write_text("print('remote code')")
    return tmp_path


def test_a_snapshot_of_the_hub(hub: Path) -> None:
    value = identify(hub, "moonshotai/Kimi-K3")
    assert value["revision"] == REVISION
    assert value["found_by"] == "snapshot in the hub's cache"
    assert value["files"]["config.json"]["sha256"] == hashlib.sha256(b'{"model_type": "kimi_k3"}').hexdigest()
    assert set(value["files"]) == {"config.json", "model.safetensors.index.json", "modeling_kimi.py"}
    assert value["shards"] == {"model-00001-of-00002.safetensors": {"bytes": 7, "blob": BLOB}}
    assert value["index"] == {
        "name": "model.safetensors.index.json",
        "shards": 2,
        "missing": ["model-00002-of-00002.safetensors"],
        "total_size": 14,
    }
    assert len(value["unread"]) == 1
    assert value["shard_bytes"] == 7


def test_a_given_revision_is_looked_up_and_no_other(hub: Path) -> None:
    assert identify(hub, "moonshotai/Kimi-K3", revision=REVISION)["revision"] == REVISION
    with pytest.raises(ProbeFailure) as caught:
        identify(hub, "moonshotai/Kimi-K3", revision="f" * 40)
    assert caught.value.reading.outcome == "absent"


def test_without_a_reference_the_only_snapshot_is_taken(hub: Path) -> None:
    (hub / "root/.cache/huggingface/hub/models--moonshotai--Kimi-K3/refs/main").unlink()
    assert identify(hub, "moonshotai/Kimi-K3")["revision"] == REVISION


def test_a_directory_has_no_revision(tmp_path: Path) -> None:
    (tmp_path / "models" / "k3").mkdir(parents=True)
    (tmp_path / "models" / "k3" / "config.json").write_text("{}")
    value = identify(tmp_path, "/models/k3")
    assert (value["path"], value["revision"], value["index"]) == ("/models/k3", None, None)


def test_a_relative_path_is_one_of_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "work" / "k3").mkdir(parents=True)
    assert identify(tmp_path, "./k3")["path"] == "/work/k3"


def test_a_model_that_is_nowhere_is_absent_and_says_where_it_was_sought(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(ProbeFailure) as caught:
        identify(tmp_path, "moonshotai/Kimi-K3", {"HF_HOME": "/hf"})
    assert (
        caught.value.reading.message == "moonshotai/Kimi-K3: neither a path nor in the hub's cache (/hf/hub)"
    )


def test_an_index_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.safetensors.index.json").write_text("{half")
    assert identify(tmp_path, "/m")["index"]["why"].startswith("cannot be read")


def test_a_single_file_is_hashed(tmp_path: Path) -> None:
    (tmp_path / "chat.jinja").write_text("x")
    assert identify(tmp_path, "/chat.jinja")["sha256"] == hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({}, "/root/.cache/huggingface/hub"),
        ({"HF_HOME": "/h"}, "/h/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, "/c"),
        ({"HUGGINGFACE_HUB_CACHE": "/o"}, "/o"),
    ],
)
def test_the_hubs_cache(environment: dict[str, str], path: str) -> None:
    assert hub_cache(environment, "/root") == path


def test_all_models_of_a_command_line() -> None:
    command = find_engine(
        [
            "vllm",
            "serve",
            "M",
            "--tokenizer",
            "T",
            "--speculative-config",
            '{"model": "D"}',
            "--chat-template",
            "/c",
        ]
    )
    assert command is not None
    assert wanted_models(command) == [
        ("model", "M"),
        ("tokenizer", "T"),
        ("chat_template", "/c"),
        ("speculative_config", "D"),
    ]


def test_a_model_that_is_also_the_tokenizer_is_asked_once() -> None:
    command = find_engine(["vllm", "serve", "M", "--tokenizer", "M", "--speculative-config", "not json"])
    assert command is not None
    assert wanted_models(command) == [("model", "M")]
