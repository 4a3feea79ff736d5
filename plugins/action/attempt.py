# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leads an attempt on the controller from its permission to its close; connects to no host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _attempt, _attempt_files, _run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt_allowed import Reasons, refusals
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt_summary import render
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._sheet import FIRST, Tried, markdown, sheet

# Where the tasks of the hosts register their results.
STARTED, WATCHED, STOPPED = "__launch_started", "__launch_watched", "__launch_stopped"
STOPS = "stop"


class ActionModule(ActionBase):
    """Called once for the group at each turn of the attempt; what came before is read from the run."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the next task has to know."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(argument_spec())
        turns = {"allowed": _allowed, "started": _started, "judged": _judged, "closed": self._closed}
        try:
            turn = turns[arguments["state"]]
            found: dict[str, Any] = turn(_run.Run(Path(arguments["run"])), arguments, task_vars or {})
        except (BaselineError, OSError) as error:
            raise AnsibleActionFail(f"attempt: {error}") from None
        return {**result, "changed": False, **found}

    def _closed(self, run: _run.Run, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        launch = _attempt_files.launch_of(run)
        _keep(run, STOPS, STOPPED, arguments["hosts"], task_vars)
        verdict = _run.read_json(run.path / _attempt_files.VERDICT)
        opened = run.document()
        ended = _run.now()
        page = sheet(_tried(run, launch, arguments), verdict, str(opened.get("started", "")), ended)
        _run.write_json(run.path / "sheet.json", page)
        _run.write_bytes(run.path / "sheet.md", markdown(page).encode())
        stops = _attempt_files.answers(run, STOPS, arguments["hosts"])
        held = _held(stops, arguments["hosts"])
        _run.finish(
            run,
            arguments["kind"],
            {
                "state": _run.COMPLETE,
                "ended": ended,
                "outcome": verdict["outcome"],
                "signature": verdict["signature"],
                "launch": page["launch_sha256"],
                "parent": page["parent"],
                "changed_variable": page["only_change"],
                "expectation": page["expectation"],
                "way_back": page["way_back"],
                "gpus_not_free": held,
                "hosts": {host: {"state": "launched"} for host in page["hosts"]},
            },
        )
        shutil.rmtree(run.work_directory, ignore_errors=True)
        _run.write_checksums(run, {})
        lines = render(f"{page['what']} {run.name}", verdict, _where(run, held, arguments["clean_command"]))
        _run.write_bytes(run.path / "attempt.txt", ("\n".join(lines) + "\n").encode())
        for line in ["", *lines, ""]:
            self._display.display(line)
        return {"outcome": verdict["outcome"], "signature": verdict["signature"], "gpus_free": not held}


def argument_spec() -> dict[str, Any]:
    """The options of the action."""
    return {
        "run": {"type": "str", "required": True},
        "state": {"type": "str", "required": True, "choices": ["allowed", "started", "judged", "closed"]},
        "kind": {"type": "str", "default": "minimal"},
        "hosts": {"type": "list", "elements": "str", "default": []},
        "requests": {"type": "int", "default": 1},
        "without_record": {"type": "str", "default": ""},
        "without_gate": {"type": "str", "default": ""},
        "what": {"type": "str", "default": "minimal launch"},
        "parent": {"type": "str", "default": ""},
        "only_change": {"type": "str", "default": ""},
        "expectation": {"type": "str", "default": ""},
        "way_back": {"type": "str", "default": ""},
        "clean_command": {"type": "str", "default": ""},
    }


def _allowed(run: _run.Run, arguments: dict[str, Any], _task_vars: dict[str, Any]) -> dict[str, Any]:
    reasons = Reasons(arguments["without_record"].strip(), arguments["without_gate"].strip())
    forks = int(context.CLIARGS.get("forks") or 1)
    found = refusals(run, arguments["hosts"], forks, reasons)
    document = run.document()
    document["overrides"] = [
        f"{name}: {reason}"
        for name, reason in (("no record", reasons.without_record), ("no gate", reasons.without_gate))
        if reason
    ]
    _run.write_json(run.path / "run.json", document)
    if found:
        return {"failed": True, "msg": "attempt: " + "; ".join(found), "refusals": found}
    return {"refusals": [], "overrides": document["overrides"]}


def _started(run: _run.Run, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
    _keep(run, _attempt_files.STARTS, STARTED, arguments["hosts"], task_vars)
    found = _attempt_files.answers(run, _attempt_files.STARTS, arguments["hosts"])
    waiting = [host for host in arguments["hosts"] if found[host].get("outcome") not in _attempt.STARTED]
    return {"all_started": not waiting, "not_started": waiting}


def _judged(run: _run.Run, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
    started = _attempt_files.answers(run, _attempt_files.STARTS, arguments["hosts"])
    if all(answer.get("outcome") in _attempt.STARTED for answer in started.values()):
        _keep(run, _attempt_files.WATCHES, WATCHED, arguments["hosts"], task_vars)
    verdict = _attempt.judge(_attempt_files.evidence(run, arguments["requests"]))
    _run.write_json(run.path / _attempt_files.VERDICT, verdict)
    return {
        "outcome": verdict["outcome"],
        "stage": verdict["stage"],
        "failure_class": verdict["failure_class"],
        "signature": verdict["signature"],
        "verdict": str(run.path / _attempt_files.VERDICT),
        # A blocked or refused launch has left nothing that a second freeze could tell.
        "freeze": verdict["outcome"] in (_attempt.FAILED, _attempt.HUNG, _attempt.DISTURBED),
    }


def _keep(run: _run.Run, kind: str, variable: str, hosts: list[str], task_vars: dict[str, Any]) -> None:
    hostvars = task_vars["hostvars"]
    for host in hosts:
        found = hostvars[host].get(variable) if host in hostvars else None
        _attempt_files.keep_answer(run, kind, host, _answer(found))


def _answer(found: Any) -> dict[str, Any]:
    """What a task registered; one that broke or lost its host says so in ``outcome``."""
    if not isinstance(found, dict):
        return {"outcome": "error", "message": "the task was not run on it"}
    answer = {
        key: found[key]
        for key in found
        if key not in ("invocation", "ansible_facts", "warnings", "deprecations")
    }
    if found.get("unreachable"):
        return {"outcome": "unreachable", "message": str(found.get("msg", ""))}
    if found.get("skipped"):
        return {"outcome": "error", "message": "the task was skipped"}
    if found.get("failed"):
        return {"outcome": "error", "message": str(found.get("msg", ""))}
    return answer


def _tried(run: _run.Run, launch: dict[str, Any], arguments: dict[str, Any]) -> Tried:
    image = launch.get("image") or {}
    return Tried(
        run=run.name,
        what=arguments["what"],
        only_change=arguments["only_change"] or FIRST,
        expectation=arguments["expectation"] or Tried.expectation,
        way_back=arguments["way_back"],
        parent=arguments["parent"],
        launch_sha256=str(launch.get("sha256", "")),
        image=" ".join(str(image[key]) for key in ("reference", "id") if image.get(key)),
        hosts=tuple(dict.fromkeys(rank.host for rank in _attempt_files.ranks_of(launch))),
        command=str(launch.get("command", "")),
        overrides=tuple(run.document().get("overrides") or ()),
    )


def _held(stops: dict[str, Any], hosts: list[str]) -> list[str]:
    """Hosts whose GPUs were not shown to be free."""
    return [
        host for host in hosts if ((stops.get(host) or {}).get("gpus_free") or {}).get("verdict") != "free"
    ]


def _where(run: _run.Run, held: list[str], clean_command: str) -> list[tuple[str, str]]:
    told = [
        ("run", str(run.path)),
        ("documents", "verdict.json, sheet.md, launch.json, logs/, watch/, request/"),
    ]
    if held:
        told.append(("GPUs", f"not shown to be free on {', '.join(held[:4])}"))
        if clean_command:
            told.append(("clean up", clean_command))
    return [*told, ("verify", _run.verify_command(run))]
