# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests one fetched record against what the other hosts of the run keep secret; connects to no host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._group_secrets import host_digests
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._leak_check import find_leaks, untestable
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import (
    Run,
    read_json,
    safe_name,
    write_json,
)

QUARANTINED = "quarantined"


class ActionModule(ActionBase):
    """A record with a hit is moved aside, and the closing of the run fails as a leak."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return ``state`` (frozen, quarantined, or what the freeze gave) and the ``leaks`` by member and name."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            {"run": {"type": "str", "required": True}, "host": {"type": "str", "required": True}}
        )
        run, host = Run(Path(arguments["run"])), arguments["host"]
        result["changed"] = False
        if self._play_context.check_mode or not run.work(host).exists():
            return {**result, "state": "", "leaks": []}
        document = read_json(run.work(host))
        if not run.record(host).exists():
            return {**result, "state": document["state"], "leaks": []}
        try:
            digests = host_digests(run)
            leaks = find_leaks(run.record(host), digests, run.key(), host)
        except (BaselineError, OSError) as error:
            document["leaks"], reason = [], f"it could not be tested for secrets of other hosts: {error}"
        else:
            document["leaks"] = [f"{leak.member}: {leak.name} of {leak.value_of_host}" for leak in leaks]
            document["untestable_secrets"] = untestable(digests, host)
            reason = f"holds a secret of another host: {document['leaks'][0]}" if leaks else ""
        if reason:
            _quarantine(run, host)
            document.update(state=QUARANTINED, reason=reason)
        write_json(run.work(host), document)
        return {**result, "state": document["state"], "leaks": document["leaks"]}


def _quarantine(run: Run, host: str) -> None:
    directory = run.path / "quarantine"
    directory.mkdir(mode=0o700, exist_ok=True)
    for suffix in (".tar.gz", ".tar.gz.sha256"):
        source = run.path / "hosts" / (safe_name(host) + suffix)
        source.rename(directory / source.name)
