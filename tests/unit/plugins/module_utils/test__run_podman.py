# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command of a container of Podman, from a recording of Podman 4.3.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_podman import podman_command

RECORDING = Path(__file__).resolve().parents[3] / "fixtures" / "docker" / "podman-4.3.1-inspect.json"
IMAGE = {
    "Config": {
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "NVARCH=x86_64",
            "CUDA_VERSION=13.0.2",
            "NVIDIA_REQUIRE_CUDA=cuda>=13.0",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
            "VLLM_USAGE_SOURCE=production-docker-image",
            "LAB_TIME_FACTOR=0.05",
        ],
        "Entrypoint": ["vllm", "serve"],
        "WorkingDir": "/vllm-workspace",
        "Labels": {
            "maintainer": "the gpufleet.baseline authors",
            "org.opencontainers.image.title": "stand-in for vllm/vllm-openai",
            "org.opencontainers.image.version": "0.32.0",
        },
    }
}


@pytest.fixture
def inspect() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDING.read_text())
    return found


def test_the_command_that_made_it(inspect: dict[str, Any]) -> None:
    made = [
        "podman",
        "--runtime",
        "runc",
        "run",
        "-d",
        "--name",
        "x",
        "-e",
        "HF_TOKEN=hf_canary",
        "--env=B=1 2",
    ]
    made += ["--env=API_TOKEN=canary", "i", "M", "--api-key", "canary"]
    run = podman_command(made, inspect, IMAGE, {})
    assert run.secrets == ["API_KEY", "API_TOKEN", "HF_TOKEN"]
    assert run.text().splitlines()[-2:] == [
        "podman \\",
        (
            "  --runtime runc run -d --name x -e HF_TOKEN '--env=B=1 2' --env=API_TOKEN i M --api-key "
            '"$API_KEY"'
        ),
    ]
    assert inspect["Image"] in run.notes[0]


def test_without_one_it_is_rebuilt_less_what_podman_fills_in(inspect: dict[str, Any]) -> None:
    run = podman_command([], inspect, IMAGE, {"Name": "vm", "DefaultRuntime": ""})
    assert run.words == [
        "podman run",
        "--detach",
        "--name pod-running",
        "--network host",
        "-e HF_TOKEN",
        inspect["Image"],
        "moonshotai/Kimi-K3 -tp 8",
    ]
    assert run.secrets == ["HF_TOKEN"]
    assert "Podman keeps no command" in run.notes[-1]


def test_an_inspect_is_not_changed_by_looking_at_it(inspect: dict[str, Any]) -> None:
    before = json.dumps(inspect)
    podman_command([], inspect, IMAGE, {})
    assert json.dumps(inspect) == before
