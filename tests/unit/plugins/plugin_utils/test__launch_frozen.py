# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The launch that a freeze found: a started launch comes back out of its own facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._containers import describe
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import find_engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    ContainerOptions,
    Gpus,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._difference import difference
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Image,
    Launch,
    RankLaunch,
    Secret,
    Topology,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._render import create_body
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import rebuild
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._launch_frozen import frozen

IMAGE = {
    "Id": "sha256:" + "a" * 64,
    "RepoDigests": ["vllm/vllm-openai@sha256:" + "b" * 64],
    "Config": {"Env": ["PATH=/usr/bin", "CUDA_VERSION=13.0.1"], "Entrypoint": ["vllm", "serve"], "Cmd": None},
}
HIDDEN = "<redacted HF_TOKEN 3f2a9c>"


def launch(**changes: Any) -> Launch:
    ranks = []
    for number in range(2):
        words = ("vllm", "serve", "m", "-tp", "8", "--nnodes", "2", "--node-rank", str(number))
        ranks.append(
            RankLaunch(
                f"tray{number}",
                number,
                "worker" if number else "head",
                (*words, *(("--headless",) if number else ()), *changes.get("words", ())),
                {"NCCL_SOCKET_IFNAME": "eth0", "HF_TOKEN": Secret("HF_TOKEN"), **changes.get("env", {})},
                None if number else 8000,
                bool(number),
                changes.get("container", ContainerOptions(f"gpufleet-run-002-{number}")),
            )
        )
    return Launch(
        "x",
        "docker",
        "",
        "",
        "",
        "m",
        Topology(2, 8, 8),
        Image("vllm/vllm-openai:k", IMAGE["Id"]),
        tuple(ranks),
    )


def mounted(mount: dict[str, Any]) -> dict[str, Any]:
    named = {"Name": mount["Source"]} if mount["Type"] == "volume" else {}
    place = {"Source": mount["Source"], "Destination": mount["Target"]}
    return {"Type": mount["Type"], **place, **named, "RW": not mount["ReadOnly"]}


def inspect(made: Launch, rank: RankLaunch, **state: Any) -> dict[str, Any]:
    """What the Engine would say of the container of a rank, redacted as a record is."""
    body = create_body(made, rank, secrets={"HF_TOKEN": HIDDEN, "url": "https://<redacted url 111111>@x"})
    given = {text.partition("=")[0] for text in body["Env"]}
    inherited = [text for text in IMAGE["Config"]["Env"] if text.partition("=")[0] not in given]
    entrypoint = body.get("Entrypoint") or IMAGE["Config"]["Entrypoint"]
    words = [*(entrypoint if entrypoint != [""] else []), *body["Cmd"]]
    return {
        "Id": "c" * 64,
        "Name": "/" + (rank.container.name if rank.container else ""),
        "Image": body["Image"],
        "Path": words[0],
        "Args": words[1:],
        "Config": {
            "Image": "vllm/vllm-openai:k",
            "Env": [*body["Env"], *inherited],
            "Entrypoint": entrypoint,
            "Cmd": body["Cmd"],
            "WorkingDir": body.get("WorkingDir", ""),
            "User": body.get("User", ""),
        },
        "HostConfig": body["HostConfig"],
        "Mounts": [mounted(mount) for mount in body["HostConfig"]["Mounts"]],
        "State": {"Status": "running", "Running": True, "StartedAt": "2026-12-01T00:00:00Z", **state},
    }


def container(found: dict[str, Any], image: dict[str, Any] | None = None) -> dict[str, Any]:
    """The facts of a container, made as the collection makes them."""
    image = IMAGE if image is None else image
    facts = describe(found, image, {})
    command = find_engine(facts["command"])
    run = rebuild(found, image, {})
    return {
        **facts,
        "engine_command": vars(command) if command else None,
        "run_command": {"text": run.text()},
    }


