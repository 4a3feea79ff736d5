# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waivers: a rule that is known not to hold, with the reason and an end (private to the collection,
controller only; pure).

A waived finding stays in every output and counts as a warning. A waiver that has ended waives nothing and
is named.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

KEYS = {"rule", "reason", "until", "hosts"}


@dataclass(frozen=True)
class Waiver:
    """One waiver; without hosts it holds for all of them and for the group."""

    rule: str
    reason: str
    until: datetime.date
    hosts: tuple[str, ...] = ()

    def holds(self, today: datetime.date) -> bool:
        """Whether it has not ended; its last day counts."""
        return today <= self.until

    def covers(self, rule: str, host: str) -> bool:
        """Whether it is about a finding; a finding of the group has no host."""
        return rule == self.rule and (not self.hosts or host in self.hosts)

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return {
            "rule": self.rule,
            "reason": self.reason,
            "until": self.until.isoformat(),
            "hosts": list(self.hosts),
        }


def parse_waivers(items: Sequence[Any], rules: Iterable[str]) -> list[Waiver]:
    """Waivers as a user gives them; anything that is not understood is an error."""
    known = set(rules)
    return [_parse(item, f"waiver {number}", known) for number, item in enumerate(items, 1)]


def _parse(item: Any, where: str, known: set[str]) -> Waiver:
    if not isinstance(item, dict) or not set(item) <= KEYS:
        raise BaselineError(
            f"{where}: expected rule, reason, until and perhaps hosts, found {str(item)[:80]}"
        )
    rule, reason, hosts = item.get("rule"), item.get("reason"), item.get("hosts") or []
    if rule not in known:
        raise BaselineError(f"{where}: expected the id of a rule, found {rule}; the table shows the ids")
    if not isinstance(reason, str) or not reason.strip():
        raise BaselineError(
            f"{where} ({rule}): expected a reason, found none; say why the rule may be broken"
        )
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise BaselineError(f"{where} ({rule}): expected a list of host names, found {str(hosts)[:80]}")
    try:
        until = datetime.date.fromisoformat(str(item.get("until")))
    except ValueError as error:
        raise BaselineError(
            f"{where} ({rule}): expected until as a day such as 2026-12-31, found {item.get('until')}"
        ) from error
    return Waiver(str(rule), reason.strip(), until, tuple(hosts))
