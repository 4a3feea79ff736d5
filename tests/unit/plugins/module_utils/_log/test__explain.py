# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""A failure that is seen of a peer: never sure while the peer's log is missing, and the peer is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import LogSource, judge_files

from .scenes import failure, follower, head, judge, record, worker_gone, workers

RECORDINGS = Path(__file__).parents[4] / "lab" / "engine" / "recordings"
TWO_NODES = "{'model': 'm', 'tensor_parallel_size': 2, 'nnodes': 2}"
JOINED = (
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined."
)


def alone(options: str, text: str = JOINED) -> list[str]:
    return head(options=options) + failure(
        "EngineCore pid=80", "10:10:30", "EngineCore failed to start.", "init_process_group", text
    )


@pytest.mark.parametrize("options", [TWO_NODES, "{'model': 'm'}"])
def test_a_head_that_waited_for_its_clients_cannot_know_why_they_did_not_come(options: str) -> None:
    verdict = judge(alone(options))
    assert (verdict["outcome"], verdict["failure_class"], verdict["confidence"]) == (
        "failed",
        "rendezvous-timeout",
        "low",
    )
    assert verdict["advice"].startswith("Look at node 1: ")
    assert "the log of node 1 is not here" in verdict["reason"]


def test_with_the_peer_s_log_there_is_no_such_doubt() -> None:
    verdict = judge(alone(TWO_NODES), follower())
    assert "is not here" not in verdict["reason"]
    assert not verdict["advice"].startswith("Look at node")


def test_a_follower_that_did_not_reach_its_head_names_the_head() -> None:
    logs = [LogSource(str(RECORDINGS / "engine-rendezvous-timeout.node1.log"), 1)]
    verdict = judge_files(logs)
    assert verdict["confidence"] == "low"
    assert "node 0" in str(verdict["advice"])


def test_several_missing_peers_are_all_named() -> None:
    verdict = judge(alone("{'model': 'm', 'nnodes': 4}"))
    assert verdict["advice"].startswith("Look at nodes 1, 2, 3: ")


def test_a_failure_of_the_host_itself_stays_sure_without_the_others() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 1.00 GiB is free."
    lines = head(options=TWO_NODES) + workers(world=2, count=1)
    lines += [record("Worker pid=300", "10:00:20", "gpu_model_runner.py:5308", "Starting to load model m...")]
    lines += failure(
        "Worker pid=300", "10:00:30", "WorkerProc failed to start.", "load_model", text
    ) + worker_gone("10:00:31")
    verdict = judge(lines)
    assert (verdict["stage"], "is not here" in verdict["reason"]) == ("weights", False)
    assert verdict["confidence"] != "low"


@pytest.mark.parametrize("name", ["peer-silent", "peer-silent-v032"])
def test_a_peer_that_fell_silent_is_named_by_its_node(name: str) -> None:
    """The recordings are the ends of logs; their beginning told of two nodes."""
    text = (RECORDINGS / f"{name}.node0.log").read_text("utf-8")
    end = [line for line in text.splitlines() if not line.startswith("#|")]
    verdict = judge(head(options=TWO_NODES) + end)
    assert verdict["failure_class"] == "engine-stalled-rpc-timeout"
    assert verdict["confidence"] == "low"
    assert "look at node 1." in verdict["message"]
    assert verdict["advice"].startswith("Look at node 1: ")
