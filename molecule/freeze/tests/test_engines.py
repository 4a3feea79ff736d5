# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engines in containers: in every state, with every kind of log, on the host's own Docker."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Node
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for
from conftest import PROJECT, Frozen, Record, variables

Freeze = Callable[..., Frozen]
MODEL = "/models/kimi-k3"


def start(
    node: Node,
    image: str,
    name: str,
    *options: str,
    scenario: str = "healthy",
    arguments: tuple[str, ...] = (),
) -> None:
    node.docker(
        "run", "-d", "--name", name, "-e", f"LAB_SCENARIO={scenario}", *options, image, MODEL, *arguments
    )


def state(node: Node, name: str, what: str) -> str:
    return node.docker("inspect", "-f", "{{.State.%s}}" % what, name).out.strip()


def ended(node: Node, name: str) -> Callable[[], bool]:
    return lambda: state(node, name, "Status") == "exited"


def says(node: Node, name: str, text: str) -> Callable[[], bool]:
    def said() -> bool:
        logs = node.docker("logs", "--tail", "200", name)
        return text in logs.out + logs.err

    return said


@pytest.fixture
def frozen(node: Node, stand_in: str, freeze: Freeze) -> Record:
    """One freeze over a running, an exited and a restarting engine, and a container that is none of our business."""
    start(node, stand_in, "runs", "--gpus", '"device=0,1"', "-p", "8000:8000", "--shm-size", "1g")
    start(
        node,
        stand_in,
        "failed",
        "--gpus",
        "all",
        scenario="weights-truncated-shard",
        arguments=("--api-key", "sk-canary-canary-canary-1234"),
    )
    start(node, stand_in, "loops", "--restart", "always", scenario="devices-error803")
    node.docker("run", "-d", "--name", "bystander", "--entrypoint", "sleep", stand_in, "600")
    wait_for(says(node, "runs", "Application startup complete"), "the engine to serve")
    wait_for(ended(node, "failed"), "the engine to fail")
    wait_for(lambda: int(node.docker("inspect", "-f", "{{.RestartCount}}", "loops").out) > 0, "a restart")
    result = freeze("-l", "n1")
    assert result.code == 0, result.output
    return result.record()


def test_engines_in_every_state(frozen: Record, node: Node) -> None:
    runs, failed, loops = (frozen.container(name) for name in ("runs", "failed", "loops"))
    assert runs["state"]["status"] == "running"
    assert (failed["state"]["status"], failed["state"]["exit_code"]) == ("exited", 1)
    # T11: by id, with the number of restarts
    assert loops["restart_count"] > 0
    assert loops["id"] == node.docker("inspect", "-f", "{{.Id}}", "loops").out.strip()

    # versions without exec, also of the exited one
    for container in (runs, failed):
        assert container["versions"]["value"]["vllm"] == ["0.32.0"]
        assert container["versions"]["value"]["torch"] == ["2.13.0+cu130"]

    # the way of asking for GPUs, and what came of it
    assert runs["gpu_request"]["device_requests"][0]["DeviceIDs"] == ["0", "1"]
    assert len(runs["visible_devices"]["value"]["uuids"]) == 2

    # the first failure of each
    assert frozen.verdict("failed")["verdict"]["stage"] == "weights"
    # The restarting one may be between two failures; its log tells of an earlier one then.
    assert "devices" in {run["stage"] for run in frozen.verdict("loops")["verdict"]["runs"]}
    assert "stage devices (driver-803" in " ".join(frozen.text("five-questions.txt").split())
    assert frozen.verdict("runs")["verdict"]["outcome"] == "ready"

    # T20: the key that the engine printed into its log is gone, and the log is there
    assert b"sk-canary" not in frozen.everything
    assert "non-default args" in frozen.text("containers/failed/log.txt.gz")

    # T16, T18: nothing was executed in a container, nothing started
    events = node.docker("events", "--since", "60s", "--until", "0s", "--format", "{{.Action}}").out
    assert "exec_create" not in events

    # the five questions stand first, and each is answered
    text = frozen.text("five-questions.txt")
    assert "container failed" in text
    assert "failed in stage weights" in text
    assert "4 x" in str(frozen.facts["gpu"]["summary"])

    # the rebuilt command starts the same container again
    command = frozen.text("containers/runs/docker-run.sh")
    node.docker("rm", "-f", "runs")
    node.sh(command)
    again = node.docker(
        "inspect", "-f", "{{.HostConfig.ShmSize}} {{.HostConfig.DeviceRequests}} {{.Config.Cmd}}", "runs"
    ).out
    assert again == "1073741824 [{ 0 [0 1] [[gpu]] map[]}] [/models/kimi-k3]\n"


def test_a_container_that_is_removed_while_it_is_read(node: Node, stand_in: str, freeze: Freeze) -> None:
    """T11: a loop starts and removes containers all the time; the freeze names what it could not read and ends well."""
    script = (
        f"while true; do docker run -d --name gone --entrypoint sleep {stand_in} 600 >/dev/null; "
        "docker rm -f gone >/dev/null; echo removed; done"
    )
    with subprocess.Popen(
        ["docker", "exec", node.container, "sh", "-c", script], stdout=subprocess.PIPE
    ) as loop:
        try:
            result = freeze("-l", "n1")
        finally:
            node.sh("pkill -f 'while true; do docker run'")
        assert loop.stdout is not None
        assert loop.stdout.read().count(b"removed") > 1
    assert result.code == 0, result.output
    record = result.record()
    for container in record.facts["engine"]["containers"]:
        assert container["id"]
        assert container["name"] == "gone"
    # Containers that came and went are listed, for nobody can tell from outside whose they were.
    assert any(record.json("before-after.json")["differences"]["containers"].values())


