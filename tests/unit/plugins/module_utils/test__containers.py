# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers are chosen and described from their inspect."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._compose import compose_facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._containers import (
    choose,
    describe,
    gpu_request,
    image_facts,
    mount_at,
)

ONE, TWO = "1" * 64, "12" * 32


def container(identifier: str = ONE, name: str = "/one", **parts: Any) -> dict[str, Any]:
    inspect = {"Id": identifier, "Name": name, "Path": "sleep", "Args": ["9"], "Image": "sha256:i"}
    return {**inspect, "Config": {"Image": "debian:12"}, "HostConfig": {}, **parts}


def with_environment(*items: str, **host: Any) -> dict[str, Any]:
    return container(Config={"Image": "x", "Env": list(items)}, HostConfig=host)


NVIDIA_RUNTIME = {"DefaultRuntime": "nvidia"}


@pytest.mark.parametrize(
    ("inspect", "info", "modes"),
    [
        (container(), {}, []),
        (with_environment(DeviceRequests=[{"Driver": "", "Count": -1}]), {}, ["device request (--gpus)"]),
        (
            with_environment(DeviceRequests=[{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=all"]}]),
            {},
            ["CDI"],
        ),
        (
            with_environment("NVIDIA_VISIBLE_DEVICES=all", Runtime="nvidia"),
            {},
            ["runtime nvidia with NVIDIA_VISIBLE_DEVICES"],
        ),
        (with_environment("NVIDIA_VISIBLE_DEVICES=void", Runtime="nvidia"), {}, []),
        (with_environment("NVIDIA_VISIBLE_DEVICES=none"), NVIDIA_RUNTIME, []),
        (
            with_environment("NVIDIA_VISIBLE_DEVICES=0"),
            NVIDIA_RUNTIME,
            ["runtime nvidia with NVIDIA_VISIBLE_DEVICES"],
        ),
        (with_environment("NVIDIA_VISIBLE_DEVICES=all", Runtime="runc"), {"DefaultRuntime": "runc"}, []),
        (with_environment(Devices=[{"PathOnHost": "/dev/nvidia0"}]), {}, ["device files"]),
        (with_environment("NVIDIA_VISIBLE_DEVICES=all", Privileged=True), {}, ["privileged"]),
        (with_environment(Privileged=True), {}, []),
    ],
)
def test_t34_the_way_a_container_asks_for_gpus(
    inspect: dict[str, Any], info: dict[str, Any], modes: list[str]
) -> None:
    assert gpu_request(inspect, info)["modes"] == modes


@pytest.mark.parametrize(
    ("inspect", "why"),
    [
        (container(Path="vllm", Args=["serve", "M"]), "its command is vLLM's"),
        (container(Config={"Image": "vllm/vllm-openai:kimi-k3"}), "its image is named like vLLM"),
        (container(TWO), "a process of vLLM runs in it"),
        (with_environment(DeviceRequests=[{"Count": 1}]), "it asks for GPUs: device request (--gpus)"),
    ],
)
def test_why_a_container_is_chosen(inspect: dict[str, Any], why: str) -> None:
    chosen, missing = choose([inspect], [], {}, {TWO})
    assert [choice.why for choice in chosen] == [why]
    assert missing == []


def test_others_are_left_alone() -> None:
    assert choose([container()], [], {}) == ([], [])


def test_wanted_containers_by_name_or_id_and_never_by_half_a_name() -> None:
    both = [container(ONE, "/vllm"), container(TWO, "/vllm-2")]
    chosen, missing = choose(both, ["vllm", "1212", "vll", "1"], {})
    assert [choice.identifier for choice in chosen] == [ONE, TWO]
    assert missing == ["vll", "1"]


def test_an_ambiguous_id_is_said() -> None:
    chosen, missing = choose([container("ab" * 32), container("abab" + "0" * 60)], ["abab"], {})
    assert chosen == []
    assert missing == ["abab (ambiguous: 2 containers)"]


def test_state_of_a_container_that_was_killed_for_memory() -> None:
    state = {"Status": "exited", "Running": False, "ExitCode": 137, "OOMKilled": True}
    state |= {"StartedAt": "2026-08-09T10:00:00Z", "FinishedAt": "2026-08-09T10:05:00Z", "Pid": 0}
    value = describe(container(State=state, RestartCount=4), {}, {})
    assert value["state"]["exit_code"] == 137
    assert value["state"]["killed_for_memory"] is True
    assert value["state"]["pid"] is None
    assert value["restart_count"] == 4


def test_an_exit_code_of_zero_while_running_is_none() -> None:
    state = {"Status": "running", "Running": True, "ExitCode": 0, "FinishedAt": "0001-01-01T00:00:00Z"}
    value = describe(container(State=state), {}, {})
    assert (value["state"]["exit_code"], value["state"]["finished"]) == (None, None)


def test_the_deepest_mount_of_a_path() -> None:
    mounts = [{"Destination": "/root", "Source": "/a"}, {"Destination": "/root/.cache/", "Source": "/b"}]
    inspect = container(Mounts=mounts)
    assert mount_at(inspect, "/root/.cache/vllm")["source"] == "/b"
    assert mount_at(inspect, "/root/x")["source"] == "/a"
    assert mount_at(inspect, "/rootless")["type"] == "layer"


@pytest.mark.parametrize(
    ("name", "tags", "moved"),
    [
        ("vllm/vllm-openai:kimi-k3", ["vllm/vllm-openai:kimi-k3"], False),
        ("vllm/vllm-openai:kimi-k3", ["other:tag"], True),
        ("vllm/vllm-openai:kimi-k3", [], True),
        ("debian", ["debian:latest"], False),
        ("debian", ["docker.io/library/debian:latest"], False),
        ("r:5000/x", ["r:5000/x:latest"], False),
        ("x@sha256:abc", [], None),
        ("sha256:abc", [], None),
    ],
)
def test_t45_a_name_that_means_another_image_now(name: str, tags: list[str], moved: bool | None) -> None:
    image = {"Id": "sha256:i", "RepoTags": tags, "RepoDigests": ["b@sha256:2", "a@sha256:1"]}
    found = image_facts(container(Config={"Image": name}), image)
    assert found["tag_moved"] is moved
    assert found["digests"] == ["a@sha256:1", "b@sha256:2"]


def test_an_image_that_is_gone_leaves_its_id() -> None:
    found = image_facts(container(), {})
    assert (found["id"], found["digests"], found["tag_moved"]) == ("sha256:i", [], None)


def test_compose_labels() -> None:
    labels = {
        "com.docker.compose.project": "k3",
        "com.docker.compose.service": "vllm",
        "com.docker.compose.project.working_dir": "/srv/k3",
        "com.docker.compose.project.config_files": "/srv/k3/compose.yaml,override.yaml",
        "com.docker.compose.project.environment_file": "/srv/k3/prod.env",
    }
    found = compose_facts(labels)
    assert found["files"] == ["/srv/k3/compose.yaml", "/srv/k3/override.yaml"]
    assert found["environment_files"] == ["/srv/k3/prod.env"]


def test_compose_takes_the_file_env_by_itself() -> None:
    labels = {"io.podman.compose.project": "k3", "com.docker.compose.project.working_dir": "/srv/k3"}
    assert compose_facts(labels)["environment_files"] == ["/srv/k3/.env"]


def test_a_container_without_compose() -> None:
    assert compose_facts({"maintainer": "x"}) == {}
