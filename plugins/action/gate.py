# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges a launch group against its boundary, on the controller; connects to no host."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import (
    _evidence,
    _judge,
    _junit,
    _live,
    _recipe_state,
    _recorded,
    _report,
    _score,
    _table,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import Case, Options
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._waivers import parse_waivers
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._registered import LOOK, NO_HOST, registered
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report import _page as _report_page
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report._gate_section import (
    gate_section,
    score_section,
)

DOCUMENT = "__gate_document"
JUDGED = "__gate_judged"
NOTHING_JUDGED = (
    f"gate: undecided: nothing was judged: {NO_HOST}, or the play ended before the judgement; {LOOK}"
)


class ActionModule(ActionBase):
    """Called once for the group; with ``confirm`` it only sees that this was done, and how it ended."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the verdict; the task fails when a rollout may not go on."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        result["changed"] = False
        _unused, arguments = self.validate_argument_spec(argument_spec())
        task_vars = task_vars or {}
        try:
            if arguments["confirm"]:
                return {**result, **confirm(task_vars)}
            return {**result, **self._judge(arguments, task_vars)}
        except (BaselineError, OSError) as error:
            raise AnsibleActionFail(f"gate: {error}") from None

    def _judge(self, arguments: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        run = _run.Run(Path(arguments["run"])) if arguments["run"] else None
        waivers = parse_waivers(arguments["waivers"], _judge.RULE_IDS)
        today = datetime.datetime.now(datetime.UTC).date()
        choice = Choice(arguments["hardware"], arguments["strategy"], arguments["variant"])
        held = _recipe_state.hold(arguments["boundary"], arguments["recipe"], choice, today)
        state = _recipe_state.with_change(held.state, run, held.sources)
        found = {} if arguments["recorded"] else _documents(arguments["members"], task_vars)
        hosts = _hosts(arguments, found, task_vars)
        options = Options(
            tuple(arguments["allowed_processes"]),
            tuple(arguments["ports"]),
            arguments["clock_skew_seconds"],
            arguments["stale_after_days"],
            _live.heard_between(found),
        )
        case = Case(held.boundary, tuple(hosts), held.launch, state, options, today)
        judged = _judge.judge(case, waivers)
        judged_run = _recorded.recorded_run(arguments["recorded"]) if arguments["recorded"] else None
        score = _score.score(_evidence.evidence_of_run(judged_run or run, hosts))
        about = {
            "run": run.name if run else "",
            "judged": str(judged_run.path) if judged_run else "live",
            "time": _run.now(),
            "sources": list(held.sources),
            "waivers": [waiver.as_dict() for waiver in waivers],
        }
        document = _report.document(judged, about, _exceptions(found), score.as_dict())
        where = _where(run, score)
        title = f"Gate {run.name if run else '(check mode)'}: {_table.VERDICT_TITLES[judged.verdict]}"
        lines = _table.render(judged, title, where)
        # Shown before it is written: a full disk must not take the judgement away as well.
        for line in ["", *lines, ""]:
            self._display.display(line)
        if run is not None:
            try:
                _write(run, judged, document, found, lines)
            except OSError as error:
                raise BaselineError(
                    f"expected to write the judgement into {run.path}, found: {error.strerror}; make room or see "
                    "its mode, then judge again"
                ) from None
        return {
            "failed": not judged.good,
            "msg": _message(judged),
            "verdict": judged.verdict,
            "hosts": judged.host_verdicts(),
            "gate": str(run.path / "gate.json") if run else "",
            "score": score.points,
        }


def argument_spec() -> dict[str, Any]:
    """The options of the action."""
    return {
        "run": {"type": "str", "default": ""},
        "recorded": {"type": "str", "default": ""},
        "members": {"type": "list", "elements": "str", "default": []},
        "boundary": {"type": "str", "default": "kimi-k3"},
        "recipe": {"type": "str", "default": ""},
        "hardware": {"type": "str", "default": ""},
        "strategy": {"type": "str", "default": ""},
        "variant": {"type": "str", "default": ""},
        "waivers": {"type": "list", "elements": "dict", "default": []},
        "allowed_processes": {"type": "list", "elements": "str", "default": []},
        "ports": {"type": "list", "elements": "int", "default": []},
        "clock_skew_seconds": {"type": "float", "default": 1.0},
        "stale_after_days": {"type": "int", "default": 14},
        "confirm": {"type": "bool", "default": False},
    }


def _documents(members: list[str], task_vars: dict[str, Any]) -> dict[str, Any]:
    """What the tasks left for every host of the launch group and of the play."""
    hostvars = task_vars["hostvars"]
    names = dict.fromkeys([*members, *task_vars["ansible_play_hosts_all"]])
    return {name: _live.plain(hostvars[name].get(DOCUMENT)) if name in hostvars else None for name in names}


def _hosts(arguments: dict[str, Any], found: dict[str, Any], task_vars: dict[str, Any]) -> list[HostFacts]:
    if arguments["recorded"]:
        hosts = _recorded.recorded_hosts(_recorded.recorded_run(arguments["recorded"]))
        known = {host.name for host in hosts}
        reason = "the run has no facts of it"
        return [*hosts, *(HostFacts(name, reason) for name in arguments["members"] if name not in known)]
    in_play = set(task_vars["ansible_play_hosts_all"])
    return [_live.live_host(name, found[name], arguments["run"], name in in_play) for name in found]


def _exceptions(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Probes that started something on a host."""
    return [
        {"host": name, **started}
        for name, document in found.items()
        for started in ((((document or {}).get("probe") or {}).get("probe") or {}).get("started") or [])
    ]


