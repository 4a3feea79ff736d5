# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Closes a freeze: documents of the run, checksums, and the screen at its end; connects to no host."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _freeze_summary as summary
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._fixed_request import read_request
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._freeze_summary import HostResult
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._group_secrets import group_secrets
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._record import read_document
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._registered import LOOK, NO_HOST, registered

# What of run.json came from the operator's hand.
GIVEN = ("note", "earlier_changes")
CLOSED = "__freeze_closed"
NOTHING_FROZEN = f"freeze: nothing was frozen: {NO_HOST}, or the play ended before the run was closed; {LOOK}"
NO_RESULT = {
    "state": "failed",
    "reason": "no result: the host left the play before its turn, or the play has serial",
}


class ActionModule(ActionBase):
    """Called once for the group, after every host."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the run's ``state`` (complete, partial or leak) and where everything is."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(
            {
                "run": {"type": "str", "default": ""},
                "hosts": {"type": "list", "elements": "str", "default": []},
                "confirm": {"type": "bool", "default": False},
                "request_file": {"type": "str", "default": ""},
                "plans": {"type": "list", "elements": "dict", "default": []},
            }
        )
        result["changed"] = False
        if arguments["confirm"]:
            return {**result, **confirm(task_vars or {})}
        if not arguments["run"] and not self._play_context.check_mode:
            raise AnsibleActionFail("freeze_report: expected the option run, the path that run_dir returned")
        if self._play_context.check_mode:
            self._show(summary.planned(arguments["plans"]))
            return {**result, "state": "planned", "summary": ""}
        try:
            run = _run.Run(Path(arguments["run"]))
            return {**result, **self._close(run, arguments["hosts"], read_request(arguments["request_file"]))}
        except (BaselineError, OSError) as error:
            raise AnsibleActionFail(f"freeze: the run could not be closed: {error}") from None

    def _close(self, run: _run.Run, hosts: list[str], request: str) -> dict[str, Any]:
        outcomes = {host: _outcome(run, host) for host in hosts}
        secrets = group_secrets(run)
        for outcome in outcomes.values():
            outcome["reason"] = secrets.redact_text(outcome["reason"])
        checksums = {
            run.record(host): outcome["sha256"] for host, outcome in outcomes.items() if "sha256" in outcome
        }
        results = [_host_result(host, outcome) for host, outcome in outcomes.items()]
        state = _state(outcomes)
        document = run.document()
        told = {name: secrets.redact(document[name]) for name in GIVEN if name in document}
        told.update(
            state=state,
            ended=_run.now(),
            hosts={host: _host_entry(outcome) for host, outcome in outcomes.items()},
            coverage=_coverage(results),
        )
        if request:
            _run.write_bytes(run.path / "request" / "body.json", secrets.redact_text(request).encode())
        frozen = sum(outcome["state"] == summary.FROZEN for outcome in outcomes.values())
        title = f"Freeze {run.name} of {run.reproduction.name}: {frozen} of {len(hosts)} hosts frozen"
        title += "" if state == _run.COMPLETE else f" ({state})"
        lines = summary.render(title, results, _where(run, results))
        text = "\n".join([*lines, *summary.full_text(results)]) + "\n"
        _run.write_bytes(run.path / "summary.txt", text.encode())
        _run.finish(run, "freeze", told)
        shutil.rmtree(run.path / _run.WORK_DIRECTORY, ignore_errors=True)
        _run.write_checksums(run, checksums)
        self._show(lines)
        return {"state": state, "run": str(run.path), "summary": str(run.path / "summary.txt")}

    def _show(self, lines: list[str]) -> None:
        for line in ["", *lines, ""]:
            self._display.display(line)


def confirm(task_vars: dict[str, Any]) -> dict[str, Any]:
    """See that a freeze was closed in this playbook run."""
    closed = registered(task_vars, CLOSED, "state")
    return {"state": closed[0]["state"]} if closed else {"failed": True, "msg": NOTHING_FROZEN}


def _outcome(run: _run.Run, host: str) -> dict[str, Any]:
    """What a host's tasks left; its facts are taken out of its record on the way."""
    if not run.work(host).exists():
        return dict(NO_RESULT)
    outcome: dict[str, Any] = _run.read_json(run.work(host))
    if outcome["state"] == summary.FROZEN:
        _run.write_json(
            run.path / "facts" / (_run.safe_name(host) + ".json"),
            read_document(run.record(host), "facts.json"),
        )
    return outcome


def _state(outcomes: dict[str, dict[str, Any]]) -> str:
    states = {outcome["state"] for outcome in outcomes.values()}
    if "quarantined" in states:
        return _run.LEAK
    return _run.COMPLETE if states == {summary.FROZEN} else _run.PARTIAL


def _host_result(host: str, outcome: dict[str, Any]) -> HostResult:
    # What a quarantined record says may hold the other host's secret.
    questions = (outcome.get("questions") or {}) if outcome["state"] == summary.FROZEN else {}
    coverage = outcome.get("coverage") or {}
    return HostResult(
        host,
        outcome["state"],
        outcome.get("reason", ""),
        questions.get("short", {}),
        questions.get("active", ""),
        questions.get("not_measured", []),
        coverage.get("ok", 0),
        coverage.get("probes", 0),
        outcome.get("left_behind", ""),
    )


def _host_entry(outcome: dict[str, Any]) -> dict[str, Any]:
    """A host's part of run.json; the keyed digests stay out of it."""
    keys = (
        "state",
        "reason",
        "sha256",
        "bytes",
        "coverage",
        "secrets",
        "leaks",
        "untestable_secrets",
        "kept_on_host",
        "left_behind",
        "stale_removed",
    )
    return {key: outcome[key] for key in keys if outcome.get(key)}


def _coverage(results: list[HostResult]) -> dict[str, Any]:
    frozen = [result for result in results if result.state == summary.FROZEN]
    return {
        "hosts": len(results),
        "hosts_frozen": len(frozen),
        "probes": sum(result.probes for result in frozen),
        "probes_ok": sum(result.probes_ok for result in frozen),
    }


def _where(run: _run.Run, results: list[HostResult]) -> list[tuple[str, str]]:
    coverage = _coverage(results)
    hosts = f"{coverage['hosts_frozen']} of {coverage['hosts']} hosts"
    probes = f"{coverage['probes_ok']} of {coverage['probes']} probes ok"
    lines = [
        ("Coverage", f"{hosts}; {probes}; the rest is named in each manifest.json"),
        ("Run", str(run.path)),
        ("Summary", str(run.path / "summary.txt")),
    ]
    first = next((result.host for result in results if result.state == summary.FROZEN), None)
    if first is not None:
        record = run.record(first)
        lines.append(("Next", f"tar -xzOf {shlex.quote(str(record))} five-questions.txt"))
        lines.append(("Verify", _run.verify_command(run)))
    return lines