def facts_of(made: Launch, **state: Any) -> dict[str, Any]:
    return {
        rank.host: {
            "engine": {
                "containers": [container(inspect(made, rank, **state))],
                "plain_processes": [],
                "processes": [],
            }
        }
        for rank in made.ranks
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"words": ("--attention-config", '{"a": "b c"}', "--enable-prefix-caching")},
        {"env": {"A": "b 'c' # d", "PATH": "/opt/bin"}},
        {
            "container": ContainerOptions(
                shm_size=1 << 30,
                mounts=(Mount("/m", "/m", True), Mount("cache", "/c")),
                ulimits={"memlock": -1},
                cap_add=("IPC_LOCK",),
                privileged=True,
                group_add=("44",),
                workdir="/srv",
                user="1000",
            )
        },
        {
            "container": ContainerOptions(
                network="", ipc="", gpus=Gpus("request", ("GPU-1", "GPU-2")), devices=("/dev/infiniband",)
            )
        },
        {"container": ContainerOptions(gpus=Gpus("cdi", ("all",)))},
        {"container": ContainerOptions(gpus=Gpus("none", ()), security_opt=("seccomp=unconfined",))},
    ],
)
def test_a_started_launch_comes_back_out_of_its_facts(changes: dict[str, Any]) -> None:
    made = launch(**changes)
    back = frozen(facts_of(made), ["tray0", "tray1"], "run-009")
    assert [change.text for change in difference(made, back)] == []
    assert (back.name, back.topology, back.image) == ("frozen", made.topology, made.image)
    assert back.ranks[1].container is not None
    assert back.ranks[1].container.name == "gpufleet-run-009-1"
    assert Launch.from_dict(back.document()).sha256() == back.sha256()


def test_ranks_are_ordered_by_their_own_numbers() -> None:
    back = frozen(facts_of(launch()), ["tray1", "tray0"])
    assert [(rank.host, rank.node_rank, rank.role) for rank in back.ranks] == [
        ("tray0", 0, "head"),
        ("tray1", 1, "worker"),
    ]


def test_secrets_are_names() -> None:
    back = frozen(facts_of(launch(env={"PROXY": Secret("url")})), ["tray0", "tray1"])
    assert back.ranks[0].env["HF_TOKEN"] == Secret("HF_TOKEN")
    assert back.ranks[0].env["PROXY"] == Secret("PROXY")
    assert "redacted" not in str(back.as_dict())


def test_an_api_key_among_the_words_becomes_a_variable() -> None:
    back = frozen(facts_of(launch(words=("--api-key", "<redacted api-key 123456>"))), ["tray0", "tray1"])
    assert back.ranks[0].env["VLLM_API_KEY"] == Secret("VLLM_API_KEY")
    assert "--api-key" not in back.ranks[0].argv
    assert "tray0: the secret of --api-key is given as VLLM_API_KEY" in back.notes


def test_another_secret_among_the_words_cannot_be_rebuilt() -> None:
    with pytest.raises(BaselineError, match=r"tray0: .*--ssl-keyfile-password"):
        frozen(facts_of(launch(words=("--ssl-keyfile-password", "<redacted x 123456>"))), ["tray0", "tray1"])


def test_what_is_not_taken_over_is_told() -> None:
    facts = facts_of(launch())
    found = facts["tray0"]["engine"]["containers"][0]
    found["restart_policy"] = {"Name": "unless-stopped"}
    found["limits"]["Memory"] = 1024
    found["mounts"].append({"type": "tmpfs", "target": "/scratch", "source": None})
    told = " ".join(frozen(facts, ["tray0", "tray1"]).notes)
    for word in ("restart policy unless-stopped", "Memory=1024", "tmpfs mount at /scratch"):
        assert word in told


def test_published_ports_are_told() -> None:
    facts = facts_of(launch(container=ContainerOptions(network="")))
    facts["tray1"]["engine"]["containers"][0]["network"]["ports"] = {"8000/tcp": [{"HostPort": "80"}]}
    assert "tray1: published ports are not taken over: 8000/tcp" in frozen(facts, ["tray0", "tray1"]).notes


