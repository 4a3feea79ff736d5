# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One attempt judged: start, watch and requests in, one verdict out (pure; private, controller only).

The document is ``gpufleet.baseline/verdict/1``. An attempt is stable when its launch was started, became ready and
answered every fixed request, undisturbed. What was not measured is never stable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "gpufleet.baseline/verdict/1"

STABLE = "stable"
FAILED = "failed"
HUNG = "hung"
DISTURBED = "disturbed"
BLOCKED = "blocked"
REFUSED = "refused"
INTERRUPTED = "interrupted"
OUTCOMES = (STABLE, FAILED, HUNG, DISTURBED, BLOCKED, REFUSED, INTERRUPTED)

STARTED = ("started", "already")
# A task of ours that gave no answer about the host: it says nothing about the launch.
UNSEEN = ("", "error", "unreachable")
READY = "ready"
ANSWERED = "answered"
# What the judge of the logs calls a failure of its own.
_JUDGED_BAD = ("failed", "hung")
_FROM_LOGS = (
    "stage",
    "substage",
    "failure_class",
    "node",
    "rank",
    "line",
    "path",
    "exception_line",
    "message",
    "time",
    "confidence",
    "reason",
    "advice",
)


@dataclass(frozen=True)
class Rank:
    """One rank of the launch: the host it runs on, its number, and its part."""

    host: str
    node_rank: int
    role: str


@dataclass(frozen=True)
class Evidence:
    """All that an attempt left, by host where a host left it."""

    ranks: Sequence[Rank]
    started: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    watched: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    requests: Sequence[Mapping[str, Any]] = ()
    # The verdict of first_failure over the logs of all ranks.
    first_failure: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: str = "none"
    requests_wanted: int = 1

    @property
    def hosts(self) -> list[str]:
        """The hosts of the launch, each once, by rank."""
        return list(dict.fromkeys(rank.host for rank in self.ranks))

    def role_of(self, node: Any) -> str:
        """The part of the rank with this number; empty when there is none."""
        return next((rank.role for rank in self.ranks if rank.node_rank == node), "")

    def host_of(self, node: Any) -> str:
        """The host of the rank with this number; empty when there is none."""
        return next((rank.host for rank in self.ranks if rank.node_rank == node), "")


