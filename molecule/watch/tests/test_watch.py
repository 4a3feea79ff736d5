# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts of two hosts watched over ssh: each way in which a start can go has its own ending."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from ansible_collections.gpufleet.baseline.tests.lab import Node
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for

Start = Callable[..., Any]
Watch = Callable[..., Any]

# Prints what a start of vLLM prints up to its weights, then does one thing without a word.
BEGINS = """
import time, threading
now = time.strftime("%m-%d %H:%M:%S")
print("(EngineCore pid=7) INFO %s [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: x" % now)
print("(EngineCore pid=7) INFO %s [gpu_model_runner.py:1] Starting to load model my/model..." % now)
"""
LOADS = """
for _second in range(45):
    open("/dev/zero", "rb").read(2 << 20)
    time.sleep(1)
print("INFO:     Application startup complete.")
time.sleep(1000)
"""
SPINS = """
def waits_in_nccl():
    while True:
        pass
waits_in_nccl()
"""


def seconds(text: str) -> float:
    """A time of Docker, which has nanoseconds."""
    return datetime.fromisoformat(text[:26] + "+00:00").timestamp()


def test_two_hosts_become_ready_together(nodes: list[Node], start: Start, watch: Watch) -> None:
    group = ("--tensor-parallel-size", "2", "--nnodes", "2", "--master-addr", nodes[0].address)
    head = start(nodes[0], "healthy-v032", *group, "--node-rank", "0")
    follower = start(nodes[1], "healthy-v032", *group, "--node-rank", "1", "--headless", rank=1, port=None)
    watched = watch(head, follower).finish()
    assert {host: result["outcome"] for host, result in watched.results.items()} == {
        "n1": "ready",
        "n2": "ready",
    }, watched.output
    assert "to stop: ansible-playbook gpufleet.baseline.clean" in watched.output
    stages = [event["stage"] for event in watched.events("n1", 0) if event["kind"] == "stage"]
    assert "weights" in stages
    assert "Application startup complete" in watched.log("n1", 0)
    shown = [line for line in watched.output.splitlines() if " rank " in line]
    assert max(map(len, shown)) <= 100
    samples = [event for event in watched.events("n1", 0) if event["kind"] == "sample"]
    assert samples[-1]["gpu_memory"]


def test_an_exit_is_noticed_and_ends_the_wait_of_the_sibling(
    nodes: list[Node], start: Start, watch: Watch
) -> None:
    first = start(nodes[0], "weights-oom", env={"LAB_TIME_FACTOR": "1"})
    second = start(nodes[1], "hang-in-weights", rank=1)
    watched = watch(first, second).finish()
    assert watched.results["n1"]["outcome"] == "failed", watched.output
    assert watched.results["n1"]["exit"]["exit_code"] == 1
    assert watched.results["n2"]["outcome"] == "sibling"
    assert "n1 rank 0 ended the wait: failed" in watched.results["n2"]["reason"]
    noticed = next(
        event["time"]
        for event in watched.events("n1", 0)
        if event["kind"] == "state" and event["running"] is False
    )
    print(f"noticed {noticed - seconds(first.state()['FinishedAt']):.2f} s after FinishedAt")
    assert second.state()["Running"], "the watch stops nothing"


def test_a_hang_keeps_where_its_threads_are(nodes: list[Node], start: Start, watch: Watch) -> None:
    engine = start(nodes[0], "hang-in-engine")
    watched = watch(engine, engine=15, weights=15, devices=15, container=15).finish()
    result = watched.results["n1"]
    assert (result["outcome"], result["stage"]) == ("hung", "engine"), watched.output
    threads = [group for process in result["evidence"]["ranks"]["0"] for group in process["threads"]]
    assert threads
    assert any(group["wchan"] or group["stack"] for group in threads)
    assert engine.state()["Running"], "the watch stops nothing"


def test_a_silent_load_is_no_hang(nodes: list[Node], start: Start, watch: Watch) -> None:
    engine = start(nodes[0], program=BEGINS + LOADS)
    watched = watch(engine, weights=20, container=20).finish()
    assert watched.results["n1"]["outcome"] == "ready", watched.output
    assert watched.results["n1"]["watched_seconds"] > 25


def test_a_spinning_rank_is_hung(nodes: list[Node], start: Start, watch: Watch) -> None:
    engine = start(nodes[0], program=BEGINS + SPINS)
    watched = watch(engine, weights=20, container=20).finish()
    result = watched.results["n1"]
    assert (result["outcome"], result["stage"]) == ("hung", "weights"), watched.output
    busiest = result["evidence"]["ranks"]["0"][0]["threads"][0]
    assert (busiest["state"], busiest["cpu_percent"] >= 30) == ("R", True)


def test_a_new_holder_disturbs(nodes: list[Node], start: Start, watch: Watch) -> None:
    engine = start(nodes[0], "hang-in-weights")
    watched = watch(engine)
    wait_for(lambda: bool(watched.events("n1", 0)), "the watch to begin", seconds=90)
    pid = nodes[0].hold("1", "1024", "alice", "train.py")
    try:
        result = watched.finish().results["n1"]
        assert result["outcome"] == "disturbed", watched.output
        assert result["holders"][0]["pid"] == pid
    finally:
        nodes[0].run(["kill", "-KILL", str(pid)])


def test_a_host_that_is_cut_off_is_unreachable_and_its_sibling_ends(
    nodes: list[Node], start: Start, watch: Watch
) -> None:
    first, second = start(nodes[0], "hang-in-weights"), start(nodes[1], "hang-in-weights", rank=1)
    watched = watch(first, second)
    wait_for(lambda: bool(watched.events("n2", 1)), "the watch to begin", seconds=90)
    nodes[1].cut()
    try:
        watched.finish()
    finally:
        nodes[1].heal()
    assert watched.results["n2"]["outcome"] == "unreachable", watched.output
    assert watched.results["n1"]["outcome"] == "sibling"
    assert "n2 rank 1 ended the wait: unreachable" in watched.results["n1"]["reason"]
