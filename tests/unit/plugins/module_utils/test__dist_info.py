# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions are read from files, wherever a start would look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree
from ansible_collections.gpufleet.baseline.plugins.module_utils._dist_info import (
    assignments,
    cuda_versions,
    metadata_headers,
    named_versions,
    normal_name,
    python_prefixes,
    read_versions,
    version_paths,
)
from hypothesis import given
from hypothesis import strategies as st


def distribution(packages: Path, directory: str, metadata: str = "", name: str = "METADATA") -> None:
    (packages / directory).mkdir(parents=True)
    if metadata:
        (packages / directory / name).write_text(metadata)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    found = tmp_path / "opt" / "venv" / "lib" / "python3.12" / "site-packages"
    distribution(
        found, "vllm-0.27.1.dist-info", "Metadata-Version: 2.4\nName: vllm\nVersion: 0.27.1\n\nName: no\n"
    )
    distribution(found, "nvidia_nccl_cu13-2.28.9.dist-info", "Name: nvidia-nccl-cu13\nVersion: 2.28.9\n")
    distribution(found, "old-1.0.egg-info", "Name: old\nVersion: 1.0\n", "PKG-INFO")
    distribution(found, "broken-3.1.dist-info")
    (found / "single-2.0.egg-info").write_text("Name: single\nVersion: 2.0\n")
    (found / "torch").mkdir()
    (found / "torch" / "version.py").write_text(
        "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n"
    )
    return found


def read(tmp_path: Path, environment: dict[str, str] | None = None, *argv: str) -> dict[str, Any]:
    return read_versions(FileTree([str(tmp_path)]), environment or {}, argv)


def test_every_kind_of_record_is_read(tmp_path: Path, packages: Path) -> None:
    value = read(tmp_path)
    versions = {record["name"]: record["version"] for record in value["distributions"]}
    assert versions == {
        "vllm": "0.27.1",
        "nvidia-nccl-cu13": "2.28.9",
        "old": "1.0",
        "broken": "3.1",
        "single": "2.0",
    }
    (broken,) = [record for record in value["distributions"] if record["name"] == "broken"]
    assert broken["message"] == "no metadata; from the file's name"
    assert value["version_files"]["torch"]["cuda"] == "13.0"


@pytest.mark.parametrize(
    ("environment", "argv"),
    [
        ({"VIRTUAL_ENV": "/srv/env"}, ()),
        ({"PATH": "/srv/env/bin:/usr/bin"}, ()),
        ({}, ("/srv/env/bin/python3", "/x")),
        ({}, ("/usr/bin/python3", "/srv/env/bin/vllm")),
        ({"PYTHONPATH": "/srv/env/lib/python3.11/site-packages"}, ()),
    ],
)
def test_the_environment_of_the_start_is_followed(
    tmp_path: Path, environment: dict[str, str], argv: tuple[str, ...]
) -> None:
    distribution(tmp_path / "srv/env/lib/python3.11/site-packages", "a-1.dist-info", "Name: a\nVersion: 1\n")
    assert [record["name"] for record in read(tmp_path, environment, *argv)["distributions"]] == ["a"]


def test_a_directory_reached_by_two_names_is_read_once(tmp_path: Path, packages: Path) -> None:
    (tmp_path / "venv").symlink_to("opt/venv")
    value = read(tmp_path, {"VIRTUAL_ENV": "/venv"})
    assert value["directories"] == ["/opt/venv/lib/python3.12/site-packages"]


def test_two_copies_of_one_distribution_are_both_told(tmp_path: Path, packages: Path) -> None:
    other = tmp_path / "usr/local/lib/python3.12/dist-packages"
    distribution(other, "nvidia_nccl_cu12-2.26.2.dist-info", "Name: nvidia_nccl.cu12\nVersion: 2.26.2\n")
    assert named_versions(read(tmp_path))["nccl"] == ["2.26.2", "2.28.9"]


def test_a_revision_that_was_installed_from_is_kept(tmp_path: Path, packages: Path) -> None:
    origin = packages / "vllm-0.27.1.dist-info" / "direct_url.json"
    origin.write_text('{"url": "https://x", "vcs_info": {"commit_id": "abc"}}')
    records = {record["name"]: record for record in read(tmp_path)["distributions"]}
    assert records["vllm"]["origin"]["vcs_info"]["commit_id"] == "abc"
    assert records["old"]["origin"] == {}


def test_t48_each_cuda_version_has_a_name_of_its_own(tmp_path: Path, packages: Path) -> None:
    distribution(
        packages, "nvidia_cuda_runtime-13.0.96.dist-info", "Name: nvidia-cuda-runtime\nVersion: 13.0.96\n"
    )
    distribution(packages, "nvidia_cuda_nvcc-13.3.1.dist-info", "Name: nvidia-cuda-nvcc\nVersion: 13.3.1\n")
    environment = {"CUDA_VERSION": "13.2.0", "NVIDIA_REQUIRE_CUDA": "cuda>=13.2"}
    assert cuda_versions(read(tmp_path), environment) == {
        "image_cuda_version": "13.2.0",
        "image_requires": "cuda>=13.2",
        "torch_build": "13.0",
        "torch_local_version": None,
        "cudart_distribution": ["13.0.96"],
        "nvcc_distribution": ["13.3.1"],
        "nvrtc_distribution": None,
    }


def test_version_files_as_the_projects_write_them() -> None:
    text = (
        b"# file generated\nversion: str\n__all__ = ['a']\n__version__ = version = '0.32.0'\n"
        b'__version_tuple__ = version_tuple = (0, 32, 0)\ncuda: Optional[str] = None\nhip = "6.4"\n'
        b"__commit_id__ = commit_id = None\n"
    )
    assert assignments(text) == {
        "__version__": "0.32.0",
        "version": "0.32.0",
        "cuda": None,
        "hip": "6.4",
        "__commit_id__": None,
        "commit_id": None,
    }


def test_prefixes_begin_with_those_of_the_start() -> None:
    found = python_prefixes({"VIRTUAL_ENV": "/a", "PATH": "/b/bin:/c/sbin:relative/bin"}, ["/d/bin/vllm"])
    assert found[:3] == ["/a", "/d", "/b"]
    assert "/usr/local" in found


def test_paths_for_the_engines_archive_are_single_files() -> None:
    paths = version_paths({"PATH": "/usr/local/bin:/usr/bin"})
    assert ("vllm", "/usr/local/lib/python3.12/dist-packages/vllm/_version.py") in paths
    assert all(path.endswith(".py") for _name, path in paths)
    assert len(paths) <= 100


@pytest.mark.parametrize("name", ["Flash_Attn", "flash.attn", "flash--attn"])
def test_names_are_compared_in_one_form(name: str) -> None:
    assert normal_name(name) == "flash-attn"


@given(st.binary(max_size=400))
def test_no_content_is_an_error(content: bytes) -> None:
    metadata_headers(content)
    assignments(content)


def test_a_long_line_costs_no_time_that_grows_with_its_square() -> None:
    assert assignments(b"a:" + b" " * 60000 + b"b") == {}
