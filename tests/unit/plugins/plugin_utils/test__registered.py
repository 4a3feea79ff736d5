# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.action import freeze_report, gate, request_report
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._registered import registered


def test_only_results_that_came_far_enough_count() -> None:
    hosts: dict[str, dict[str, Any]] = {
        "localhost": {},
        "n1": {"__done": "text"},
        "n2": {"__done": {"failed": True, "msg": "no room"}},
        "n3": {"__done": {"sent": 0}},
        "n4": {"__done": {"sent": None}},
    }
    assert registered({"hostvars": hosts}, "__done", "sent") == [{"sent": 0}]


@pytest.mark.parametrize("module", [freeze_report, gate, request_report])
def test_a_playbook_that_did_nothing_fails_and_says_where_to_look(module: Any) -> None:
    found = module.confirm({"hostvars": {"localhost": {}}})
    assert found["failed"]
    assert "no host matched" in found["msg"]
    assert "--limit" in found["msg"]


def test_requests_that_were_sent_are_confirmed() -> None:
    closed = {"__request_closed": {"failed": True, "answered": 0, "sent": 3}}
    assert request_report.confirm({"hostvars": {"n1": closed}}) == {"answered": 0, "sent": 3}
