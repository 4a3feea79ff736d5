# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the engine images of the lab, on the lab's own base, with plain `docker build`.

As a program (`python -m ansible_collections.gpufleet.baseline.tests.lab.engine.images [real]`) it builds the
stand-in, and with `real` the image of the real vLLM as well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.gpufleet.baseline.tests.lab import image
from ansible_collections.gpufleet.baseline.tests.lab.docker_cli import docker

HERE = Path(__file__).resolve().parent
STAND_IN = "gpufleet-lab/engine:stand-in"
REAL = "gpufleet-lab/engine:vllm-cpu"


def build_stand_in(tag: str = STAND_IN, versions: Mapping[str, str] | None = None) -> str:
    """Build the stand-in's image; `versions` sets build arguments (VLLM_VERSION). Returns the image id."""
    return _build("stand-in.Dockerfile", tag, versions or {})


def build_real(tag: str = REAL) -> str:
    """Build the image with the shared libraries that the mounted vLLM needs. Returns the image id."""
    return _build("vllm-cpu.Dockerfile", tag, {})


def derive(tag: str, env: Mapping[str, str], base: str = STAND_IN) -> str:
    """An image with other defaults: a scenario without a variable in the launch. Returns the image id."""
    lines = [f"FROM {base}", *(f'ENV {name}="{value}"' for name, value in env.items())]
    return docker("build", "-q", "-t", tag, "-", stdin="\n".join(lines) + "\n").strip()


def _build(file: str, tag: str, arguments: Mapping[str, str]) -> str:
    with image.exclusive():
        image.ensure_base()
        options = [f"--build-arg=BASE={image.BASE}", *(f"--build-arg={k}={v}" for k, v in arguments.items())]
        options += [f"--build-arg={name}" for name in ("http_proxy", "https_proxy") if name in os.environ]
        old = docker("image", "ls", "-q", "--no-trunc", tag).split()
        built = docker("build", "-q", "-f", str(HERE / file), "-t", tag, *options, str(HERE)).strip()
        if old and old != [built]:
            subprocess.run(["docker", "image", "rm", *old], capture_output=True, check=False)  # unless in use
        return built


if __name__ == "__main__":
    print(build_stand_in())
    if "real" in sys.argv[1:]:
        print(build_real())
