# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closes a run of fixed requests on the controller, and shows what came; connects to no host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._registered import LOOK, NO_HOST, registered
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._request_summary import good, render
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._requests_kept import kept

KIND = "request"
CLOSED = "__request_closed"
NOTHING_ASKED = f"request: nothing was asked: {NO_HOST}, or the play ended before the requests; {LOOK}"


class ActionModule(ActionBase):
    """Called once, after the requests; the task fails when one was not answered, or nothing was asked."""

    _supports_check_mode = False
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return how many were answered."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            {"run": {"type": "str", "default": ""}, "confirm": {"type": "bool", "default": False}}
        )
        if arguments["confirm"]:
            return {**result, "changed": False, **confirm(task_vars or {})}
        if not arguments["run"]:
            raise AnsibleActionFail("request_report: expected the option run, the path that run_dir returned")
        try:
            return {**result, "changed": False, **self._close(_run.Run(Path(arguments["run"])))}
        except (BaselineError, OSError) as error:
            raise AnsibleActionFail(f"request_report: {error}") from None

    def _close(self, run: _run.Run) -> dict[str, Any]:
        requests = kept(run)
        answered = sum(request.get("answered", 0) for request in requests)
        sent = sum(request.get("sent", 0) for request in requests)
        _run.finish(
            run,
            KIND,
            {
                "state": _run.COMPLETE,
                "ended": _run.now(),
                "answered": answered,
                "sent": sent,
                "good": good(requests),
            },
        )
        shutil.rmtree(run.work_directory, ignore_errors=True)
        _run.write_checksums(run, {})
        where = [
            ("run", str(run.path)),
            ("documents", "request/NNN.json: bodies, times, metrics, GPU memory"),
        ]
        for line in [
            "",
            *render(f"Fixed request {run.name}: {answered} of {sent} answered", requests, where),
            "",
        ]:
            self._display.display(line)
        if not good(requests):
            message = (
                f"request: {answered} of {sent} fixed requests were answered as they should; see {run.path}"
            )
            return {"failed": True, "msg": message, "answered": answered, "sent": sent}
        return {"answered": answered, "sent": sent}


def confirm(task_vars: dict[str, Any]) -> dict[str, Any]:
    """See that requests were sent in this playbook run."""
    closed = registered(task_vars, CLOSED, "sent")
    if not closed:
        return {"failed": True, "msg": NOTHING_ASKED}
    return {"answered": closed[0]["answered"], "sent": closed[0]["sent"]}
