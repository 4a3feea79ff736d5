# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rebuilt command, pasted into a shell, makes a container whose inspect is the first one's."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_command import rebuild

TABLE: dict[str, list[str]] = {
    "nothing": [],
    "arguments": ["--", "sleep", "10 0", "it's", 'say "x"', "$HOME", "a\nb", "", "back\\slash", "*", "é"],
    "entrypoint of one word": ["--entrypoint", "sleep", "--", "77"],
    "entrypoint without arguments": ["--entrypoint", "cat"],
    "entrypoint removed": ["--entrypoint", "", "--", "sleep", "5"],
    "environment": ["-e", "A=1", "-e", "B=two words", "-e", "C=", "-e", "D=a=b", "-e", "E=it's $HOME\nx"],
    "environment over the image's": ["-e", "OF_THE_IMAGE=other"],
    "environment of the image removed": ["-e", "OF_THE_IMAGE"],
    "binds": ["-v", "/tmp:/in:ro", "-v", "/usr:/usr2:ro,rslave"],
    "mounts": [
        *("--mount", "type=bind,source=/usr,target=/m1,readonly"),
        *("--mount", "type=bind,source=/usr,target=/m2,bind-propagation=rslave"),
        *("--mount", "type=tmpfs,target=/m3,tmpfs-size=1048576,tmpfs-mode=1770"),
    ],
    "a mount with a comma": ["--mount", 'type=bind,"source=/tmp",target=/m1'],
    "tmpfs": ["--tmpfs", "/scratch", "--tmpfs", "/run:size=65536k,mode=755"],
    "anonymous volume": ["-v", "/data"],
    "all GPUs": ["--gpus", "all"],
    "two GPUs by index": ["--gpus", '"device=0,1"'],
    "one GPU by UUID": ["--gpus", "device=GPU-a0000000-0000-4000-8000-000000000000"],
    "a number of GPUs": ["--gpus", "2"],
    "GPUs with capabilities": ["--gpus", 'all,"capabilities=compute,utility"'],
    "GPUs of a driver": ["--gpus", "all,driver=nvidia"],
    "devices": ["--device", "/dev/null:/dev/xnull:r", "--device", "/dev/zero"],
    "device rules": ["--device-cgroup-rule", "c 195:* rwm"],
    "capabilities": ["--cap-add", "SYS_NICE", "--cap-add", "IPC_LOCK", "--cap-drop", "MKNOD"],
    "security": ["--security-opt", "seccomp=unconfined", "--security-opt", "no-new-privileges"],
    "system paths": ["--security-opt", "systempaths=unconfined"],
    "privileged": ["--privileged"],
    "host namespaces": ["--ipc", "host", "--pid", "host", "--uts", "host", "--network", "host"],
    "shareable ipc": ["--ipc", "shareable"],
    "no network": ["--network", "none"],
    "ports": ["-p", "127.0.0.1:18000:8000", "-p", "18001:8001/udp", "-p", "9000", "--expose", "9100"],
    "all ports": ["-P"],
    "names": ["--hostname", "tray1", "--domainname", "example.net", "--add-host", "head:10.0.0.1"],
    "resolver": ["--dns", "10.0.0.53", "--dns-search", "example.net", "--dns-option", "ndots:2"],
    "shared memory": ["--shm-size", "16g"],
    "limits": ["--ulimit", "memlock=8192:8192", "--ulimit", "stack=67108864", "--ulimit", "nofile=1024:2048"],
    "sysctls": ["--sysctl", "net.core.somaxconn=512"],
    "restart always": ["--restart", "always"],
    "restart on failure": ["--restart", "on-failure:3"],
    "removed at the end": ["--rm"],
    "labels": ["--label", "a=b c", "--label", "com.docker.compose.project=p", "--label", "empty"],
    "user": ["--user", "1000:44", "--group-add", "44", "--workdir", "/data"],
    "health check": [
        *("--health-cmd", "cat /etc/passwd || exit 1", "--health-interval", "1500ms"),
        *("--health-timeout", "3s", "--health-retries", "4", "--health-start-period", "1m"),
    ],
    "no health check": ["--no-healthcheck"],
    "logging": ["--log-driver", "local", "--log-opt", "max-size=10m", "--log-opt", "max-file=3"],
    "options of the default log": ["--log-opt", "max-size=1m"],
    "memory": [
        "-m",
        "256m",
        "--memory-swap",
        "512m",
        "--memory-reservation",
        "64m",
        "--memory-swappiness",
        "0",
    ],
    "processors": ["--cpus", "1.5", "--cpuset-cpus", "0", "--cpu-shares", "512"],
    "processor quota": ["--cpu-period", "100000", "--cpu-quota", "50000"],
    "control group": ["--cgroupns", "private", "--pids-limit", "100", "--oom-score-adj", "100"],
    "init and signals": ["--init", "--stop-signal", "SIGINT", "--stop-timeout", "30"],
    "terminal": ["-t", "-i"],
    "read-only root": ["--read-only"],
    "memory killer off": ["--oom-kill-disable", "-m", "64m"],
}

