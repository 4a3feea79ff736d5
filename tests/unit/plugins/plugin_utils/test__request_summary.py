# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._request_summary import good, render

ANSWERED: dict[str, Any] = {
    "host": "tray1", "label": "first", "outcome": "answered", "answered": 2, "sent": 2, "disturbed": "", "message": "",
    "attempts": [{"seconds": 0.31, "message": ""}, {"seconds": 1.5, "message": "the content is empty: all tokens"}],
    "gpu_memory": {"trace": [{"bytes": {"a": 0, "b": None}}, {"bytes": {"a": 64 * 1024 * 1024, "b": 1}}]},
}  # fmt: skip


def test_a_row_says_what_came_how_fast_and_what_memory_did() -> None:
    lines = render("Fixed request run-002: answered", [ANSWERED], [("run", "/r")])
    assert (
        "tray1 first                   answered         2 of 2  0.31 to 1.50 s  GPU memory +64 MiB" in lines
    )
    assert "    the content is empty: all tokens" in lines


def test_many_documents_and_long_messages_stay_on_one_screen() -> None:
    bad = {**ANSWERED, "outcome": "refused", "message": "x\x1b[2J\n" * 200}
    lines = render("t", [bad] * 50, [("run", "/r")])
    assert len(lines) <= 25
    assert all(len(line) <= 100 and "\x1b" not in line and "\n" not in line for line in lines)


def test_good_means_asked_answered_and_alone() -> None:
    assert good([ANSWERED])
    assert not good([])
    assert not good([ANSWERED, {**ANSWERED, "outcome": "timeout"}])
    assert not good([{**ANSWERED, "disturbed": "somebody else"}])
