# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Freezes one host: staging directory, one module execution, one transfer, clean-up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.common.validation import check_type_bool, check_type_list
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._carried_action import CarriedActionBase
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._fixed_request import read_request
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, write_json
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._staging_place import (
    PLACES,
    StagingPlace,
    make_command,
    parse_made,
    remove_command,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._transfer import (
    fetch_record,
    notice_a_cut_connection,
    one_line,
)

_NO_ROOM = re.compile("No space left on device|Disk quota exceeded|Read-only file system")
FROZEN, FAILED, UNREACHABLE, PLANNED = "frozen", "failed", "unreachable", "planned"


class ActionModule(CarriedActionBase):
    """A host that cannot be frozen is a result, not an error: the run has to tell about it in the end."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Freeze the host; the result's ``state`` is frozen, failed, unreachable or planned (check mode)."""
        variables = task_vars or {}
        arguments = dict(self._task.args)
        host = str(variables.get("inventory_hostname") or arguments.get("host") or "localhost")
        notice_a_cut_connection(self._connection)
        if self._play_context.check_mode:
            return {"changed": False, "host": host, **self._plan(arguments, variables)}
        run_path = arguments.pop("run", None)
        if not run_path:
            raise AnsibleActionFail(
                "freeze: expected the option run, the path that gpufleet.baseline.run_dir returned"
            )
        run = Run(Path(run_path))
        # A value of -e NAME=VALUE is a text, whatever the role's specification says.
        keep = check_type_bool(arguments.pop("keep_on_host", False))
        places = check_type_list(arguments.pop("staging_places", None) or list(PLACES))
        self._left_behind = ""
        request_file = str(arguments.pop("request_file", None) or "")
        try:
            if request_file:
                arguments["request"] = read_request(request_file)
            outcome = self._freeze(run, host, arguments, places, keep, variables)
        except AnsibleConnectionFailure as error:
            outcome = {"state": UNREACHABLE, "reason": one_line(str(error))}
        except BaselineError as error:
            outcome = {"state": FAILED, "reason": str(error)}
        except AnsibleError as error:
            # A missing become password, or no place for Ansible's own temporary files.
            outcome = {"state": FAILED, "reason": _own_error(error)}
        outcome.update(host=host, left_behind=self._left_behind)
        write_json(run.work(host), outcome)
        # The digests of secrets are for the leak check alone and have no place in a task's output.
        return {
            "changed": False,
            **{key: outcome[key] for key in outcome if key not in ("digests", "questions")},
        }

    def cleanup(self, force: bool = False) -> None:
        """Remove what Ansible had sent; a host that is gone by now has its result already and must not lose it."""
        try:
            super().cleanup(force)
        except AnsibleConnectionFailure as error:
            self._display.vv(f"freeze: the module's directory was not removed: {one_line(str(error))}")

    def _plan(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        for name in ("run", "keep_on_host", "staging_places", "request_file"):
            arguments.pop(name, None)
        try:
            result = self.run_module(dict(arguments, redaction_key="00" * 32), variables)
        except AnsibleConnectionFailure as error:
            return {"state": UNREACHABLE, "reason": one_line(str(error)), "plan": []}
        except AnsibleError as error:
            return {"state": FAILED, "reason": _own_error(error), "plan": []}
        if result.get("failed"):
            return {"state": FAILED, "reason": _module_error(result), "plan": []}
        return {"state": PLANNED, "reason": "", "plan": result.get("plan", [])}

    def _freeze(
        self,
        run: Run,
        host: str,
        arguments: dict[str, Any],
        places: list[str],
        keep: bool,
        variables: dict[str, Any],
    ) -> dict[str, Any]:
        place = self._make_staging(places)
        remove = True
        try:
            arguments.update(
                staging=place.path,
                redaction_key=run.key().hex(),
                host=host,
                run=run.name,
                reproduction=run.reproduction.name,
            )
            result = self.run_module(arguments, variables)
            if result.get("failed") or "archive" not in result:
                return {"state": FAILED, "reason": _module_error(result)}
            outcome = {
                key: result[key] for key in ("sha256", "bytes", "coverage", "questions", "digests", "secrets")
            }
            if result.get("refusal"):
                return {"state": FAILED, "reason": result["refusal"]}
            # From here on the record exists: whatever happens to the transfer, it is not thrown away.
            remove = False
            try:
                fetch_record(
                    self._connection, result["archive"], run.record(host), result["bytes"], result["sha256"]
                )
            except BaselineError as error:
                raise BaselineError(
                    f"{error}; the sealed record is kept on {host} as {result['archive']}"
                ) from error
            remove = not keep
        finally:
            if remove:
                self._left_behind = self._remove_staging(place.path)
        outcome.update(
            state=FROZEN,
            reason="",
            record=str(run.record(host)),
            kept_on_host=result["archive"] if keep else "",
            stale_removed=place.stale_removed,
        )
        return outcome

    def _remove_staging(self, path: str) -> str:
        """Remove the staging directory; what is left and why, or nothing."""
        try:
            removed = self._low_level_execute_command(remove_command(path), sudoable=False)
        except AnsibleConnectionFailure as error:
            return f"{path}: {one_line(str(error))}"
        return "" if removed.get("rc") == 0 else f"{path}: {one_line(removed.get('stderr', ''))}"

    def _make_staging(self, places: list[str]) -> StagingPlace:
        made = self._low_level_execute_command(make_command(places), sudoable=False)
        place = parse_made(made.get("stdout", ""))
        if place is None:
            detail = one_line(made.get("stderr", "")) or one_line(made.get("stdout", ""))
            raise BaselineError(
                f"expected to make a staging directory in one of {', '.join(places)}, "
                f"found: {detail[-200:] or 'nothing'}; nothing was written; "
                "name another place with freeze_staging_places"
            )
        return place


def _own_error(error: AnsibleError) -> str:
    """One line of what Ansible could not do before the module ran, and what to do about it."""
    text = one_line(str(error))
    if text.startswith("failed to transfer file"):
        found = _NO_ROOM.search(text)
        if found:
            return f"no room for Ansible's files; add -e ansible_remote_tmp=/var/tmp (found: {found.group()})"
    if text.startswith("Missing ") and text.endswith(" password"):
        return f"{text}; give it with -K"
    return text[:500]


def _module_error(result: dict[str, Any]) -> str:
    """One line of what a failed module execution said."""
    text = str(result.get("msg", "")).strip() or "the module gave no answer"
    exception = result.get("exception")
    # Since ansible-core 2.19 an exception comes as an object that knows its one-line message.
    exception = getattr(getattr(exception, "event", None), "msg", exception)
    said = [result.get("module_stderr"), exception, result.get("module_stdout")]
    detail = str(next((part for part in said if part), "")).strip().splitlines()
    if detail and ("msg" not in result or text.startswith("MODULE FAILURE")):
        text = f"{text.splitlines()[0]}: {detail[-1]}"
    return " ".join(text.split())[:500]
