# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._sheet import Tried, markdown, sheet

STABLE = {
    "outcome": "stable",
    "stage": "none",
    "requests": [{"answered": 3}],
    "signature": {},
    "diagnostics": "none",
}
FAILED = {
    "outcome": "failed", "stage": "devices", "failure_class": "no-gpu", "host": "tray2",
    "signature": {"stage": "devices"},
    "message": "no | device \x1b[31mfound\x1b[0m <b>", "diagnostics": "nccl",
}  # fmt: skip


def page(verdict: dict[str, Any], **more: Any) -> dict[str, Any]:
    return sheet(Tried("run-003", "minimal launch", hosts=("tray1", "tray2"), **more), verdict, "then", "now")


def test_a_stable_attempt_says_what_it_does_not_show() -> None:
    document = page(STABLE)
    assert document["observation"] == "stable: every rank ready, 3 of the fixed requests answered"
    assert (document["only_change"], document["first_failed_stage"]) == ("none: the first attempt", "none")
    assert any("load" in text for text in document["does_not_show"])


def test_a_failed_attempt_names_stage_class_and_host() -> None:
    document = page(FAILED, only_change="--max-model-len 4096 -> 32768", parent="run-002")
    assert document["observation"].startswith("failed in devices with no-gpu on tray2: no | device found")
    assert any("diagnostics were on (nccl)" in text for text in document["does_not_show"])


def test_the_page_for_people_keeps_its_table_and_no_terminal_can_be_reached() -> None:
    text = markdown(page(FAILED, command="docker run \\\n  x"))
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith("| seen"))
    assert row.replace("\\|", "").count("|") == 3
    assert "&lt;b>" in row
    assert "    docker run \\" in text.splitlines()
