# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several nodes of the stand-in engine: they meet, serve, and lose one another as real ones did."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.lab._engine import (
    CHAT,
    Engine,
    free_port,
)


def two_nodes(engine: Callable[..., Engine], world: int = 2, **settings: str) -> tuple[Engine, Engine]:
    flags = ["-tp", str(world), "--nnodes", "2", "--master-addr", "127.0.0.1"]
    flags += ["--master-port", str(free_port())]
    head = engine(*flags, "--node-rank", "0", **settings)
    return head, engine(*flags, "--node-rank", "1", "--headless", **settings)


@pytest.mark.parametrize("scenario", ["healthy", "healthy-v032"])
def test_two_nodes_serve_together(scenario: str, engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO=scenario)
    head.ready()
    assert head.ask("/v1/chat/completions", CHAT)[0] == 200
    assert follower.process.poll() is None
    assert b"headless multiproc executor, with head node address 127.0.0.1:" in follower.log()
    assert b"APIServer" not in follower.log()
    follower.process.terminate()
    assert follower.exit_code() == 0


def test_every_rank_of_a_wider_launch_speaks(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, world=8)
    head.ready()
    for run, ranks in ((head, range(4)), (follower, range(4, 8))):
        log = run.log().decode()
        met = re.findall(r"pid=(\d+)\) .*world_size=(\d+) rank=(\d+) local_rank=(\d+)", log)
        assert [(int(world), int(rank), int(local)) for _pid, world, rank, local in met] == [
            (8, rank, rank - ranks[0]) for rank in ranks
        ]
        assert len({pid for pid, *_rest in met}) == 4
        assert {int(rank) for rank in re.findall(r"\(Worker_TP(\d) pid=", log)} == set(ranks)


def test_a_head_waits_for_the_absent_node(engine: Callable[..., Engine]) -> None:
    head = engine("-tp", "2", "--nnodes", "2", "--master-port", str(free_port()), "--node-rank", "0")
    head.until(lambda: b"rank=0" in head.log())
    assert head.ask("/health", timeout=1) == (0, None)
    assert head.process.poll() is None


def test_a_hang_of_the_head_in_its_weights_leaves_the_follower_waiting(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO="hang-in-weights")
    head.until(lambda: b"Completed | 0/4" in head.log())
    follower.until(lambda: b"Model loading took" in follower.log())
    assert head.process.poll() is follower.process.poll() is None
    assert b"Completed | 4/4" not in head.log()


def test_a_master_port_in_use(engine: Callable[..., Engine]) -> None:
    with socket.create_server(("", 0)) as other:
        port = str(other.getsockname()[1])
        head = engine("-tp", "2", "--nnodes", "2", "--node-rank", "0", "--master-port", port)
        assert head.exit_code() == 1
    assert b"EADDRINUSE" in head.log()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_nccl_does_not_notice_that_a_follower_is_gone(
    how: signal.Signals, engine: Callable[..., Engine]
) -> None:
    head, follower = two_nodes(engine, LAB_TIME_FACTOR="0.005", VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS="1")
    head.ready()
    follower.process.send_signal(how)
    assert head.ask("/health") == (200, "")
    assert head.ask("/v1/chat/completions", CHAT)[0] == 500
    assert head.exit_code() == 0
    assert head.log().count(b"No available shared memory broadcast block found in 60 seconds") > 1
    assert b"TimeoutError: RPC call to sample_tokens timed out." in head.log()
    assert len(set(re.findall(rb"\(EngineCore pid=(\d+)\)", head.log()))) == 1
    assert len(set(re.findall(rb"\(APIServer pid=(\d+)\)", head.log()))) == 1


def test_gloo_notices_that_a_follower_is_gone(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO="healthy-v032")
    head.ready()
    follower.process.kill()
    follower.process.wait()
    assert head.ask("/health") == (200, "")
    assert head.ask("/v1/chat/completions", CHAT)[0] == 500
    assert head.exit_code() == 0
    assert b"Connection closed by peer" in head.log()


def test_a_follower_stays_and_complains_when_the_head_is_gone(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine)
    head.ready()
    head.process.kill()
    follower.until(lambda: b"recvValue failed" in follower.log())
    assert follower.process.poll() is None


def test_a_follower_on_gloo_speaks_of_it_only_when_it_computed(engine: Callable[..., Engine]) -> None:
    head, follower = two_nodes(engine, LAB_SCENARIO="healthy-v032")
    head.ready()
    follower.process.send_signal(signal.SIGSTOP)
    assert head.ask("/v1/chat/completions", CHAT, timeout=1) == (0, None)
    head.process.kill()
    head.process.wait()
    follower.process.send_signal(signal.SIGCONT)
    follower.until(lambda: b"Connection closed by peer" in follower.log())
    assert follower.process.poll() is None
