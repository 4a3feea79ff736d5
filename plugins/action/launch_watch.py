# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watches the ranks of one host: short calls of the module, until the group is ready or has failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._carried_action import CarriedActionBase
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._transfer import (
    notice_a_cut_connection,
    one_line,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import launch_ranks
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_lines import clean_command
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_loop import (
    ConnectionLost,
    Member,
    Options,
    Watcher,
    World,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rule import limits_with
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_view import LIVE_VARIABLE

# Options of the action alone.
_OWN = ("run", "deadline", "stage_limits", "unreachable_seconds", "linger_seconds")


class ActionModule(CarriedActionBase):
    """A start that fails is a result; only a task that was written wrong fails."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Watch, or collect evidence once."""
        variables = task_vars or {}
        arguments = dict(self._task.args)
        if self._play_context.check_mode:
            return {"changed": False, "skipped": True, "msg": "nothing is watched in check mode"}
        notice_a_cut_connection(self._connection)
        if not arguments.get("ranks"):
            return {"changed": False, "skipped": True, "msg": "no rank was started on this host"}
        own = {name: arguments.pop(name) for name in _OWN if name in arguments}
        if arguments.get("collect", "events") != "events":
            return self._checked(self.run_module(arguments, variables))
        host = str(variables.get("inventory_hostname") or "localhost")
        try:
            return {"changed": False, **self._watch(host, own, arguments, variables)}
        except (BaselineError, ValueError, OSError) as error:
            raise AnsibleActionFail(f"launch_watch: {error}") from None

    def cleanup(self, force: bool = False) -> None:
        """Remove what Ansible had sent; a host that is gone by now has its result already and must not lose it."""
        try:
            super().cleanup(force)
        except AnsibleConnectionFailure as error:
            self._display.vv(f"launch_watch: the module's directory was not removed: {one_line(str(error))}")

    def _watch(
        self, host: str, own: dict[str, Any], arguments: dict[str, Any], variables: dict[str, Any]
    ) -> dict[str, Any]:
        if not own.get("run"):
            raise BaselineError("expected the option run, the path that gpufleet.baseline.run_dir returned")
        run = Run(Path(str(own["run"])))
        launched = launch_ranks(run.path)
        arguments["ranks"] = handles(host, arguments["ranks"], launched)
        arguments["redaction_key"] = run.key().hex()
        options = Options(
            host,
            run.path,
            arguments["ranks"],
            members(host, arguments["ranks"], launched),
            limits_with(own.get("stage_limits") or {}),
            float(own.get("deadline", 5400.0)),
            float(arguments.get("wait_seconds", 3.0)),
            float(own.get("unreachable_seconds", 120.0)),
            float(own.get("linger_seconds", 90.0)),
            clean_command(str(run.path), context.CLIARGS.get("inventory") or ()),
        )

        def poll(cursor: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
            return self._ask({**arguments, "cursor": dict(cursor), "wait_seconds": seconds}, variables)

        def evidence() -> Mapping[str, Any]:
            found = self._ask({**arguments, "collect": "evidence"}, variables)
            return dict(found["evidence"])

        return Watcher(options, World(poll, evidence, self._show)).watch()

    def _show(self, text: str) -> None:
        if not os.environ.get(LIVE_VARIABLE):
            self._display.display(plain(text))

    def _ask(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """One call of the module; what keeps it from answering is a lost connection, which is tried again."""
        try:
            result = self.run_module(arguments, variables)
        except AnsibleConnectionFailure as error:
            raise ConnectionLost(one_line(str(error))[:300]) from error
        if result.get("failed") or result.get("unreachable"):
            raise ConnectionLost(one_line(str(result.get("msg") or "the module gave no answer"))[:300])
        return result

    def _checked(self, result: dict[str, Any]) -> dict[str, Any]:
        if result.get("failed"):
            raise AnsibleActionFail(f"launch_watch: {one_line(str(result.get('msg')))}")
        return result


def handles(host: str, given: list[dict[str, Any]], launched: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ranks of this host with what the launch says about their port and GPUs."""
    said = {int(rank.get("node_rank") or 0): rank for rank in launched if rank["host"] == host}
    found = []
    for handle in given:
        rank = said.get(int(handle.get("rank") or 0), {})
        gpus = ((rank.get("container") or {}).get("gpus") or {}).get("ids") or []
        found.append({"api_port": rank.get("api_port"), "gpus": gpus, **handle})
    return found


def members(host: str, given: list[dict[str, Any]], launched: list[dict[str, Any]]) -> list[Member]:
    """The whole group; without a launch in the run it is what is watched here."""
    if launched:
        return [
            Member(str(rank["host"]), int(rank.get("node_rank") or 0), rank.get("api_port") is not None)
            for rank in launched
        ]
    return [
        Member(host, int(handle.get("rank") or 0), handle.get("api_port") is not None) for handle in given
    ]
