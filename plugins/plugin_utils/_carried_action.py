# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Base of the action plugins whose module needs libraries on the host (private to the collection)."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._carry import carried_archive


class CarriedActionBase(ActionBase):
    """Runs the module of the same name with the carried libraries as one of its arguments. Never async."""

    _supports_async = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module and return its result."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        result.update(self.run_module(dict(self._task.args), task_vars or {}))
        return result

    def run_module(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Execute the module on the host with ``arguments`` and the carried libraries."""
        try:
            arguments["carried_libraries"] = carried_archive()
        except BaselineError as error:
            raise AnsibleActionFail(str(error)) from error
        result: dict[str, Any] = self._execute_module(
            module_name=self._task.action, module_args=arguments, task_vars=task_vars
        )
        return result
