# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt_summary import render, stages
from hypothesis import given
from hypothesis import strategies as st

FAILED = {
    "outcome": "failed",
    "stage": "weights",
    "failure_class": "missing-shard",
    "host": "tray2",
    "message": "no file",
    "path": "logs/tray2-1.log",
    "line": 88,
    "confidence": "high",
    "reason": "it came first",
    "advice": "compare the models",
    "exception_line": "FileNotFoundError: model-00001.safetensors",
}


def test_stages_up_to_the_first_failed_one_and_none_after_it() -> None:
    assert stages(FAILED) == "container ok, devices ok, weights failed"
    assert stages({"outcome": "hung", "stage": "engine"}).endswith("engine hung")
    assert stages({"outcome": "stable", "stage": "none"}).count("ok") == 5
    assert stages({"outcome": "failed", "stage": "runtime"}).endswith("then failed at runtime")
    assert stages({"outcome": "blocked", "stage": "none"}) == "none was judged"


def test_the_screen_says_what_failed_where_and_what_to_look_at() -> None:
    lines = render("minimal launch run-003", FAILED, [("run", "/r/run-003")])
    assert lines[0] == "minimal launch run-003: FAILED"
    text = "\n".join(lines)
    for piece in ("missing-shard", "tray2", "logs/tray2-1.log, line 88", "compare the models", "/r/run-003"):
        assert piece in text


@given(st.dictionaries(st.sampled_from(sorted(FAILED)), st.text(max_size=3000)))
def test_whatever_a_log_says_the_screen_stays_small_and_plain(found: dict[str, Any]) -> None:
    lines = render("x", {**FAILED, **found}, [("run", "/r")])
    assert len(lines) <= 25
    # The first line is the name, and the last ones stay whole.
    assert all(len(line) <= 100 for line in lines[1:-1])
    assert not any(ord(character) < 32 or character == "\x7f" for line in lines for character in line)
