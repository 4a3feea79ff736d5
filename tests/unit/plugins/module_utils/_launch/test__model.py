# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch document: what is read is what was written; bad input names its key."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    ContainerOptions,
    Gpus,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Image,
    Launch,
    ProcessOptions,
    Topology,
)

from .launches import IMAGE
from .launches import make_launch as launch
from .launches import make_rank as rank


@pytest.mark.parametrize(
    "made",
    [
        launch(),
        launch(
            engine="process",
            image=None,
            ranks=(rank(container=None, process=ProcessOptions("/venv/bin/vllm", "/srv")),),
        ),
        launch(ranks=(rank(container=ContainerOptions(entrypoint=(), gpus=Gpus("none", ()))),)),
    ],
    ids=["docker", "process", "entrypoint"],
)
def test_what_is_read_is_what_was_written(made: Launch) -> None:
    assert Launch.from_dict(made.as_dict()).as_dict() == made.as_dict()


@pytest.mark.parametrize(
    ("place", "value", "named"),
    [
        ("schema", "other/1", "schema"),
        ("engine", "podman", "engine"),
        ("extra", 1, "extra"),
        ("image", None, "image"),
        ("image", {"reference": "", "id": ""}, "image.reference"),
        ("diagnostics", "all", "diagnostics"),
        ("ranks", [], "ranks"),
        ("ranks", {}, "ranks"),
        ("ranks.0.argv", "vllm serve", r"ranks\[0\]\.argv"),
        ("ranks.0.argv", [], r"ranks\[0\]\.argv"),
        ("ranks.1.node_rank", 0, "node_rank once"),
        ("ranks.1.node_rank", True, r"ranks\[1\]\.node_rank"),
        ("ranks.1.role", "leader", r"ranks\[1\]\.role"),
        ("ranks.0.env", {"A": 1}, r"ranks\[0\]\.env\.A"),
        ("ranks.0.env", {"A": {"secret": 1}}, r"ranks\[0\]\.env\.A\.secret"),
        ("ranks.0.env", {"A": {"value": "x"}}, r"ranks\[0\]\.env\.A"),
        ("ranks.0.container", None, r"ranks\[0\]"),
        ("ranks.0.container.shm_size", "1g", r"ranks\[0\]\.container\.shm_size"),
        ("ranks.0.container.ulimits", {"memlock": "-1"}, r"container\.ulimits\.memlock"),
        ("ranks.0.container.gpus", {"how": "request", "ids": []}, r"container\.gpus\.ids"),
        ("ranks.0.container.gpus", {"how": "none", "ids": ["all"]}, r"container\.gpus\.ids"),
        ("ranks.0.container.mounts", [{"source": "/a"}], r"mounts\[0\]\.target"),
        ("topology.gpus", -1, r"topology\.gpus"),
    ],
)
def test_bad_input_names_its_key(place: str, value: object, named: str) -> None:
    document = launch().as_dict()
    part = document
    *way, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    for key in way:
        part = part[key]
    part[last] = value
    with pytest.raises(BaselineError, match=named) as raised:
        Launch.from_dict(document, "run-001/launch.json")
    assert str(raised.value).startswith("run-001/launch.json: ")


@pytest.mark.parametrize("document", [None, [], "text", {}])
def test_what_is_no_launch_is_told(document: object) -> None:
    with pytest.raises(BaselineError, match="schema"):
        Launch.from_dict(document)


def test_the_same_launch_of_another_run_has_the_same_digest() -> None:
    other = [replace(r, container=replace(r.container, name=f"gpufleet-run-002-{r.node_rank}"))
             for r in launch().ranks]  # fmt: skip
    same = launch(name="frozen", notes=(), source={}, left_out=(), overrides={"env": {}}, ranks=tuple(other))
    assert same.sha256() == launch().sha256()


@pytest.mark.parametrize(
    "changed",
    [
        launch(image=Image(IMAGE.reference, "sha256:" + "b" * 64)),
        launch(ranks=(rank(0), rank(1, env={}))),
        launch(ranks=(rank(0), rank(1, argv=("vllm", "serve")))),
        launch(ranks=(rank(0), rank(1, host="tray7"))),
        launch(diagnostics="logs"),
        launch(topology=Topology(2, 8, 4)),
    ],
)
def test_another_launch_has_another_digest(changed: Launch) -> None:
    assert changed.sha256() != launch().sha256()


def test_ranks_of_a_host() -> None:
    assert [found.node_rank for found in launch().ranks_of("tray1")] == [1]
    assert launch().ranks_of("elsewhere") == ()


def test_a_kept_document_has_its_digest_and_is_refused_when_it_was_changed() -> None:
    document = {**launch().document(), "command": "docker run"}
    assert Launch.from_dict(document).sha256() == document["sha256"]
    document["ranks"][0]["env"]["NCCL_DEBUG"] = "INFO"
    with pytest.raises(BaselineError, match="digest"):
        Launch.from_dict(document)
