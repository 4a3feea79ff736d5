# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task has registered for the hosts of a playbook run (pure; private to the collection, controller only).

The last play of a playbook sees by it that something was done: Ansible counts a play that matched no host as success.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_HOST = "no host matched (a misspelt group or an empty inventory or limit)"
LOOK = "check gpufleet_hosts, the inventory and --limit"


def registered(task_vars: Mapping[str, Any], variable: str, key: str) -> list[Mapping[str, Any]]:
    """The results under a variable of any host that came so far as to have the key."""
    hostvars = task_vars["hostvars"]
    found = [hostvars[name].get(variable) for name in hostvars]
    return [result for result in found if isinstance(result, Mapping) and result.get(key) not in (None, "")]
