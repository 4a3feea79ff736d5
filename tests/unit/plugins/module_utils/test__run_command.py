# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rebuilt command says where no real Engine is asked; tests/integration_docker has the rest."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import names_secret, rebuild
from hypothesis import given
from hypothesis import strategies as st


def inspect(config: dict[str, Any] | None = None, host: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "Id": "0" * 64,
        "Name": "/vllm",
        "Image": "sha256:abc",
        "Config": {"Image": "vllm/vllm-openai:kimi-k3", **(config or {})},
        "HostConfig": host or {},
    }


IMAGE: dict[str, Any] = {"Id": "sha256:abc", "RepoDigests": ["vllm/vllm-openai@sha256:1"], "Config": {}}


def words(config: dict[str, Any] | None = None, host: dict[str, Any] | None = None) -> list[str]:
    return shlex.split(" ".join(rebuild(inspect(config, host), IMAGE, {}).words))


def test_a_whole_command() -> None:
    config = {
        "Env": ["PATH=/bin", "HF_TOKEN=hf_secret", "NCCL_DEBUG=INFO"],
        "Entrypoint": ["vllm", "serve"],
        "Cmd": ["moonshotai/Kimi-K3", "--served-model-name", "k 3"],
        "Labels": {"a": "b"},
    }
    image = {**IMAGE, "Config": {"Env": ["PATH=/bin"], "Entrypoint": ["vllm", "serve"], "Labels": {}}}
    host = {
        "NetworkMode": "host",
        "IpcMode": "host",
        "DeviceRequests": [{"Driver": "", "Count": -1, "Capabilities": [["gpu"]]}],
        "Binds": ["/models:/models:ro"],
    }
    assert rebuild(inspect(config, host), image, {}).text() == (
        "# image vllm/vllm-openai:kimi-k3 = vllm/vllm-openai@sha256:1\n"
        "# set before: HF_TOKEN\n"
        "docker run \\\n"
        "  --detach \\\n"
        "  --name vllm \\\n"
        "  --network host \\\n"
        "  --volume /models:/models:ro \\\n"
        "  --ipc host \\\n"
        "  --gpus all \\\n"
        "  --label a=b \\\n"
        "  -e HF_TOKEN \\\n"
        "  -e NCCL_DEBUG=INFO \\\n"
        "  sha256:abc \\\n"
        "  moonshotai/Kimi-K3 --served-model-name 'k 3'\n"
    )


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]},
            ["--device", "nvidia.com/gpu=0"],
        ),
        ({"Count": 2, "Capabilities": [["gpu"]]}, ["--gpus", "count=2"]),
        ({"Count": 0, "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}, ["--gpus", '"device=0,1"']),
        ({"Count": -1, "Driver": "nvidia", "Capabilities": [["gpu"]]}, ["--gpus", "all,driver=nvidia"]),
        (
            {"Count": -1, "Capabilities": [["compute", "utility", "gpu"]]},
            ["--gpus", 'all,"capabilities=compute,utility"'],
        ),
    ],
)
def test_device_requests(request_: dict[str, Any], expected: list[str]) -> None:
    found = words(host={"DeviceRequests": [request_]})
    assert expected == found[found.index(expected[0]) :][:2]


def test_what_gpus_cannot_say_is_a_note() -> None:
    request = {"Count": -1, "Capabilities": [["compute"]]}
    assert any(
        "cannot be said with --gpus" in note
        for note in rebuild(inspect(host={"DeviceRequests": [request]}), IMAGE, {}).notes
    )


def test_a_health_check_without_a_shell_is_a_note() -> None:
    run = rebuild(
        inspect({"Healthcheck": {"Test": ["CMD", "curl", "a b"], "Interval": 1500000000}}), IMAGE, {}
    )
    assert "--health-cmd 'curl '\"'\"'a b'\"'\"''" in run.text()
    assert "--health-interval 1500ms" in run.text()
    assert "the health check ran without a shell; --health-cmd runs it in one" in run.notes


def test_an_image_that_is_gone_is_said_and_everything_stands_in_the_command() -> None:
    run = rebuild(inspect({"Env": ["PATH=/bin"], "Entrypoint": ["vllm"], "Cmd": ["serve"]}), {}, {})
    assert "no longer on the host" in run.notes[0]
    assert "-e PATH=/bin" in run.text()
    assert "--entrypoint vllm" in run.text()


def test_defaults_of_the_engine_are_not_repeated() -> None:
    host = {"Runtime": "nvidia", "CgroupnsMode": "host", "IpcMode": "private", "ShmSize": 67108864}
    host |= {"LogConfig": {"Type": "local", "Config": {}}, "RestartPolicy": {"Name": "no"}}
    info = {"DefaultRuntime": "nvidia", "CgroupVersion": "1", "LoggingDriver": "local"}
    assert rebuild(inspect(host=host), IMAGE, info).words == [
        "docker run",
        "--detach",
        "--name vllm",
        "sha256:abc",
    ]


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "hf_abc", True),
        ("VLLM_API_KEY", "k", True),
        ("http_proxy", "http://user:pass@proxy:3128", True),
        ("http_proxy", "http://proxy:3128", False),
        ("max-num-batched-tokens", "8192", False),
        ("tokenizer", "moonshotai/Kimi-K3", False),
        ("NCCL_DEBUG", "INFO", False),
    ],
)
def test_t25_what_a_secret_is(name: str, value: str, secret: bool) -> None:
    assert names_secret(name, value) is secret


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20), max_size=6
    )
)
def test_any_argument_survives_the_shell(arguments: list[str]) -> None:
    text = " ".join(rebuild(inspect({"Entrypoint": [], "Cmd": ["sleep", *arguments]}), IMAGE, {}).words)
    said = subprocess.run(["bash", "-c", "printf '%s\\0' " + text], capture_output=True, check=True).stdout
    found = said.decode().split("\0")[:-1]
    after = found[found.index("sha256:abc") + 1 :]
    assert after == ["sleep", *arguments] or any(
        names_secret(word.strip("-").split("=")[0], "?" * 8) for word in arguments
    )


def test_control_characters_do_not_reach_the_terminal_that_the_command_is_pasted_into() -> None:
    text = rebuild(inspect({"Labels": {"evil": "\x1b[2J it's\\"}, "Cmd": ["a\nb\x7f"]}), IMAGE, {}).text()
    assert r"--label $'evil=\033[2J it\'s\\'" in text
    assert r"$'a\012b\177'" in text


def test_two_secrets_of_one_name_have_a_variable_each() -> None:
    """The variable that is handed on keeps its name; an argument or label with another value has its own."""
    run = rebuild(
        inspect({
            "Env": ["API_KEY=first-secret"],
            "Cmd": ["--api-key", "second-secret", "--api-key=first-secret", "--api-key=third-secret"],
            "Labels": {"api_key": "second-secret"},
        }),
        {},
        {},
    )  # fmt: skip
    assert run.secrets == ["API_KEY", "API_KEY_2", "API_KEY_3"]
    assert "-e API_KEY" in run.words
    assert '--label api_key="$API_KEY_2"' in run.words
    assert run.words[-1] == '--api-key "$API_KEY_2" --api-key="$API_KEY" --api-key="$API_KEY_3"'
    assert "-secret" not in " ".join(run.words)