def _where(run: _run.Run | None, score: _score.Score) -> list[tuple[str, str]]:
    told = [
        (
            "score",
            f"{score.points} of {_score.MOST}: {score.next}; what is missing stands in gate.json",
        )
    ]
    if run is None:
        return told
    return [
        *told,
        ("run", str(run.path)),
        ("documents", "report.html, gate.json, gate.xml (JUnit), gate.txt, facts/HOST.json"),
    ]


def _message(judged: _judge.Result) -> str:
    """One line: the verdict and the first findings behind it."""
    kind = judged.verdict
    if not judged.case.hosts:
        return "gate: undecided: there is no host to judge"
    decisive = [finding for finding in judged.findings if finding.counts_as == kind]
    shown = "; ".join(
        f"{finding.rule.id} ({', '.join(finding.hosts[:3]) or 'group'}): "
        f"{finding.answer.reason or finding.answer.found}"
        for finding in decisive[:3]
    )
    more = f" and {len(decisive) - 3} more" if len(decisive) > 3 else ""
    return f"gate: {kind}" if judged.good else plain(f"gate: {kind}: {shown}{more}")


def _write(
    run: _run.Run, judged: _judge.Result, document: dict[str, Any], found: dict[str, Any], lines: list[str]
) -> None:
    for host in judged.case.measured:
        if found.get(host.name):
            _run.write_json(
                run.path / "facts" / (_run.safe_name(host.name) + ".json"), _live.documents(found[host.name])
            )
    _run.write_json(run.path / "gate.json", document)
    _run.write_bytes(run.path / "gate.xml", _junit.junit(judged, f"gate {run.name}", document["time"]))
    _run.write_bytes(run.path / "report.html", _page(run, document, judged))
    _run.write_bytes(run.path / "gate.txt", ("\n".join(lines) + "\n").encode())
    _run.finish(
        run,
        "gate",
        {
            "state": _run.PARTIAL if judged.case.missing else _run.COMPLETE,
            "ended": _run.now(),
            "gate": judged.verdict,
            "judged": document["judged"],
            "hosts": {
                host.name: {"state": "missing", "reason": host.reason}
                if host.reason
                else {"state": "measured"}
                for host in judged.case.hosts
            },
        },
    )
    shutil.rmtree(run.path / _run.WORK_DIRECTORY, ignore_errors=True)
    _run.write_checksums(run, {})


def _page(run: _run.Run, document: dict[str, Any], judged: _judge.Result) -> bytes:
    return _report_page.render(
        f"Gate {run.name} of {run.reproduction.name}",
        document["verdict"],
        _message(judged),
        [gate_section(document), score_section(document["score"])],
        _run.verify_command(run),
    )


def confirm(task_vars: dict[str, Any]) -> dict[str, Any]:
    """See that something was judged since the last time, and repeat how it ended."""
    # What this returns takes the place of the judgement, so that a second gate cannot lean on the first one's.
    judged = [item for item in registered(task_vars, JUDGED, "verdict") if not item.get("confirmed")]
    if not judged:
        return {"failed": True, "msg": NOTHING_JUDGED}
    shown = next((item for item in judged if item.get("failed")), judged[0])
    path = str(shown.get("gate") or "")
    if path and not Path(path).is_file():
        return {"failed": True, "msg": f"gate: undecided: expected {path}, found none; judge again"}
    return {
        "failed": bool(shown.get("failed")),
        "msg": shown["msg"],
        "verdict": shown["verdict"],
        "gate": path,
        "confirmed": True,
    }
