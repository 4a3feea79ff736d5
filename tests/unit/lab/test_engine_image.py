# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's image looks from outside like vLLM's own, and its containers end as real ones do."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab.docker_cli import DockerError, docker
from ansible_collections.gpufleet.baseline.tests.lab.engine import images
from ansible_collections.gpufleet.baseline.tests.lab.image import ToolMissing
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for

VERSIONS = {"VLLM_VERSION": "0.27.1", "TORCH_VERSION": "2.12.0+cu130"}


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    tag = f"gpufleet-lab/engine:test-{os.getpid()}"
    try:
        docker("version")
    except (DockerError, FileNotFoundError) as problem:
        pytest.skip(f"the stand-in's image is not tested: {str(problem).splitlines()[0]}")
    try:
        images.build_stand_in(tag, VERSIONS)
    except ToolMissing as problem:
        pytest.skip(f"the stand-in's image is not tested: {problem}")
    yield tag
    docker("image", "rm", tag)


@pytest.fixture
def container(image: str) -> Iterator[Callable[..., str]]:
    """Starts containers of the image, under names of its own."""
    names: list[str] = []

    def start(*options: str, **settings: str) -> str:
        names.append(f"gpufleet-lab-image-{os.getpid()}-{len(names)}")
        env = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
        docker("run", "-d", "--name", names[-1], *env, *options, image, "my/model")
        return names[-1]

    yield start
    if names:
        docker("rm", "--force", *names)


def inspect(name: str) -> dict[str, Any]:
    (found,) = json.loads(docker("inspect", name))
    return dict(found)


def member(container: str, path: str) -> str:
    """A file of a container that need not run."""
    copied = subprocess.run(
        ["docker", "cp", f"{container}:{path}", "-"], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(copied)) as tar:
        file = tar.extractfile(tar.getmembers()[0])
        assert file
        return file.read().decode()


def test_the_image_says_what_vllms_says(image: str) -> None:
    config = inspect(image)["Config"]
    env = dict(entry.split("=", 1) for entry in config["Env"])
    assert config["Entrypoint"] == ["vllm", "serve"]
    assert config["WorkingDir"] == "/vllm-workspace"
    assert config["Labels"]["org.opencontainers.image.version"] == "0.27.1"
    assert env["CUDA_VERSION"] == "13.0.2"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert env["VLLM_USAGE_SOURCE"] == "production-docker-image"


def test_a_failed_container_still_tells_its_versions(container: Callable[..., str]) -> None:
    name = container(LAB_SCENARIO="engine-kv-max-len", LAB_TIME_FACTOR="0")
    assert docker("wait", name).strip() == "1"
    packages = "/usr/local/lib/python3.12/dist-packages"
    for folder, line in {
        "vllm-0.27.1": "Name: vllm\nVersion: 0.27.1",
        "torch-2.12.0+cu130": "Name: torch\nVersion: 2.12.0+cu130",
        "nvidia_nccl_cu13-2.28.9": "Name: nvidia-nccl-cu13\nVersion: 2.28.9",
    }.items():
        assert line in member(name, f"{packages}/{folder}.dist-info/METADATA")
    assert "(v0.27.1) with config" in docker("logs", name)
    assert "0.24.0" not in docker("logs", name)


def test_a_container_that_restarts_for_ever(container: Callable[..., str]) -> None:
    name = container("--restart", "always", LAB_SCENARIO="weights-truncated-shard", LAB_TIME_FACTOR="0")
    wait_for(lambda: inspect(name)["RestartCount"] > 1, "the second restart")
    assert inspect(name)["State"]["ExitCode"] == 1


def test_rotated_logs(container: Callable[..., str]) -> None:
    rotate = ["--log-opt", "max-size=100k", "--log-opt", "max-file=3"]
    name = container(*rotate, LAB_LOG_BYTES="1000000", LAB_TIME_FACTOR="0")
    wait_for(lambda: "throughput" in docker("logs", name), "lines of a serving engine")
    wait_for(lambda: "non-default args" not in docker("logs", name), "the beginning to be rotated away")


def test_a_derived_image_has_its_scenario_without_a_variable_in_the_launch(image: str) -> None:
    tag = f"{image}-derived"
    images.derive(tag, {"LAB_SCENARIO": "weights-oom", "LAB_TIME_FACTOR": "0"}, image)
    try:
        with pytest.raises(DockerError, match=r"ended with 1: (.|\n)*Engine core initialization failed"):
            docker("run", "--rm", tag, "my/model")
    finally:
        docker("image", "rm", tag)
