# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._render import render_timeline

from . import worked
from .scenes import failure, head, judge, loading, worker_gone, workers

CASES = worked.load()


def test_stages_ranks_and_first_failure_in_aligned_columns() -> None:
    raised = "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"
    log = head() + workers() + loading()
    log += failure("Worker_TP1 pid=301", "10:00:30", "WorkerProc failed to start.", "load_weights", raised)
    assert render_timeline(judge(log + worker_gone())).splitlines() == [
        "Stages",
        "  entered         left      node  rank  process     stage    substage",
        "  08-09 10:00:00            0           APIServer   weights  model-config",
        "  08-09 10:00:00            0           EngineCore  devices  init-device",
        "  08-09 10:00:10  10:00:20  0     0     Worker_TP0  engine   process-group",
        "  08-09 10:00:10            0     1     Worker_TP1  engine   process-group",
        "  08-09 10:00:20            0     0     Worker_TP0  weights  load",
        "",
        "Ranks",
        "  rank  node  process     what",
        "  0     0     Worker_TP0  no failure, last line at 08-09 10:00:20",
        "  1     0     Worker_TP1  failed 08-09 10:00:30, line 8: checkpoint-corrupt",
        "        0     APIServer   failed 08-09 10:00:40, line 16: engine-start-failed",
        "        0     EngineCore  failed 08-09 10:00:40, line 12: worker-failed",
        "",
        "First failure",
        "  outcome     failed",
        "  stage       weights / load",
        "  class       checkpoint-corrupt",
        "  where       node 0, node0.log:8",
        "  process     Worker_TP1, rank 1",
        "  time        08-09 10:00:30",
        "  says        safetensors_rust.SafetensorError: Error while deserializing header:",
        "              MetadataIncompleteBuffer",
        "  followed    2 more failures, all after it",
        "  confidence  high: The text names a cause and nothing failed before it; other kinds of failure",
        "              that followed: 2.",
        "  next        Compare size and checksum of each shard with the repository's list; a pointer file",
        "              of git-lfs is a few lines of text.",
    ]


@pytest.mark.skipif(not CASES, reason=worked.MISSING)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("width", [60, 100])
def test_no_line_is_wider_than_the_terminal(case: worked.Case, width: int) -> None:
    text = render_timeline(case.judge(), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.endswith("\n")


def test_escape_sequences_of_a_log_do_not_reach_the_terminal() -> None:
    raised = "RuntimeError: \x1b]0;title\x07 \x9b31m red"
    log = head() + failure(
        "EngineCore pid=80", "10:00:30", "EngineCore failed to start.", "load_model", raised
    )
    assert all(character.isprintable() or character == "\n" for character in render_timeline(judge(log)))
