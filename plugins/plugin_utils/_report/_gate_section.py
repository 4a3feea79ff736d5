# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate's part of the report: the matrix of hosts and rules, and the score (pure; private, controller only)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report._page import Section

# The worst first, as somebody reads it who was just woken up.
ORDER = ("fail", "undecided", "warn", "pass", "not applicable")
SIGNS = {"fail": "FAIL", "undecided": "?", "warn": "warn", "pass": "ok", "not applicable": "-"}


def gate_section(gate: Mapping[str, Any]) -> Section:
    """From the document gate.json."""
    hosts = list(gate["hosts"])
    rows = _rows(gate, hosts)
    judged = [row for row in rows if row["worst"] != "not applicable"]
    return Section(
        "Gate",
        "gate.html.j2",
        {
            "verdict": gate["verdict"],
            "boundary": gate["boundary"],
            "hosts": [{"name": host, **gate["hosts"][host]} for host in hosts],
            "odd": [f"{host}: {', '.join(_words(what))}" for host, what in gate["odd_hosts"].items()],
            "rows": judged,
            "problems": [row for row in judged if row["worst"] in ("fail", "undecided", "warn")],
            "unasked": [row for row in rows if row["worst"] == "not applicable"],
            "sources": [str(source.get("location", "")) for source in gate["sources"]],
        },
    )


def score_section(score: Mapping[str, Any]) -> Section:
    """From the score in gate.json."""
    return Section("Score", "score.html.j2", {"score": score})


def _rows(gate: Mapping[str, Any], hosts: list[str]) -> list[dict[str, Any]]:
    """One row for each rule, the worst rules first; a finding of the group stands in every host's cell."""
    rows: dict[str, dict[str, Any]] = {}
    for finding in gate["findings"]:
        row = rows.setdefault(
            finding["rule"], {"rule": finding["rule"], "title": finding["title"], "cells": {}, "findings": []}
        )
        row["findings"].append(finding)
        for host in finding["hosts"] or hosts:
            before = row["cells"].get(host)
            if before is None or ORDER.index(finding["verdict"]) < ORDER.index(before):
                row["cells"][host] = finding["verdict"]
    for row in rows.values():
        verdicts = [finding["verdict"] for finding in row["findings"]]
        row["worst"] = min(verdicts, key=ORDER.index)
        row["cells"] = [
            {
                "verdict": row["cells"].get(host, "not applicable"),
                "sign": SIGNS[row["cells"].get(host, "not applicable")],
            }
            for host in hosts
        ]
    return sorted(rows.values(), key=lambda row: ORDER.index(row["worst"]))


def _words(what: Any) -> list[str]:
    return [str(item) for item in what] if isinstance(what, (list, tuple)) else [str(what)]