# Long lines: Docker writes them much faster than short ones.
NOISE = f"yes 'INFO:     10.0.0.7:51034 - \"GET /metrics?{'x' * 700} HTTP/1.1\" 200 OK' | head -n 205000"


def test_t9_a_log_of_300_mb_with_its_only_traceback_in_the_middle(
    node: Node, stand_in: str, freeze: Freeze
) -> None:
    """Head, tail and the window round the first failure are kept, and what was cut is said."""
    script = f"echo first; {NOISE}; LAB_SCENARIO=weights-truncated-shard vllm serve m; {NOISE}; echo last"
    node.docker("run", "-d", "--name", "large", "--entrypoint", "sh", stand_in, "-c", script)
    wait_for(ended(node, "large"), "the log to be written", seconds=120)
    result = freeze("-l", "n1", *variables(freeze_log_limit_mib=8, freeze_containers=["large"]))
    assert result.code == 0, result.output
    record = result.record()
    kept = record.manifest["members"]["containers/large/log.txt.gz"]
    assert kept["bytes_seen"] > 300_000_000
    assert kept["bytes_kept"] < 12_000_000
    assert sum(cut["bytes"] for cut in kept["cuts"]) + kept["bytes_kept"] >= kept["bytes_seen"]
    # Not splitlines(): progress bars hold carriage returns, which end no line of a log.
    lines = record.text("containers/large/log.txt.gz").split("\n")
    assert lines[0].endswith(" first")
    assert lines[-1] == ""
    assert lines[-2].endswith(" last")
    verdict = record.verdict("large")["verdict"]
    assert (verdict["stage"], verdict["failure_class"]) == ("weights", "checkpoint-corrupt")
    assert "SafetensorError" in lines[verdict["exception_line"] - 1]


def test_t10_a_log_whose_head_was_rotated_away(node: Node, stand_in: str, freeze: Freeze) -> None:
    start(
        node, stand_in, "rotated", "--log-opt", "max-size=1m", "--log-opt", "max-file=2", "-e", "LAB_LOG_BYTES=6000000"
    )  # fmt: skip
    path = node.docker("inspect", "-f", "{{.LogPath}}", "rotated").out.strip()
    wait_for(lambda: node.run(["test", "-e", path + ".1"], check=False).rc == 0, "a rotated log")
    wait_for(
        lambda: "startup complete" not in node.sh(f"cat {path}.1 {path}").out,
        "the head to be gone",
        seconds=60,
    )
    record = freeze("-l", "n1").record()
    kept = record.manifest["members"]["containers/rotated/log.txt.gz"]
    # A file that was rotated is read before the current one: times never go back.
    lines = record.text("containers/rotated/log.txt.gz").splitlines()
    # The fraction of a second is written without its last zeros.
    times = [line.split("Z ")[0].ljust(len("2026-11-30T23:16:27.700808804"), "0") for line in lines]
    assert times == sorted(times)
    assert kept["bytes_read"] > 1_000_000
    assert kept["head_missing"] is True
    assert "rotated away" in kept["head_missing_reason"]


def test_a_container_of_compose_with_its_files(node: Node, stand_in: str, freeze: Freeze) -> None:
    compose = (
        f"services:\n  engine:\n    image: {stand_in}\n    command: {MODEL}\n"
        "    environment:\n      HF_TOKEN: hf_canarycanarycanarycanary00\n"
    )
    node.put("/srv/kimi/compose.yaml", compose)
    start(
        node, stand_in, "kimi-engine-1",
        "--label", "com.docker.compose.project=kimi", "--label", "com.docker.compose.service=engine",
        "--label", "com.docker.compose.project.working_dir=/srv/kimi",
        "--label", "com.docker.compose.project.config_files=/srv/kimi/compose.yaml",
    )  # fmt: skip
    record = freeze("-l", "n1").record()
    kept = next(name for name in record.files if "/compose/" in name)
    assert "command: /models/kimi-k3" in record.text(kept)
    assert b"hf_canary" not in record.everything
    assert record.container("kimi-engine-1")["compose"]["project"] == "kimi"


def test_an_engine_without_a_container(node: Node, freeze: Freeze) -> None:
    """A vLLM that runs as a plain process, its output in a file."""
    engine = (PROJECT / "tests/lab/engine/stand_in.py").read_bytes()
    node.put("/opt/vllm/bin/vllm", engine, mode=0o755)
    for path in (PROJECT / "tests/lab/engine/recordings").iterdir():
        node.put(f"/opt/vllm/bin/recordings/{path.name}", path.read_bytes())
    node.sh(
        "cd / && LAB_SCENARIO=healthy LAB_TIME_FACTOR=0.05 HF_TOKEN=hf_canarycanarycanarycanary11 "
        "setsid /opt/vllm/bin/vllm serve /models/kimi-k3 --port 8123 >/var/log/vllm.log 2>&1 </dev/null &"
    )
    try:
        wait_for(
            lambda: "startup complete" in node.sh("cat /var/log/vllm.log", check=False).out,
            "the engine to serve",
        )
        record = freeze("-l", "n1").record()
    finally:
        node.sh("pkill -f /opt/vllm/bin/vllm; rm -rf /opt/vllm /var/log/vllm.log")
    engines = record.facts["engine"]["plain_processes"]
    assert len(engines) == 1
    pid = engines[0]["pid"]
    assert "startup complete" in record.text(f"processes/{pid}/log.txt.gz")
    assert f"process {pid}: /usr/bin/python3 /opt/vllm/bin/vllm serve" in " ".join(
        record.text("five-questions.txt").split()
    )
    assert b"hf_canary" not in record.everything
    assert any(
        value.startswith("HF_TOKEN=<redacted HF_TOKEN")
        for value in record.json(f"processes/{pid}/process.json")["environ"]
    )
