# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends the module fixed_request to the host, and keeps its document in the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._carried_action import CarriedActionBase
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._fixed_request import (
    read_api_key,
    read_request,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._requests_kept import keep
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run


class ActionModule(CarriedActionBase):
    """See the module of the same name."""

    def run_module(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Run the module on the host; what it returns is written down before anything else can fail."""
        run = Run(Path(arguments["run"])) if arguments.get("run") else None
        host = str(task_vars.get("inventory_hostname", ""))
        body_file, key_file = (str(arguments.pop(name, None) or "") for name in ("body_file", "api_key_file"))
        try:
            if body_file:
                arguments["body"] = read_request(body_file, "body_file")
            if key_file:
                arguments["api_key"] = read_api_key(key_file)
            if run is not None:
                arguments["redaction_key"] = run.key().hex()
                arguments.setdefault("request_id", f"gpufleet-{run.reproduction.name}-{run.name}")
            result = super().run_module(arguments, task_vars)
            request = result.get("request")
            if run is not None and isinstance(request, dict) and not self._play_context.check_mode:
                request["host"] = host
                result["file"] = str(keep(run, request))
        except BaselineError as error:
            raise AnsibleActionFail(f"fixed_request: {error}") from None
        return result
