# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement as the document gate.json (private to the collection, controller only; pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Result

SCHEMA = "gpufleet.baseline/gate/1"


def document(
    result: Result, about: Mapping[str, Any], exceptions: list[Any], score: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything that was judged; ``about`` says which run, when, and by whom."""
    case = result.case
    state = case.recipe
    verdicts = result.host_verdicts()
    return {
        "schema": SCHEMA,
        **about,
        "verdict": result.verdict,
        "good": result.good,
        "rules": result.counts(),
        "boundary": case.boundary.as_dict(),
        "launch": {"hosts": case.launch.hosts, "gpus": case.launch.gpus, "image": case.launch.image}
        if case.launch
        else None,
        "recipe": {
            "pin": state.pin,
            "pin_age_days": state.pin_age_days,
            "configured": state.configured,
            "commit": state.live_commit,
            "read_at": state.live_read_at,
            "unreachable": state.unreachable,
            "changed": state.changed_since_last_run,
            "differences": [difference.as_dict() for difference in state.differences],
        },
        "hosts": {
            host.name: {
                "verdict": verdicts[host.name],
                "reason": host.reason,
                "time": host.time,
                "run": host.run,
            }
            for host in case.hosts
        },
        "odd_hosts": result.odd_hosts(),
        "needs_root": result.needs_root(),
        "findings": [finding.as_dict() for finding in result.findings],
        "ended_waivers": [waiver.as_dict() for waiver in result.ended_waivers],
        # Probes that started something on a host: exceptions to the promise of touching nothing.
        "exceptions": exceptions,
        "score": dict(score),
    }
