# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real containers in every state are described from outside, and nothing is changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_facts import derived_members, facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_probes import (
    collect,
    container_probes,
    discover,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import run_probes

PACKAGES = "/usr/local/lib/python3.12/dist-packages"


def describe(*names: str) -> list[dict[str, Any]]:
    found, answers = collect({"containers": list(names)})
    containers: list[dict[str, Any]] = facts(answers, found)["containers"]
    return containers


def until(condition: Callable[[], bool]) -> None:
    for _count in range(200):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("the container did not come into the state that the test is about")


def state(docker: Any, name: str) -> dict[str, Any]:
    found: dict[str, Any] = docker.inspect(name)["State"]
    return found


@pytest.fixture
def running(docker: Any, image: str) -> str:
    name: str = docker.name()
    docker("run", "-d", "--name", name, "-e", "CANARY=1", image, "sleep", "600")
    return name


def test_versions_of_a_running_container_are_read_without_exec(docker: Any, running: str) -> None:
    (container,) = describe(running)
    assert container["versions"]["outcome"] == "ok"
    assert container["versions"]["value"]["vllm"] == ["0.27.1"]
    assert container["versions"]["value"]["nccl"] == ["2.28.9"]
    assert container["cuda"]["value"]["image_cuda_version"] == "13.0.2"
    assert container["cuda"]["value"]["torch_build"] == "13.0"
    assert container["cuda"]["value"]["cudart_distribution"] == ["13.0.96"]
    assert container["processes"] == [state(docker, running)["Pid"]]


def test_t11_versions_of_an_exited_container_are_those_it_ended_with(docker: Any, image: str) -> None:
    """From the layers: a removed file is gone, an added one there, a replaced directory is the new one."""
    name = docker.name()
    script = f"""
    rm -r {PACKAGES}/flashinfer_python-0.6.2.dist-info
    mkdir {PACKAGES}/flashinfer_python-0.6.3.dist-info
    echo 'Name: flashinfer-python\nVersion: 0.6.3\n' > {PACKAGES}/flashinfer_python-0.6.3.dist-info/METADATA
    rm -r {PACKAGES}/torch; mkdir {PACKAGES}/torch
    exit 7
    """
    docker("run", "-d", "--name", name, image, "sh", "-c", script)
    until(lambda: not state(docker, name)["Running"])
    (container,) = describe(name)
    assert container["state"]["status"] == "exited"
    assert container["state"]["exit_code"] == 7
    assert container["state"]["finished"] is not None
    assert container["versions"]["value"]["flashinfer_python"] == ["0.6.3"]
    assert container["versions"]["value"]["vllm"] == ["0.27.1"]
    assert "torch" not in container["build"]["value"]
    assert container["visible_devices"]["outcome"] == "absent"
    assert container["loaded_libraries"]["message"] == "no process of it is alive"


def test_t11_a_restarting_container_keeps_its_count(docker: Any, image: str) -> None:
    name = docker.name()
    docker("run", "-d", "--name", name, "--restart", "always", image, "sh", "-c", "exit 3")
    until(lambda: docker.inspect(name)["RestartCount"] >= 2)
    (container,) = describe(name)
    assert container["restart_count"] >= 2
    assert container["again"]["value"]["restart_count"] >= container["restart_count"]
    assert container["versions"]["outcome"] == "ok"
    assert container["restart_policy"]["Name"] == "always"


def test_t11_a_container_that_was_never_started(docker: Any, image: str) -> None:
    name = docker.name()
    docker("create", "--name", name, "--gpus", "all", image)
    (container,) = describe(name)
    assert container["state"]["status"] == "created"
    assert container["state"]["started"] is None
    assert container["versions"]["value"]["vllm"] == ["0.27.1"]
    assert container["gpu_request"]["modes"] == ["device request (--gpus)"]


def test_t11_a_paused_container_is_read(docker: Any, running: str) -> None:
    docker("pause", running)
    try:
        (container,) = describe(running)
    finally:
        docker("unpause", running)
    assert container["state"]["status"] == "paused"
    assert container["versions"]["outcome"] == "ok"


def test_t11_a_container_removed_while_being_read_keeps_what_was_seen(docker: Any, running: str) -> None:
    options = {"containers": [running]}
    found, answers = discover(options)
    docker.remove("container", running)
    answers.update(run_probes(container_probes(found, options)))
    (container,) = facts(answers, found)["containers"]
    assert container["name"] == running
    assert container["environment"][-1].startswith(("CANARY", "PATH", "CUDA", "OF_"))
    assert container["again"]["outcome"] == "absent"
    assert container["again"]["message"] == f"container {running} was removed while it was being read"
    assert container["versions"]["outcome"] == "absent"
    assert f"--name {running}" in container["run_command"]["text"]


def test_a_container_is_found_by_name_and_by_id_and_a_missing_one_is_named(docker: Any, running: str) -> None:
    identifier = docker.inspect(running)["Id"]
    found, _answers = discover({"containers": [identifier[:12], running, "gpufleet-test-nowhere"]})
    assert [choice.identifier for choice in found.containers] == [identifier]
    assert found.notes == ["container gpufleet-test-nowhere is not on this host"]


