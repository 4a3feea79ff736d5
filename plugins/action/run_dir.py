# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Opens a run on the controller; connects to no host."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._fixed_request import read_request
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._group_secrets import GroupSecrets
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import (
    controller_identity,
    make_reproduction,
    open_run,
    read_key,
    today,
)


class ActionModule(ActionBase):
    """Called once for the group; called again by the same controller process it gives the same run."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the run's path, name and reproduction."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            {
                "reproduction": {"type": "str", "default": ""},
                "kind": {"type": "str", "required": True},
                "document": {"type": "dict", "default": {}},
                "request_file": {"type": "str", "default": ""},
            }
        )
        if arguments["kind"] == "freeze":
            _refuse_batches(task_vars or {})
        reproduction = Path(arguments["reproduction"] or today()).expanduser().absolute()
        try:
            read_request(arguments["request_file"])
        except BaselineError as error:
            raise AnsibleActionFail(str(error)) from None
        if self._play_context.check_mode:
            return {**result, "changed": False, "path": "", "run": "", "reproduction": str(reproduction)}
        begin = {"kind": arguments["kind"], "ansible_core": ansible_version, **arguments["document"]}
        try:
            # Workers are children of the controller process, which is one for the whole playbook run.
            make_reproduction(reproduction)
            begin = GroupSecrets(read_key(reproduction)).redact(begin)
            run = open_run(reproduction, controller_identity(os.getppid()), begin)
        except BaselineError as error:
            raise AnsibleActionFail(str(error)) from None
        except OSError as error:
            raise AnsibleActionFail(
                f"expected to open a run in {reproduction}, found: {error.strerror}; "
                "choose another place for the reproduction"
            ) from None
        return {
            **result,
            "changed": False,
            "path": str(run.path),
            "run": run.name,
            "reproduction": str(reproduction),
        }


def _refuse_batches(task_vars: dict[str, Any]) -> None:
    """One run holds the whole group, whose records are tested against each other; a batch would be a run of its own."""
    batch, hosts = (task_vars.get(name) or [] for name in ("ansible_play_batch", "ansible_play_hosts"))
    if len(batch) < len(hosts):
        raise AnsibleActionFail(
            f"run_dir: expected all {len(hosts)} hosts of the play at once, found a batch of {len(batch)}; "
            "take serial out of the play"
        )
