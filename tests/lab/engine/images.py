# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the engine images of the lab: `python images.py` makes the stand-in, `python images.py real` both.

Plain `docker build` without BuildKit; the base is the lab's own Debian image.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
BASE = "gpufleet-lab/base:latest"
STAND_IN = "gpufleet-lab/engine:stand-in"
REAL = "gpufleet-lab/engine:vllm-cpu"


class ImageError(RuntimeError):
    """An image could not be built; the text says what to do."""


def docker(argv: Sequence[str], text: str | None = None) -> str:
    done = subprocess.run(["docker", *argv], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise ImageError(f"docker {argv[0]} on this machine: exit 0 expected, got {done.returncode}: {last}")
    return done.stdout.strip()


def build_stand_in(tag: str = STAND_IN, versions: Mapping[str, str] | None = None, base: str = BASE) -> str:
    """Build the stand-in's image; `versions` sets build arguments (VLLM_VERSION). Returns the image id."""
    return _build("stand-in.Dockerfile", tag, {"BASE": base, **(versions or {})})


def build_real(tag: str = REAL, base: str = BASE) -> str:
    """Build the image with the shared libraries that the mounted vLLM needs. Returns the image id."""
    return _build("vllm-cpu.Dockerfile", tag, {"BASE": base})


def derive(tag: str, env: Mapping[str, str], base: str = STAND_IN) -> str:
    """An image with other defaults: a scenario without a variable in the launch. Returns the image id."""
    lines = [f"FROM {base}", *(f'ENV {name}="{value}"' for name, value in env.items())]
    return docker(["build", "-q", "-t", tag, "-"], "\n".join(lines) + "\n")


def _build(file: str, tag: str, arguments: Mapping[str, str]) -> str:
    if not docker(["images", "-q", arguments["BASE"]]):
        raise ImageError(
            f"base image {arguments['BASE']} expected, none found: run `make lab-up` once, it makes it"
        )
    options = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    return docker(["build", "-q", "-f", str(HERE / file), "-t", tag, *options, str(HERE)])


if __name__ == "__main__":
    print(build_stand_in())
    if "real" in sys.argv[1:]:
        print(build_real())
