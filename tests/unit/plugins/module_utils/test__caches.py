# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile and kernel caches are where the environment of the start puts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _caches
from ansible_collections.gpufleet.baseline.plugins.module_utils._caches import (
    cache_places,
    home_of,
    measure_cache,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure


def places(**environment: str) -> dict[str, tuple[str, str]]:
    return {name: (path, source) for name, path, source in cache_places(environment, "/home/a", "a")}


def test_defaults() -> None:
    assert places() == {
        "triton": ("/home/a/.triton/cache", "default"),
        "inductor": ("/tmp/torchinductor_a", "default"),
        "vllm": ("/home/a/.cache/vllm", "default"),
        "flashinfer": ("/home/a/.cache/flashinfer", "default"),
        "deepgemm": ("/home/a/.cache/vllm/deep_gemm", "default"),
        "cuda": ("/home/a/.nv/ComputeCache", "default"),
        "tilelang": ("/home/a/.tilelang/cache", "default"),
    }


@pytest.mark.parametrize(
    ("name", "environment", "path", "source"),
    [
        ("triton", {"TRITON_CACHE_DIR": "/c"}, "/c", "TRITON_CACHE_DIR"),
        ("triton", {"TRITON_HOME": "/c"}, "/c/.triton/cache", "TRITON_HOME"),
        ("inductor", {"TMPDIR": "/c"}, "/c/torchinductor_a", "default"),
        ("vllm", {"XDG_CACHE_HOME": "/c"}, "/c/vllm", "XDG_CACHE_HOME"),
        ("vllm", {"VLLM_CACHE_ROOT": "~/c/"}, "/home/a/c", "VLLM_CACHE_ROOT"),
        (
            "flashinfer",
            {"FLASHINFER_WORKSPACE_BASE": "/c"},
            "/c/.cache/flashinfer",
            "FLASHINFER_WORKSPACE_BASE",
        ),
        ("deepgemm", {"VLLM_CACHE_ROOT": "/c"}, "/c/deep_gemm", "VLLM_CACHE_ROOT"),
        ("deepgemm", {"DG_JIT_CACHE_DIR": "/c", "VLLM_CACHE_ROOT": "/d"}, "/c", "DG_JIT_CACHE_DIR"),
    ],
)
def test_a_variable_decides(name: str, environment: dict[str, str], path: str, source: str) -> None:
    assert places(**environment)[name] == (path, source)


@pytest.fixture
def tree(tmp_path: Path) -> FileTree:
    (tmp_path / "cache" / "deep").mkdir(parents=True)
    for index in range(5):
        (tmp_path / "cache" / "deep" / str(index)).write_bytes(b"x" * 10)
    (tmp_path / "cache" / "loop").symlink_to(".")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nbob:x:1001:1001::/data/bob:/bin/sh\n"
    )
    return FileTree([str(tmp_path)])


def test_size_and_age(tree: FileTree) -> None:
    value: dict[str, Any] = measure_cache(tree, "/cache").value
    assert value["files"] == 6
    assert value["bytes"] >= 50
    assert value["oldest"] <= value["newest"]
    assert value["complete"] is True


def test_a_walk_that_was_cut_says_so(tree: FileTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_caches, "_FILES_AT_MOST", 3)
    value = measure_cache(tree, "/cache").value
    assert (value["files"], value["complete"]) == (3, False)


def test_a_cache_that_is_not_there_is_absent(tree: FileTree) -> None:
    with pytest.raises(ProbeFailure) as caught:
        measure_cache(tree, "/none")
    assert caught.value.reading.outcome == "absent"


@pytest.mark.parametrize(
    ("user", "environment", "expected"),
    [
        ("", {}, ("/root", "root")),
        ("1001:44", {}, ("/data/bob", "bob")),
        ("bob", {}, ("/data/bob", "bob")),
        ("4242", {}, ("/", "4242")),
        ("0", {"HOME": "/h", "USER": "u"}, ("/h", "u")),
    ],
)
def test_home_of_a_start(
    tree: FileTree, user: str, environment: dict[str, str], expected: tuple[str, str]
) -> None:
    assert home_of(tree, environment, user) == expected
