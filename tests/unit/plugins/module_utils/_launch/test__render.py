# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What starts a rank, and the command that is shown for it."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch import _render
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    ContainerOptions,
    Gpus,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Launch,
    ProcessOptions,
    RankLaunch,
    Secret,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._wrap import tokens, wrapped
from hypothesis import given, settings
from hypothesis import strategies as st

from .launches import IMAGE, make_launch, make_rank

LONG = json.dumps(
    {"use_prefill_query_quantization": True, "mla_prefill_backend": "flashinfer", "note": "it's " * 30}
)


def only(rank: RankLaunch) -> Launch:
    return make_launch(ranks=(rank,))


def as_shell_sees(text: str, variables: dict[str, str] | None = None) -> list[str]:
    """The words that a shell makes of a command."""
    script = "show() { for word; do printf '%s\\0' \"$word\"; done; }\nshow " + text
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, env=variables or {})
    return done.stdout.decode().split("\0")[:-1]


def test_body_of_a_container() -> None:
    body = _render.create_body(make_launch(), make_rank(1), {"l": "v"}, {"hub": "s3cret"}, {"TOKEN": "t"})
    assert body["Image"] == IMAGE.id
    assert body["Cmd"] == [
        "moonshotai/Kimi-K3",
        "--tensor-parallel-size",
        "8",
        "--node-rank",
        "1",
        "--headless",
    ]
    assert "Entrypoint" not in body
    assert body["Env"] == ["VLLM_HOST_IP=10.0.0.1", "HF_TOKEN=s3cret", "TOKEN=t"]
    host = body["HostConfig"]
    assert host["DeviceRequests"] == [
        {"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
    ]
    assert host["Mounts"] == [{"Type": "bind", "Source": "/models", "Target": "/models", "ReadOnly": True}]
    assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert (host["NetworkMode"], host["IpcMode"], host["ShmSize"]) == ("host", "host", 1024)
    assert host["RestartPolicy"] == {"Name": "no"}


@pytest.mark.parametrize(
    ("gpus", "config", "words"),
    [
        (Gpus(), {"Count": -1}, ["--gpus", "all"]),
        (Gpus("request", ("GPU-a",)), {"Count": 0, "DeviceIDs": ["GPU-a"]}, ["--gpus", "device=GPU-a"]),
        (
            Gpus("request", ("GPU-a", "GPU-b")),
            {"DeviceIDs": ["GPU-a", "GPU-b"]},
            ["--gpus", '"device=GPU-a,GPU-b"'],
        ),
        (Gpus("cdi", ("all",)), {"Driver": "cdi"}, ["--device", "nvidia.com/gpu=all"]),
    ],
)
def test_gpus(gpus: Gpus, config: dict[str, object], words: list[str]) -> None:
    rank = make_rank(0, container=ContainerOptions(gpus=gpus))
    (request,) = _render.create_body(only(rank), rank, secrets={"hub": "x"})["HostConfig"]["DeviceRequests"]
    assert config.items() <= request.items()
    said = as_shell_sees(_render.command_text(only(rank), rank))
    assert words == said[(at := said.index(words[0])) : at + 2]


def test_gpus_of_the_runtime() -> None:
    rank = make_rank(0, container=ContainerOptions(gpus=Gpus("runtime", ("GPU-a",))), env={})
    body = _render.create_body(only(rank), rank)
    assert (body["Env"], body["HostConfig"]["Runtime"]) == (["NVIDIA_VISIBLE_DEVICES=GPU-a"], "nvidia")
    text = _render.command_text(only(rank), rank)
    assert "--runtime nvidia" in text
    assert "-e NVIDIA_VISIBLE_DEVICES=GPU-a" in text
    assert "--name" not in text


@pytest.mark.parametrize(
    ("entrypoint", "argv", "expected"),
    [
        (None, ("vllm", "serve", "m"), (None, ["m"])),
        (("vllm", "serve"), ("vllm", "serve", "m"), (["vllm"], ["serve", "m"])),
        (("vllm",), ("vllm", "serve", "m"), (["vllm"], ["serve", "m"])),
        (("/init",), ("vllm", "serve", "m"), (["/init"], ["vllm", "serve", "m"])),
        ((), ("python3", "-m", "vllm", "serve", "m"), ([""], ["python3", "-m", "vllm", "serve", "m"])),
    ],
)
def test_entrypoint(entrypoint: object, argv: tuple[str, ...], expected: object) -> None:
    rank = make_rank(0, container=ContainerOptions(entrypoint=entrypoint), argv=argv, env={})
    body = _render.create_body(only(rank), rank)
    assert (body.get("Entrypoint"), body["Cmd"]) == expected
    said = as_shell_sees(_render.command_text(only(rank), rank))
    after = said[said.index(IMAGE.id) + 1 :]
    assert after == body["Cmd"]
    if entrypoint is not None:
        assert said[said.index("--entrypoint") + 1] == body["Entrypoint"][0]


def test_the_image_s_own_entrypoint_takes_vllm_serve_only() -> None:
    rank = make_rank(0, argv=("python3", "-m", "vllm", "serve", "m"), env={})
    with pytest.raises(BaselineError, match="entrypoint"):
        _render.create_body(only(rank), rank)


def test_the_shown_command_says_what_the_body_says() -> None:
    options = ContainerOptions(
        "gpufleet-run-001-0",
        shm_size=1073741824,
        mounts=(Mount("/models/a b", "/models", True), Mount("cache", "/root/.cache")),
        ulimits={"memlock": -1, "nofile": 1048576},
        devices=("/dev/infiniband", "/dev/a:/dev/b:r"),
        cap_add=("IPC_LOCK",),
        privileged=True,
        security_opt=("seccomp=unconfined",),
        group_add=("44",),
        workdir="/srv",
        user="1000:1000",
    )
    rank = make_rank(0, container=options, env={"A": "b c", "HF_TOKEN": Secret("hub")})
    assert as_shell_sees(_render.command_text(only(rank), rank)) == [
        *(
            "docker",
            "run",
            "--pull",
            "never",
            "--detach",
            "--name",
            "gpufleet-run-001-0",
            "--network",
            "host",
        ),
        *(
            "--user",
            "1000:1000",
            "--workdir",
            "/srv",
            "--privileged",
            "--cap-add",
            "IPC_LOCK",
            "--group-add",
            "44",
        ),
        *("--ipc", "host", "--shm-size", "1073741824", "--security-opt", "seccomp=unconfined"),
        *("--ulimit", "memlock=-1:-1", "--ulimit", "nofile=1048576:1048576", "--device", "/dev/infiniband"),
        *("--device", "/dev/a:/dev/b:r", "--gpus", "all"),
        *("--mount", "type=bind,source=/models/a b,target=/models,readonly"),
        *("--mount", "type=volume,source=cache,target=/root/.cache", "-e", "A=b c", "-e", "HF_TOKEN"),
        *(IMAGE.id, "moonshotai/Kimi-K3", "--tensor-parallel-size", "8", "--node-rank", "0"),
    ]


def test_no_secret_is_shown_and_none_is_missed() -> None:
    rank = make_rank(0)
    assert "-e HF_TOKEN " in _render.command_text(only(rank), rank).replace("\\\n", "")
    assert _render.secret_names(rank) == ["hub"]
    with pytest.raises(BaselineError, match="tray0: expected the secret hub for HF_TOKEN"):
        _render.create_body(only(rank), rank, secrets={"other": "x"})


def process(**changes: object) -> RankLaunch:
    options = ProcessOptions("/opt/venv/bin/vllm", "/srv/models")
    return replace(make_rank(0, container=None, process=options), **changes)


def test_a_process() -> None:
    start = _render.process_start(process(), {"hub": "s"}, {"GPUFLEET_BASELINE_TOKEN": "t"})
    assert start.argv[:3] == ["/opt/venv/bin/vllm", "serve", "moonshotai/Kimi-K3"]
    assert start.env == {"VLLM_HOST_IP": "10.0.0.0", "HF_TOKEN": "s", "GPUFLEET_BASELINE_TOKEN": "t"}
    assert start.cwd == "/srv/models"


def test_the_shown_command_of_a_process() -> None:
    launch = make_launch(engine="process", image=None, ranks=(process(),))
    text = _render.command_text(launch, launch.ranks[0])
    assert text.startswith('cd /srv/models && env VLLM_HOST_IP=10.0.0.0 HF_TOKEN="$HF_TOKEN"')
    words = as_shell_sees(text.partition("&& ")[2], {"HF_TOKEN": "a b"})
    assert words[:4] == ["env", "VLLM_HOST_IP=10.0.0.0", "HF_TOKEN=a b", "/opt/venv/bin/vllm"]
    with pytest.raises(BaselineError, match="expected a rank that is a container"):
        _render.create_body(launch, launch.ranks[0])


@pytest.mark.parametrize("value", [LONG, "x" * 300, "'" * 120, "a\nb" * 60, "\\" * 130])
def test_long_words_are_cut_and_put_together_again(value: str) -> None:
    rank = make_rank(0, argv=("vllm", "serve", "m", "--attention-config", value, "--seed", "1"), env={})
    text = _render.command_text(only(rank), rank)
    if "\n" not in value:
        assert max(map(len, text.splitlines())) <= 100
    assert as_shell_sees(text)[-4:] == ["--attention-config", value, "--seed", "1"]


WORD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)


@settings(max_examples=40)
@given(st.lists(WORD, min_size=1, max_size=8), st.integers(20, 60))
def test_a_wrapped_command_is_the_same_command(words: list[str], columns: int) -> None:
    text = wrapped([shlex.quote(word) for word in words], columns)
    assert as_shell_sees(text) == words


def test_tokens_keep_their_quotes() -> None:
    assert tokens("""a 'b c' "$D" $'e\\'f g' h""") == ["a", "'b c'", '"$D"', "$'e\\'f g'", "h"]
