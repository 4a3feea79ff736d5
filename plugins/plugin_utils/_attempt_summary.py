# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen at the end of an attempt (pure; private to the collection, controller only)."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import WIDTH, plain
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._sheet import observation

LABEL = 16
STAGES = ("container", "devices", "weights", "engine", "api")


def render(name: str, verdict: Mapping[str, Any], where: Sequence[tuple[str, str]]) -> list[str]:
    """At most 25 lines of at most 100 columns: the verdict, the stages, the requests, where everything is."""
    outcome = " ".join(str(verdict.get("outcome", "unknown")).upper().split())
    lines = [plain(f"{name}: {outcome}"), ""]
    lines += _labelled("seen", observation(verdict), 4)
    lines += _labelled("stages", stages(verdict), 2)
    if verdict.get("exception_line"):
        lines += _labelled("first failure", str(verdict["exception_line"]), 3)
    if verdict.get("path") and verdict.get("line"):
        lines += _labelled("where", f"{verdict['path']}, line {verdict['line']}", 1)
    if verdict.get("outcome") not in ("stable", None):
        lines += _labelled("how sure", f"{verdict.get('confidence', '')}: {verdict.get('reason', '')}", 2)
    if verdict.get("advice"):
        lines += _labelled("look next", str(verdict["advice"]), 2)
    for label, text in where:
        # A path or command must stay in one piece, or it cannot be copied.
        lines.append(f"{label:<{LABEL}}{plain(text)}")
    return lines


def stages(verdict: Mapping[str, Any]) -> str:
    """How far the start came, stage by stage; after the first failed one nothing is said."""
    failed = verdict.get("stage")
    if verdict.get("outcome") == "stable" or failed == "runtime":
        told = ", ".join(f"{stage} ok" for stage in STAGES)
        return told if failed != "runtime" else f"{told}; then failed at runtime"
    if failed not in STAGES:
        return "none was judged"
    word = "hung" if verdict.get("outcome") == "hung" else "failed"
    passed = [f"{stage} ok" for stage in STAGES[: STAGES.index(failed)]]
    return ", ".join([*passed, f"{failed} {word}"])


def _labelled(label: str, text: str, most: int) -> list[str]:
    wrapped = textwrap.wrap(plain(" ".join(text.split())), WIDTH - LABEL, break_on_hyphens=False) or [""]
    if len(wrapped) > most:
        wrapped = [
            *wrapped[: most - 1],
            textwrap.shorten(" ".join(wrapped[most - 1 :]), WIDTH - LABEL, placeholder=" ..."),
        ]
    return [f"{label if number == 0 else '':<{LABEL}}{line}".rstrip() for number, line in enumerate(wrapped)]