# What cannot be equal: identity, time, places on the disk, run-time state, and who watched the first one.
IGNORED = ("Id", "Created", "State", "RestartCount", "GraphDriver", "NetworkSettings", "Name", "SizeRw")
IGNORED += (
    "ResolvConfPath",
    "HostnamePath",
    "HostsPath",
    "LogPath",
    "ExecIDs",
    "AppArmorProfile",
    "MountLabel",
)
IGNORED_CONFIG = ("Image", "AttachStdin", "AttachStdout", "AttachStderr", "StdinOnce", "Entrypoint", "Cmd")


def normal(inspect: dict[str, Any]) -> dict[str, Any]:
    """An inspect without what cannot be equal; entrypoint and command are compared as Path and Args."""
    inspect = json.loads(json.dumps(inspect))
    short = inspect["Id"][:12]
    networks = inspect["NetworkSettings"]["Networks"] or {}
    for name in IGNORED:
        inspect.pop(name, None)
    for name in IGNORED_CONFIG:
        inspect["Config"].pop(name, None)
    if inspect["Config"]["Hostname"] == short:
        inspect["Config"]["Hostname"] = "the short id"
    inspect["Config"]["Env"] = sorted(inspect["Config"]["Env"] or [])
    inspect["HostConfig"].pop("ContainerIDFile", None)
    inspect["HostConfig"].pop("ConsoleSize", None)
    # The client keeps binds in a map, so it gives them in any order.
    inspect["HostConfig"]["Binds"] = sorted(inspect["HostConfig"]["Binds"] or [])
    for mount in inspect["Mounts"]:
        if mount["Type"] == "volume" and len(mount["Name"]) == 64:
            mount["Name"] = mount["Source"] = "anonymous"
    inspect["Mounts"].sort(key=lambda mount: mount["Destination"])
    inspect["networks"] = {
        name: {
            "ipam": network["IPAMConfig"],
            "aliases": sorted(set(network["Aliases"] or []) - {short}),
        }
        for name, network in networks.items()
    }
    return inspect


def round_trip(
    docker: Any, name: str, image: str, environment: dict[str, str] | None = None
) -> tuple[Any, Any, Any]:
    """(first inspect, second inspect, rebuilt command), both normal."""
    first = docker.inspect(name)
    info = json.loads(docker("info", "--format", "{{json .}}"))
    run = rebuild(first, docker.inspect(image, "image"), info)
    docker.remove("container", name)
    # A start may fail here for want of a GPU or a capability; the container is made before that.
    subprocess.run(
        ["sh", "-c", run.text()], env={**os.environ, **(environment or {})}, capture_output=True, check=False
    )
    return normal(first), normal(docker.inspect(name)), run


@pytest.mark.parametrize("case", TABLE)
def test_pasted_command_makes_the_same_container(docker: Any, image: str, case: str) -> None:
    options = TABLE[case]
    words = options.index("--") if "--" in options else len(options)
    name = docker.name()
    docker("create", "--name", name, *options[:words], image, *options[words + 1 :])
    first, second, _run = round_trip(docker, name, image)
    assert second == first