def judge(evidence: Evidence) -> dict[str, Any]:
    """The verdict of the attempt."""
    verdict = (
        _not_started(evidence)
        or _interrupted(evidence)
        or _disturbed(evidence)
        or _not_ready(evidence)
        or _asked(evidence)
    )
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome": STABLE,
        "stage": "none",
        "substage": "",
        "failure_class": "none",
        "node": None,
        "host": "",
        "rank": None,
        "line": None,
        "path": None,
        "exception_line": "",
        "message": "",
        "time": None,
        "confidence": "high",
        "reason": "",
        "advice": "",
        **(verdict or {}),
        "diagnostics": evidence.diagnostics,
        "requests": [_request_row(request) for request in evidence.requests],
        "first_failure": dict(evidence.first_failure),
    }
    found["signature"] = _signature(evidence, found)
    return found


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two verdicts tell the same failure: their outcome and signature are equal."""
    return one.get("outcome") == other.get("outcome") and one.get("signature") == other.get("signature")


def _not_started(evidence: Evidence) -> dict[str, Any] | None:
    """A host on which nothing was started: blocked and refused before a failure, for they are no failure."""
    answers = [(host, evidence.started.get(host)) for host in evidence.hosts]
    for outcome in (BLOCKED, REFUSED):
        hosts = [host for host, answer in answers if answer and answer.get("outcome") == outcome]
        if hosts:
            message = "; ".join(f"{host}: {_text(evidence.started[host])}" for host in hosts)
            return {
                "outcome": outcome,
                "host": hosts[0],
                "message": message,
                "reason": "nothing was started there",
            }
    for host, answer in answers:
        if not answer or answer.get("outcome") in UNSEEN:
            why = _text(answer) if answer and answer.get("message") else "it did not answer"
            return _gone(evidence, host, f"the launch could not be started there ({why})")
        if answer.get("outcome") not in STARTED:
            # The container or process could not be made: the first stage, in the daemon's or kernel's own words.
            return {
                **_at(evidence, host),
                "outcome": FAILED,
                "stage": "container",
                "substage": "start",
                "failure_class": str(answer.get("failure_class") or "container-not-started"),
                "message": _text(answer),
                "reason": "the start of the rank itself was refused on the host",
            }
    return None


def _interrupted(evidence: Evidence) -> dict[str, Any] | None:
    """A host that was lost while its ranks were watched, unless another host tells why it all ended."""
    lost = [host for host in evidence.hosts if _watch_outcome(evidence, host) in UNSEEN]
    told = [
        host for host in evidence.hosts if _watch_outcome(evidence, host) in ("failed", "hung", "disturbed")
    ]
    if lost and not told:
        return _gone(evidence, lost[0], "it could not be reached while its ranks were watched")
    return None


def _disturbed(evidence: Evidence) -> dict[str, Any] | None:
    for host in evidence.hosts:
        watched = evidence.watched.get(host, {})
        if watched.get("outcome") == DISTURBED:
            return {
                **_at(evidence, host),
                "outcome": DISTURBED,
                "message": _text(watched),
                "reason": "others used the GPUs",
            }
    for request in evidence.requests:
        if request.get("disturbed"):
            return {
                "outcome": DISTURBED,
                "host": str(request.get("host", "")),
                "message": str(request["disturbed"]),
                "reason": "the engine was not ours alone",
            }
    return None


def _not_ready(evidence: Evidence) -> dict[str, Any] | None:
    """The first failure over all ranks; where the logs tell none, the rank that ended first."""
    ended = {host: _watch_outcome(evidence, host) for host in evidence.hosts}
    if all(outcome == READY for outcome in ended.values()):
        return None
    judged = evidence.first_failure
    if judged.get("outcome") in _JUDGED_BAD:
        return _from_logs(evidence, HUNG if judged["outcome"] == "hung" or _all_hung(ended) else FAILED)
    host = _first_to_end(evidence, ended)
    watched = evidence.watched.get(host, {})
    hung = ended[host] in ("hung", "deadline")
    return {
        **_at(evidence, host),
        "outcome": HUNG if hung else FAILED,
        "stage": str(watched.get("stage") or "container"),
        "substage": str(watched.get("substage") or ""),
        "failure_class": "hang" if hung else "unclassified",
        "message": _text(watched),
        "time": watched.get("ended_at"),
        "confidence": "low",
        "reason": "no log tells a first failure; this is the rank that ended first"
        if not hung
        else "no rank tells a first failure, and none came further within its limit",
        "advice": str(judged.get("advice") or ""),
    }


def _asked(evidence: Evidence) -> dict[str, Any] | None:
    bad = next((request for request in evidence.requests if request.get("outcome") != ANSWERED), None)
    if bad is None:
        if len(evidence.requests) < evidence.requests_wanted:
            return {
                "outcome": INTERRUPTED,
                "stage": "api",
                "message": f"{len(evidence.requests)} of {evidence.requests_wanted} fixed requests were sent",
                "reason": "what was not asked is not known to work",
            }
        return None
    judged = evidence.first_failure
    if judged.get("outcome") in _JUDGED_BAD:
        return {
            **_from_logs(evidence, FAILED),
            "message": f"{_request_text(bad)}; {judged.get('message', '')}".strip("; "),
        }
    answered_before = any(
        attempt.get("outcome") == ANSWERED
        for request in evidence.requests
        for attempt in _attempts_before(request, bad)
    )
    return {
        "outcome": FAILED,
        "stage": "runtime" if answered_before else "api",
        "substage": "request",
        "failure_class": "request-" + str(bad.get("outcome", "unknown")).replace(" ", "-"),
        "host": str(bad.get("host", "")),
        "message": _request_text(bad),
        "time": _request_time(bad),
        "confidence": "medium",
        "reason": "the server was ready by its log and did not answer the fixed request as it should"
        if not answered_before
        else "the server had answered the fixed request before",
        "advice": "look at the log of every rank at the time of the request",
    }


def _from_logs(evidence: Evidence, outcome: str) -> dict[str, Any]:
    judged = evidence.first_failure
    found = {name: judged[name] for name in _FROM_LOGS if judged.get(name) is not None}
    return {"outcome": outcome, "host": evidence.host_of(judged.get("node")), **found}


def _attempts_before(request: Mapping[str, Any], bad: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The single exchanges of a request; of the bad one those until its first that was not answered."""
    attempts: Sequence[Mapping[str, Any]] = request.get("attempts") or []
    if request is not bad:
        return attempts
    good = []
    for attempt in attempts:
        if attempt.get("outcome") != ANSWERED:
            break
        good.append(attempt)
    return good


