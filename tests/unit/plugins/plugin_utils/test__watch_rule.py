# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A silent load is no hang, a spinning rank is one: the rule by itself, with a clock of its own."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rule import (
    LIMITS,
    SAME_LINE_AT_MOST,
    Activity,
    Seen,
    limits_with,
    pace,
)

MIB = 1024 * 1024
GIB = 1024 * MIB
LIMIT = {"weights": 900.0, "engine": 900.0, "container": 120.0}


def watched(stage, samples, step=30.0):
    """When a single rank counts as hung, None if it never does."""
    activity = Activity(0.0)
    for number, sample in enumerate(samples, 1):
        now = number * step
        activity.sample(now, sample)
        if pace([Seen("a rank 0", stage, activity.at, activity.what)], now, LIMIT).stalled:
            return now
    return None


def test_fifty_silent_minutes_of_loading_are_no_hang():
    # 1.4 TB over a slow network file system: no line, no change of GPU memory, CPU nearly idle
    reads = [
        {"bytes_read": n * 14 * GIB, "gpu_memory": {"G": GIB}, "cpu_seconds": n * 0.4} for n in range(100)
    ]
    assert watched("weights", reads) is None


def test_pages_of_mapped_files_are_read_without_read():
    mapped = [{"bytes_read": 7, "bytes_from_disk": n * 14 * GIB} for n in range(100)]
    assert watched("weights", mapped) is None


def test_weights_that_only_go_to_the_gpu_are_no_hang():
    copied = [{"bytes_read": 7, "rank_gpu_memory": {"G": n * 64 * MIB}} for n in range(100)]
    assert watched("weights", copied) is None


def test_a_spinning_rank_is_a_hang_whatever_its_cpu_time():
    spinning = [
        {"bytes_read": 5 * GIB, "rank_gpu_memory": {"G": 40 * GIB}, "cpu_seconds": 120.0 * n, "threads": 300}
        for n in range(100)
    ]
    assert watched("engine", spinning) == 930.0


def test_what_monitors_and_sockets_read_is_no_load():
    # 16 KiB a second are 480 KiB between two samples, and never a MiB within a minute
    trickle = [{"bytes_read": n * 480 * 1024} for n in range(100)]
    assert watched("engine", trickle) == 930.0


def test_a_mebibyte_a_minute_is_progress():
    slow = [{"bytes_read": n * MIB} for n in range(100)]
    assert watched("engine", slow) is None


def test_a_sum_that_falls_because_a_process_ended_is_no_progress():
    falling = [{"bytes_read": (100 - n) * GIB} for n in range(100)]
    assert watched("engine", falling) == 930.0


def test_memory_of_other_processes_does_not_count_where_the_own_is_known():
    noise = [{"rank_gpu_memory": {"G": GIB}, "gpu_memory": {"G": n * GIB}} for n in range(100)]
    assert watched("engine", noise) == 930.0


def test_any_rank_keeps_the_group_alive():
    ranks = [Seen("a rank 0", "engine", 0.0, "a line"), Seen("b rank 1", "weights", 5000.0, "bytes read")]
    found = pace(ranks, 5800.0, LIMIT)
    assert not found.stalled
    assert found.since == 5000.0


def test_the_most_patient_stage_of_the_group_counts():
    ranks = [Seen("a rank 0", "container", 0.0, "its start"), Seen("b rank 1", "weights", 0.0, "bytes read")]
    assert not pace(ranks, 800.0, LIMIT).stalled
    found = pace(ranks, 901.0, LIMIT)
    assert (found.stalled, found.limit) == (True, 900.0)
    assert "901 s" in found.reason


def test_t42_nothing_is_called_hung_before_the_engines_own_bound():
    assert min(LIMITS[stage] for stage in ("devices", "weights", "engine")) >= 3600.0


def test_the_same_line_again_and_again_tells_nothing():
    activity = Activity(0.0)
    said = [activity.line(float(n), f"INFO Still waiting for peer 3, {n} s") for n in range(1, 40)]
    assert said[:SAME_LINE_AT_MOST] == ["a line"] * SAME_LINE_AT_MOST
    assert set(said[SAME_LINE_AT_MOST:]) == {""}
    assert activity.at == SAME_LINE_AT_MOST


def test_a_count_that_moves_always_tells_something():
    activity = Activity(0.0)
    assert all(activity.line(float(n), f"Loading checkpoint shards: {n}% | {n}/62") for n in range(1, 63))
    for n in range(50):
        activity.line(200.0 + n, "Loading checkpoint shards: 62% | 62/62")
    assert activity.at == 200.0 + SAME_LINE_AT_MOST - 1


def test_a_bar_counts_when_it_moves():
    activity = Activity(0.0)
    assert activity.progress_bar(1.0, "Capturing CUDA graphs: 34%|███▍      | 12/35 [00:03<00:05]")
    assert not activity.progress_bar(2.0, "Capturing CUDA graphs: 34%|███▍      | 12/35 [00:04<00:06]")
    assert activity.progress_bar(3.0, "Capturing CUDA graphs: 37%|███▋      | 13/35 [00:04<00:06]")
    assert not activity.progress_bar(4.0, "something without a count")
    assert activity.at == 3.0


def test_limits_are_merged_and_wrong_names_refused():
    assert limits_with({"engine": "1200"})["engine"] == 1200.0
    assert limits_with({})["weights"] == LIMITS["weights"]
    with pytest.raises(ValueError, match="found wieghts"):
        limits_with({"wieghts": 1})