def test_pasted_command_joins_the_same_network(docker: Any, image: str) -> None:
    network, name = docker.name("network"), docker.name()
    docker("network", "create", "--subnet", "172.31.231.0/24", network)
    docker(
        "create",
        "--name",
        name,
        "--network",
        network,
        "--ip",
        "172.31.231.9",
        "--network-alias",
        "head",
        image,
    )
    first, second, _run = round_trip(docker, name, image)
    assert second == first
    assert first["networks"][network]["ipam"]["IPv4Address"] == "172.31.231.9"


def test_pasted_command_mounts_the_same_volume(docker: Any, image: str) -> None:
    volume, name = docker.name("volume"), docker.name()
    docker("create", "--name", name, "--mount", f"type=volume,source={volume},target=/v,volume-nocopy", image)
    first, second, _run = round_trip(docker, name, image)
    assert second == first
    assert first["Mounts"][0]["Name"] == volume


def test_network_that_no_option_can_say_is_a_note(docker: Any, image: str) -> None:
    network, name = docker.name("network"), docker.name()
    docker("network", "create", "--subnet", "172.31.232.0/24", network)
    docker("create", "--name", name, image)
    docker("network", "connect", network, name)
    first, _second, run = round_trip(docker, name, image)
    assert network in first["networks"]
    assert f"then: docker network connect {network} {name}" in run.notes


def test_secrets_come_from_the_callers_environment(docker: Any, image: str) -> None:
    name = docker.name()
    secret = {
        "HF_TOKEN": "hf_canaryCANARYcanary",
        "VLLM_API_KEY": "sk-canary-1",
        "HTTPS_PROXY": "http://u:canary@p:3128",
    }
    docker(
        *("create", "--name", name, *[word for item in secret.items() for word in ("-e", "=".join(item))]),
        *(
            image,
            "sleep",
            "9",
            "--api-key",
            "canary-2 x",
            "--api-key=canary-3",
            "--max-num-batched-tokens",
            "8192",
        ),
    )
    first, second, run = round_trip(
        docker, name, image, {**secret, "API_KEY": "canary-2 x", "API_KEY_2": "canary-3"}
    )
    assert "canary" not in run.text().lower()
    assert run.secrets == ["API_KEY", "API_KEY_2", "HF_TOKEN", "HTTPS_PROXY", "VLLM_API_KEY"]
    assert second["Config"]["Env"] == first["Config"]["Env"]
    assert second["Args"] == [
        "9",
        "--api-key",
        "canary-2 x",
        "--api-key=canary-3",
        "--max-num-batched-tokens",
        "8192",
    ]
    assert "# set before: API_KEY API_KEY_2 HF_TOKEN HTTPS_PROXY VLLM_API_KEY" in run.text()


def test_seccomp_profile_is_a_file_beside_the_command(
    docker: Any, image: str, tmp_path: Any, monkeypatch: Any
) -> None:
    profile = tmp_path / "mine.json"
    profile.write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    name = docker.name()
    docker("create", "--name", name, "--security-opt", f"seccomp={profile}", image)
    run = rebuild(docker.inspect(name), docker.inspect(image, "image"), {})
    monkeypatch.chdir(tmp_path)
    for path, content in run.files.items():
        (tmp_path / path).write_text(content)
    first, second, _run = round_trip(docker, name, image)
    assert second == first
    assert "seccomp-profile.json must hold the profile that stands under files" in run.notes


def test_the_image_is_pinned_although_its_name_moved(docker: Any, image: str) -> None:
    """T45: the same name, another build."""
    name, tag = docker.name(), docker.name("image")
    docker("tag", image, tag)
    docker("create", "--name", name, tag)
    docker("build", "--tag", tag, "-", stdin=f"FROM {image}\nENV ANOTHER=build\n".encode())
    first, second, run = round_trip(docker, name, image)
    assert second["Image"] == first["Image"] == docker.inspect(image, "image")["Id"]
    assert run.notes[0].startswith(f"image {tag}, no digest")
