# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real process that looks like vLLM is described as one, with all that belongs to its start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_facts import facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_probes import (
    collect,
    discover,
    process_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import run_probes

# Goes by the name of vLLM, has one renamed child, and waits.
LOOK_ALIKE = """\
import subprocess, sys, time
title = ["VLLM::Worker_TP1_EP1", "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(title, executable=sys.executable)
print("ready", flush=True)
try:
    time.sleep(600)
finally:
    child.kill()
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """(pid of the look-alike, its directory)."""
    program = tmp_path / "venv" / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.write_text(LOOK_ALIKE)
    packages = tmp_path / "venv/lib/python3.12/site-packages"
    for name, version in (("vllm", "0.27.1"), ("torch", "2.13.0")):
        (packages / f"{name}-{version}.dist-info").mkdir(parents=True)
        (packages / f"{name}-{version}.dist-info" / "METADATA").write_text(
            f"Name: {name}\nVersion: {version}\n"
        )
    (tmp_path / "k3").mkdir()
    (tmp_path / "k3" / "config.json").write_text("{}")
    (tmp_path / "serve.yaml").write_text("data-parallel-size: 3\n")
    log = tmp_path / "vllm.log"
    environment = {
        "HOME": str(tmp_path),
        "NCCL_DEBUG": "INFO",
        "HF_TOKEN": "hf_canaryCANARYcanary",
        "SLURM_JOB_ID": "77",
    }
    with log.open("w") as stream:
        process = subprocess.Popen(
            [
                sys.executable,
                str(program),
                "serve",
                "./k3",
                "-tp=2",
                "--config",
                "serve.yaml",
                "--enable-expert-parallel",
            ],
            stdout=stream,
            stderr=stream,
            env=environment,
            cwd=tmp_path,
            start_new_session=True,
        )
    try:
        while "ready" not in log.read_text():
            assert process.poll() is None, "the look-alike ended"
            time.sleep(0.05)
        yield process.pid, tmp_path
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def described(pid: int) -> dict[str, Any]:
    found, answers = collect({"processes": [pid], "docker_socket": "/nowhere"})
    document = facts(answers, found)
    json.dumps(document)
    return document


def test_a_plain_engine(engine: tuple[int, Path]) -> None:
    pid, directory = engine
    document = described(pid)
    assert document["engine"]["version"]["outcome"] == "absent"
    (plain,) = document["plain_processes"]
    assert plain["pid"] == pid
    assert plain["versions"]["value"] == {"torch": ["2.13.0"], "vllm": ["0.27.1"]}
    assert plain["models"][0]["value"]["path"] == f"{directory}/k3"
    assert plain["models"][0]["value"]["mount"]["point"]
    assert plain["models"][1]["value"]["options"] == {"data-parallel-size": "3"}
    assert plain["caches"]["vllm"]["value"]["path"] == f"{directory}/.cache/vllm"
    assert plain["caches"]["vllm"]["outcome"] == "absent"
    assert plain["parallel"]["world_size"] == {"launch": 6, "host": 6, "why": ""}
    assert plain["variables"] == {"NCCL_DEBUG": "INFO", "SLURM_JOB_ID": "77"}


def test_its_processes(engine: tuple[int, Path]) -> None:
    pid, directory = engine
    leader, worker = described(pid)["processes"]
    assert leader["pid"] == pid
    assert leader["log"][0] == {"descriptor": "1", "target": f"{directory}/vllm.log", "kind": "file"}
    assert leader["working_directory"] == str(directory)
    assert leader["limits"]["Max locked memory"]
    assert leader["maps"]["outcome"] == "ok"
    assert any(runtime["name"] == "Slurm" and runtime["identifier"] == "77" for runtime in leader["runtimes"])
    assert abs(leader["started"] - time.time()) < 3600
    assert (worker["parent"], worker["title"], worker["ranks"]) == (pid, "Worker_TP1_EP1", {"tp": 1, "ep": 1})


def test_it_is_found_by_itself(engine: tuple[int, Path]) -> None:
    found, _answers = discover({"docker_socket": "/nowhere"})
    assert engine[0] in [process.line.pid for process in found.processes if process.leader]


def test_t11_a_process_that_ends_while_being_read_is_absent(engine: tuple[int, Path]) -> None:
    pid, _directory = engine
    options = {"processes": [pid], "docker_socket": "/nowhere"}
    found, answers = discover(options)
    os.killpg(pid, 9)
    os.waitpid(pid, 0)
    answers.update(run_probes(process_probes(found, options)))
    document = facts(answers, found)
    assert document["processes"][0]["read"]["outcome"] == "absent"
    assert document["processes"][0]["argv"][-1] == "--enable-expert-parallel"


def test_every_question_has_an_answer_in_the_document(engine: tuple[int, Path]) -> None:
    """T1: nothing is missing without a word, whatever was answered."""
    pid, _directory = engine
    found, answers = collect({"processes": [pid], "docker_socket": "/nowhere"})
    first = {"docker.info", "docker.images", "docker.version"}
    second = {name for name in answers if name.startswith(f"process.{pid}.")}
    assert second
    complete = facts(answers, found)
    for name in first | second:
        less = {key: answer for key, answer in answers.items() if key != name}
        assert facts(less, found) != complete, name