def test_without_the_image_all_variables_are_in_it() -> None:
    made = launch()
    facts = facts_of(made)
    facts["tray0"]["engine"]["containers"][0]["run_command"] = {"text": ""}
    back = frozen(facts, ["tray0", "tray1"])
    assert back.ranks[0].env["CUDA_VERSION"] == "13.0.1"
    assert any("tray0: the variables of the image" in note for note in back.notes)


def test_the_one_that_runs_is_taken_then_the_last_that_did() -> None:
    made = launch()
    facts = facts_of(made)
    old = container(inspect(made, made.ranks[1], Running=False, StartedAt="2026-11-01T00:00:00Z"))
    facts["tray0"]["engine"]["containers"].insert(0, old)
    assert frozen(facts, ["tray0", "tray1"]).ranks[0].host == "tray0"
    facts = facts_of(made, Running=False)
    facts["tray0"]["engine"]["containers"].insert(0, old)
    assert len(frozen(facts, ["tray0", "tray1"]).ranks) == 2


def test_images_that_differ_are_refused() -> None:
    facts = facts_of(launch())
    facts["tray1"]["engine"]["containers"][0]["image"]["id"] = "sha256:" + "f" * 64
    with pytest.raises(BaselineError, match=r"sha256:aaaaaaaaaaaa on tray0; sha256:ffffffffffff on tray1"):
        frozen(facts, ["tray0", "tray1"])


@pytest.mark.parametrize("facts", [{}, {"tray0": {"engine": {"containers": [], "plain_processes": []}}}])
def test_a_host_without_an_engine_is_named(facts: dict[str, Any]) -> None:
    with pytest.raises(BaselineError, match="tray0: expected"):
        frozen(facts, ["tray0"])


def process(argv: list[str], environment: Any) -> dict[str, Any]:
    facts = {
        "pid": 7,
        "argv": argv,
        "environment": environment,
        "executable": "/usr/bin/python3.12",
        "working_directory": "/srv",
    }
    plain = {"pid": 7, "engine_command": {"kind": "serve"}}
    return {"solo": {"engine": {"containers": [], "plain_processes": [plain], "processes": [facts]}}}


@pytest.mark.parametrize(
    ("argv", "executable", "words"),
    [
        (["/venv/bin/python", "/venv/bin/vllm", "serve", "m"], "/venv/bin/vllm", ("vllm", "serve", "m")),
        (["/venv/bin/vllm", "serve", "m"], "/venv/bin/vllm", ("/venv/bin/vllm", "serve", "m")),
        (
            ["python3", "-m", "vllm", "serve", "m"],
            "/usr/bin/python3.12",
            ("python3", "-m", "vllm", "serve", "m"),
        ),
    ],
)
def test_a_process(argv: list[str], executable: str, words: tuple[str, ...]) -> None:
    back = frozen(
        process(argv, ["VLLM_HOST_IP=10.0.0.1", "SSH_TTY=/dev/pts/0", f"HF_TOKEN={HIDDEN}"]), ["solo"]
    )
    (rank,) = back.ranks
    assert rank.process is not None
    assert (rank.process.executable, rank.process.cwd, rank.argv) == (executable, "/srv", words)
    assert rank.env == {"VLLM_HOST_IP": "10.0.0.1", "HF_TOKEN": Secret("HF_TOKEN")}
    assert (back.engine, back.image) == ("process", None)
    assert "solo: variables of the login are left out: SSH_TTY" in back.notes


def test_an_environment_that_was_not_readable_is_told() -> None:
    with pytest.raises(BaselineError, match="freeze with become"):
        frozen(process(["/venv/bin/vllm", "serve", "m"], None), ["solo"])


def test_two_kinds_of_engines_are_refused() -> None:
    facts = {**facts_of(launch()), **process(["/venv/bin/vllm", "serve", "m"], [])}
    with pytest.raises(BaselineError, match="one kind of engine"):
        frozen(facts, ["tray0", "solo"])


def test_a_frozen_document_differs_from_another_host_s() -> None:
    made = launch()
    other = replace(made, ranks=(replace(made.ranks[0], env={"A": "1"}), made.ranks[1]))
    assert difference(frozen(facts_of(made), ["tray0", "tray1"]), frozen(facts_of(other), ["tray0", "tray1"]))