def test_containers_that_look_like_the_engine_are_chosen_by_themselves(docker: Any, image: str) -> None:
    by_command, by_gpus, neither = docker.name(), docker.name(), docker.name()
    docker(
        "create",
        "--name",
        by_command,
        "--entrypoint",
        "sh",
        image,
        "-c",
        "exec vllm serve moonshotai/Kimi-K3",
    )
    docker("create", "--name", by_gpus, "--gpus", "all", image)
    docker("create", "--name", neither, image)
    found, _answers = discover({})
    why = {choice.name: choice.why for choice in found.containers}
    assert why[by_command] == "its command is vLLM's"
    assert why[by_gpus] == "it asks for GPUs: device request (--gpus)"
    assert neither not in why


def test_compose_files_are_read_from_where_the_labels_say(docker: Any, image: str, tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {vllm: {image: x}}\n")
    (tmp_path / ".env").write_text("HF_TOKEN=hf_canary\n")
    labels = {
        "com.docker.compose.project": "k3",
        "com.docker.compose.service": "vllm",
        "com.docker.compose.config-hash": "abc",
        "com.docker.compose.project.working_dir": str(tmp_path),
        "com.docker.compose.project.config_files": f"{tmp_path}/compose.yaml,{tmp_path}/gone.yaml",
    }
    name = docker.name()
    options = [word for item in labels.items() for word in ("--label", "=".join(item))]
    docker("create", "--name", name, *options, image)
    found, answers = collect({"containers": [name]})
    (container,) = facts(answers, found)["containers"]
    first, gone, environment = container["compose_files"]
    assert first["value"]["path"] == f"{tmp_path}/compose.yaml"
    assert gone["outcome"] == "absent"
    assert environment["value"]["path"] == f"{tmp_path}/.env"
    kept = {answer.member: answer.raw for answer in answers.values() if answer.member}
    assert kept[f"containers/{name}/compose/0-compose.yaml"] == b"services: {vllm: {image: x}}\n"
    assert kept[f"containers/{name}/compose/environment-0-env"] == b"HF_TOKEN=hf_canary\n"
    what = [event["what"] for event in facts(answers, found)["events"]]
    assert f"file {tmp_path}/compose.yaml last changed" in what


def test_model_and_caches_are_found_through_the_containers_mounts(
    docker: Any, image: str, tmp_path: Path
) -> None:
    model = tmp_path / "k3"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model-00001-of-00002.safetensors").write_bytes(b"x" * 10)
    (model / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    )
    (tmp_path / "cache" / "torch_compile_cache").mkdir(parents=True)
    (tmp_path / "cache" / "torch_compile_cache" / "graph").write_bytes(b"y" * 99)
    name = docker.name()
    docker(
        *(
            "create",
            "--name",
            name,
            "-v",
            f"{model}:/models/k3:ro",
            "-v",
            f"{tmp_path}/cache:/root/.cache/vllm",
        ),
        *("--entrypoint", "vllm", image, "serve", "/models/k3", "--tensor-parallel-size=8", "-dp", "2"),
    )
    (container,) = describe(name)
    (found,) = container["models"]
    assert found["outcome"] == "ok", found["message"]
    assert found["value"]["path"] == "/models/k3"
    assert found["value"]["shards"] == {"model-00001-of-00002.safetensors": {"bytes": 10, "blob": None}}
    assert found["value"]["index"]["missing"] == ["model-00002-of-00002.safetensors"]
    assert found["value"]["mount"]["source"] == str(model)
    assert container["caches"]["vllm"]["value"]["bytes"] == 99
    assert container["caches"]["vllm"]["value"]["mount"]["source"] == f"{tmp_path}/cache"
    assert container["caches"]["triton"]["outcome"] == "absent"
    assert container["parallel"]["world_size"]["launch"] == 16


def test_t15_reading_changes_nothing_in_a_container(docker: Any, running: str) -> None:
    before = docker("diff", running), docker("ps", "--all", "--quiet", "--no-trunc"), docker.inspect(running)
    describe(running)
    assert (docker("diff", running), docker.inspect(running)) == (before[0], before[2])


def test_the_command_stands_in_the_record(docker: Any, running: str) -> None:
    found, answers = collect({"containers": [running]})
    members = derived_members(answers, found)
    assert f"--name {running}" in members[f"containers/{running}/docker-run.sh"].decode()


def test_a_login_without_rights_is_told_what_was_denied(docker: Any, running: str) -> None:
    """Neither the socket nor the root of a foreign process: denied, with what to do, and no failure."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    # The interpreter itself may lie where another user cannot read, so all is loaded before.
    code = f"""if True:
        import json, os, docker.api, encodings.idna
        from ansible_collections.gpufleet.baseline.plugins.module_utils import _engine_probes, _engine_facts
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        found, answers = _engine_probes.collect({{"processes": [{state(docker, running)["Pid"]}]}})
        print(json.dumps(_engine_facts.facts(answers, found)))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["engine"]["version"]["outcome"] == "denied"
    assert "use become or a member of the socket's group" in document["engine"]["version"]["message"]
    (process,) = document["processes"]
    assert process["refused"]["environ"] == "denied"
    (plain,) = document["plain_processes"]
    assert plain["versions"]["outcome"] == "denied"