def _request_row(request: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("label", "outcome", "message", "sent", "answered", "body_sha256", "disturbed", "file")
    return {key: request[key] for key in keys if request.get(key) not in (None, "")}


def _request_text(request: Mapping[str, Any]) -> str:
    text = f"fixed request: {request.get('outcome', 'no answer')}"
    return f"{text} ({request['message']})" if request.get("message") else text


def _request_time(request: Mapping[str, Any]) -> Any:
    attempts = request.get("attempts") or []
    bad = next((attempt for attempt in attempts if attempt.get("outcome") != ANSWERED), None)
    return bad.get("sent_at") if bad else None


def _gone(evidence: Evidence, host: str, why: str) -> dict[str, Any]:
    return {
        **_at(evidence, host),
        "outcome": INTERRUPTED,
        "message": f"{host}: {why}; what runs there ends with its lease",
        "reason": "a host that was not seen says nothing about the launch",
    }


def _at(evidence: Evidence, host: str) -> dict[str, Any]:
    node = next((rank.node_rank for rank in evidence.ranks if rank.host == host), None)
    return {"host": host, "node": node}


def _watch_outcome(evidence: Evidence, host: str) -> str:
    return str((evidence.watched.get(host) or {}).get("outcome") or "")


def _all_hung(ended: Mapping[str, str]) -> bool:
    return bool(ended) and all(outcome in ("hung", "deadline", "sibling") for outcome in ended.values())


def _first_to_end(evidence: Evidence, ended: Mapping[str, str]) -> str:
    """The host whose own end was first; one that only followed a sibling comes last."""
    order = {"failed": 0, "hung": 1, "deadline": 2}
    bad = [host for host in evidence.hosts if ended[host] != READY]
    return min(
        bad,
        key=lambda host: (
            order.get(ended[host], 3),
            str((evidence.watched.get(host) or {}).get("ended_at") or "9"),
            evidence.hosts.index(host),
        ),
    )


def _signature(evidence: Evidence, found: Mapping[str, Any]) -> dict[str, Any]:
    """What two attempts are compared by; no text, line, process id or time is in it."""
    # Of the rank that failed first alone: how its siblings end is a matter of moments.
    state = (evidence.watched.get(found["host"]) or {}).get("exit")
    ended = _exit_word(state) if isinstance(state, Mapping) else ""
    bad = next((request for request in evidence.requests if request.get("outcome") != ANSWERED), None)
    asked = "not asked" if not evidence.requests else bad.get("outcome", "") if bad else ANSWERED
    return {
        "stage": found["stage"],
        "substage": found["substage"],
        "class": found["failure_class"],
        "role": evidence.role_of(found["node"]),
        "exit": ended if found["outcome"] in (FAILED, HUNG) else "",
        "request": asked,
    }


def _exit_word(state: Mapping[str, Any]) -> str:
    # The watch tells how a rank ended, and nothing of one that runs.
    if not state or state.get("running"):
        return "running"
    if state.get("oom_killed"):
        return "out of memory"
    code = state.get("exit_code")
    return f"exit {code}" if code is not None else "ended"


def _text(answer: Mapping[str, Any]) -> str:
    return " ".join(str(answer.get("message") or answer.get("reason") or answer.get("outcome") or "").split())
