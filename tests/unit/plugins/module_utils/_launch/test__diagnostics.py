# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diagnostic variables: set for a run, and gone from the next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch import _diagnostics
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import DIAGNOSTICS

from .launches import make_launch


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("none", {}),
        ("logs", {"VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_LOG_STATS_INTERVAL": "1"}),
        ("nccl", {"VLLM_LOGGING_LEVEL": "DEBUG", "NCCL_DEBUG": "INFO"}),
        ("blocking", {"CUDA_LAUNCH_BLOCKING": "1"}),
        ("trace", {"VLLM_TRACE_FUNCTION": "1", "NCCL_DEBUG": "TRACE"}),
    ],
)
def test_every_rank_has_them(level: str, expected: dict[str, str]) -> None:
    launch = _diagnostics.with_diagnostics(make_launch(), level, finished=["logs"])
    assert launch.diagnostics == level
    assert [expected.items() <= rank.env.items() for rank in launch.ranks] == [True, True]


def test_all_levels_of_the_document_have_variables() -> None:
    assert tuple(_diagnostics.VARIABLES) == DIAGNOSTICS


def test_trace_only_after_logs_and_with_its_warning() -> None:
    with pytest.raises(BaselineError, match="diagnostics=logs first"):
        _diagnostics.with_diagnostics(make_launch(), "trace", finished=["nccl"])
    assert _diagnostics.TRACE_WARNING in _diagnostics.with_diagnostics(make_launch(), "trace", ["logs"]).notes


def test_an_unknown_level_is_told() -> None:
    with pytest.raises(BaselineError, match="found loud"):
        _diagnostics.with_diagnostics(make_launch(), "loud")


def test_what_is_left_in_an_environment_is_found() -> None:
    kept = {"NCCL_DEBUG": "INFO"}
    assert _diagnostics.left({"PATH": "/bin", "NCCL_DEBUG": "INFO", "VLLM_TRACE_FUNCTION": "1"}, kept) == [
        "VLLM_TRACE_FUNCTION"
    ]
    assert _diagnostics.left({"NCCL_DEBUG": "TRACE"}, kept) == ["NCCL_DEBUG"]
    assert _diagnostics.left({"PATH": "/bin"}, {}) == []


def test_ranks_that_ask_for_them_themselves() -> None:
    launch = make_launch()
    asking = replace(launch.ranks[1], env={"NCCL_DEBUG": "WARN"})
    assert _diagnostics.asked_for(replace(launch, ranks=(launch.ranks[0], asking))) == {1: ["NCCL_DEBUG"]}
    assert _diagnostics.asked_for(launch) == {}
