# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._request import _metrics

RECORDED = Path(__file__).parents[4] / "lab" / "engine" / "recordings" / "metrics.txt"


def test_every_kept_name_stands_in_metrics_of_a_real_server() -> None:
    assert set(_metrics.read(RECORDED.read_text("utf-8"))) == set(_metrics.KEPT)


def test_values_are_summed_over_engines_and_reasons() -> None:
    text = (
        "# TYPE vllm:request_success counter\n"
        'vllm:request_success_total{engine="0",finished_reason="stop"} 3.0\n'
        'vllm:request_success_total{engine="1",finished_reason="a } b"} 2.0\n'
        "vllm:num_requests_running NaN\nvllm:num_requests_waiting nonsense\nvllm:unknown 1\nvllm:broken{\n"
    )
    assert _metrics.read(text) == {_metrics.FINISHED: 5.0}


def test_a_counter_that_was_set_back_or_is_missing_did_not_grow_by_anything_known() -> None:
    assert _metrics.grown({"a": 1.0}, {"a": 3.0}, "a") == 2.0
    assert _metrics.grown({"a": 3.0}, {"a": 1.0}, "a") is None
    assert _metrics.grown({}, {"a": 1.0}, "a") is None


@pytest.mark.parametrize(
    ("finished", "sent", "answered", "word"),
    [
        (2, 2, 2, ""),
        (1, 2, 1, ""),
        (2, 2, 1, ""),
        (3, 2, 2, "somebody else"),
        (0, 1, 1, "something else"),
        (None, 1, 1, ""),
    ],
)
def test_the_engine_s_count_must_fit_what_was_sent(
    finished: float, sent: int, answered: int, word: str
) -> None:
    told = _metrics.disturbance(finished, sent, answered)
    assert word in told
    assert bool(told) == bool(word)


def test_the_cache_of_a_real_server_is_told_by_itself() -> None:
    found = _metrics.cache_config(RECORDED.read_text("utf-8"))
    assert set(found) == set(_metrics.CACHE_CONFIG_KEPT)
    assert (found["block_size"], found["enable_prefix_caching"], found["num_gpu_blocks"]) == (
        "128",
        "True",
        "8192",
    )


def test_quoted_characters_in_a_label_do_not_end_it() -> None:
    text = 'vllm:cache_config_info{cache_dtype="a\\"b,block_size=\\"9\\"",block_size="16"} 1.0'
    assert _metrics.cache_config(text)["block_size"] == "16"
    assert _metrics.cache_config("vllm:other 1\n") == {}
