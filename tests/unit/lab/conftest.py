# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated driver on this machine itself, compiled and put into a state; and stand-in engines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import image, state
from ansible_collections.gpufleet.baseline.tests.unit.lab._engine import Engine

# As the captures were made: each nvmlDeviceGet* of the list with a handle alone, or the error it ended with.
ASK_NVML = """
import json, sys
import pynvml as nvml

def plain(value):
    if hasattr(value, "_fields_"):
        return {name: str(getattr(value, name)) for name, _type in value._fields_}
    if isinstance(value, bytes):
        return value.decode()
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

def ask(function, *arguments):
    try:
        return plain(function(*arguments))
    except nvml.NVMLError as problem:
        return f"ERR {type(problem).__name__}({problem.value})"

answer = {"init": ask(nvml.nvmlInit)}
if answer["init"] is None:
    answer["driver"] = nvml.nvmlSystemGetDriverVersion()
    answer["nvml"] = nvml.nvmlSystemGetNVMLVersion()
    answer["cuda"] = nvml.nvmlSystemGetCudaDriverVersion_v2()
    answer["gpus"] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as problem:
            answer["gpus"].append({"handle": problem.value})
            continue
        answer["gpus"].append({name: ask(getattr(nvml, name), handle) for name in sys.argv[1:]})
        fabric = nvml.c_nvmlGpuFabricInfo_v3_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(fabric))
        cluster = bytes(fabric.clusterUuid).hex()
        facts = {"state": fabric.state, "clique": fabric.cliqueId, "cluster": cluster}
        answer["gpus"][-1]["fabric"] = facts
print(json.dumps(answer))
"""


class Driver:
    """The programs and libraries, with a folder that holds the state they read."""

    def __init__(self, built: Path, folder: Path) -> None:
        self.folder = folder
        shutil.copy(built / "nvidia-smi", folder)
        for name in ("libnvidia-ml.so", "libcuda.so"):
            shutil.copy(built / name, folder / f"{name}.1")
        for path in (image.HERE / "driver/smi").iterdir():
            shutil.copy(path, folder)
        paths = {"SIMULATED_GPU": str(folder), "LD_LIBRARY_PATH": str(folder)}
        self.environment = {**os.environ, **paths}

    def set(self, chosen: state.State) -> None:
        """Put the GPUs into a state."""
        (self.folder / "state").write_text(state.render(chosen))
        for gpu in state.gpus(chosen):
            (self.folder / f"gpu{gpu}").touch()

    def smi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What nvidia-smi prints."""
        return self.run([str(self.folder / "nvidia-smi"), *arguments])

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """A program that finds the simulated libraries where real ones would be."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=60
        )

    def nvml(self, *functions: str) -> dict[str, Any]:
        """What nvidia-ml-py says."""
        done = self.run([sys.executable, "-c", ASK_NVML, *functions])
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture(scope="session")
def built() -> Path:
    """The compiled driver."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: the simulated NVML is not tested")
    try:
        with image.exclusive():
            return image.build_driver()
    except image.ToolMissing as problem:
        pytest.skip(str(problem))


@pytest.fixture
def driver(built: Path, tmp_path: Path) -> Driver:
    """The driver with no state set."""
    return Driver(built, tmp_path)


@pytest.fixture
def host(driver: Driver) -> Callable[..., Driver]:
    """The driver in a ready-made state."""

    def in_state(name: str, node: int = 1, **changes: str) -> Driver:
        driver.set({**state.load(name, node), **changes})
        return driver

    return in_state


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Starts stand-in engines; what still runs is ended after the test."""
    started: list[Engine] = []

    def start(*flags: str, **settings: str) -> Engine:
        started.append(Engine(tmp_path, *flags, **settings))
        return started[-1]

    yield start
    for one in started:
        one.end()
