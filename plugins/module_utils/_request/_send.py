# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send the fixed request, and look at the engine before, meanwhile and after (private to the collection).

Everything that can hang runs in a probe of its own, so that a wedged server or driver costs its own time limit.
"""

from __future__ import annotations

import datetime
import json
import os
import select
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_memory
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OK,
    Emit,
    Probe,
    ProbeSpec,
    Reading,
    run_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._request import (
    _answer,
    _body,
    _http,
    _metrics,
)

SCHEMA = "gpufleet.baseline/request/1"
# Headers of an answer that tell who answered and how.
HEADERS_OF_INTEREST = (
    "content-type",
    "server",
    "via",
    "x-request-id",
    "date",
    "retry-after",
    "x-envoy-attempt-count",
)
LOOK_SECONDS = 10.0
TRACE_SECONDS = 0.25
# The engine counts a request as finished at the end of a step, a moment after its answer was sent.
COUNT_SECONDS = 5.0
_SLACK_SECONDS = 15.0


@dataclass(frozen=True)
class Plan:
    """What is sent: ``times`` rounds one after the other, of ``parallel`` requests at once. Times in seconds."""

    url: str
    body: str
    route: str = _body.CHAT_ROUTE
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 120.0
    times: int = 1
    parallel: int = 1
    verify: bool = True
    request_id: str = ""

    @property
    def most_seconds(self) -> float:
        """When even the slowest exchange is over."""
        return self.times * self.timeout + _SLACK_SECONDS


def run(plan: Plan) -> Dict[str, Any]:
    """Send all requests of the plan; the document. Raises BaselineError for what cannot be sent."""
    _http.check_url(plan.url)
    _body.check(plan.body)
    before = _look(plan)
    answers = _send_all(plan)
    attempts = answers["requests"].value or []
    after = _look_until_counted(
        plan, before, sum(attempt["outcome"] == _answer.ANSWERED for attempt in attempts)
    )
    return _document(plan, before, after, answers)


def served_model(url: str, headers: Mapping[str, str], verify: bool = True) -> str:
    """The first model that the server names; raises BaselineError when it names none."""
    reply = _http.exchange(url, "/v1/models", headers=headers, timeout=LOOK_SECONDS, verify=verify)
    found = reply.message or "HTTP %s" % reply.status
    if reply.status == 200:
        try:
            models = json.loads(reply.body)["data"]
            return str(models[0]["id"])
        except (ValueError, LookupError, TypeError):
            found = "an answer without a model"
    raise BaselineError(
        "expected %s/v1/models to name the served model, found: %s; name the model, or see why the server does"
        " not answer" % (url, found)
    )


def _look(plan: Plan) -> Dict[str, Probe]:
    """Health and metrics, each in its own time."""

    def get(route: str) -> Callable[[Emit], Reading]:
        return lambda emit: _reading(
            _http.exchange(plan.url, route, None, plan.headers, LOOK_SECONDS, plan.verify)
        )

    return run_probes(
        [
            ProbeSpec("health", get("/health"), LOOK_SECONDS + 2.0),
            ProbeSpec("metrics", get("/metrics"), LOOK_SECONDS + 2.0),
        ]
    )


def _reading(reply: _http.Exchange) -> Reading:
    text = reply.body.decode("utf-8", "backslashreplace")
    return Reading({"status": reply.status, "text": text, "message": reply.message}, source="HTTP")


def _look_until_counted(plan: Plan, before: Mapping[str, Probe], answered: int) -> Dict[str, Probe]:
    end = time.monotonic() + COUNT_SECONDS
    while True:
        after = _look(plan)
        finished = _metrics.grown(_counters(before), _counters(after), _metrics.FINISHED)
        if finished is None or finished >= answered or time.monotonic() >= end:
            return after
        time.sleep(TRACE_SECONDS)


def _counters(look: Mapping[str, Probe]) -> Dict[str, float]:
    return _metrics.read(_metrics_text(look))


def _metrics_text(look: Mapping[str, Probe]) -> str:
    value = look["metrics"].value
    return str(value["text"]) if value and value["status"] == 200 else ""


def _send_all(plan: Plan) -> Dict[str, Probe]:
    over, say_over = os.pipe()
    try:
        return run_probes(
            [
                ProbeSpec("gpu_memory", lambda emit: _trace(emit, over), plan.most_seconds + LOOK_SECONDS),
                ProbeSpec("requests", lambda emit: _rounds(plan, emit, say_over), plan.most_seconds),
            ]
        )
    finally:
        os.close(over)
        os.close(say_over)


def _rounds(plan: Plan, emit: Emit, say_over: int) -> Reading:
    attempts: List[Dict[str, Any]] = []
    try:
        with ThreadPoolExecutor(plan.parallel) as pool:
            for number in range(plan.times):
                numbers = [number * plan.parallel + place for place in range(plan.parallel)]
                attempts.extend(pool.map(lambda each: _attempt(plan, each + 1), numbers))
                emit(Reading(list(attempts)))
    finally:
        os.write(say_over, b".")
    return Reading(attempts)


def _attempt(plan: Plan, number: int) -> Dict[str, Any]:
    identity = "%s-%d" % (plan.request_id, number) if plan.request_id else ""
    headers = {"Content-Type": "application/json", **plan.headers}
    if identity:
        headers["X-Request-Id"] = identity
    sent_at = _now()
    body = plan.body.encode("utf-8", "surrogatepass")
    reply = _http.exchange(plan.url, plan.route, body, headers, plan.timeout, plan.verify)
    if reply.outcome == _http.WHOLE and reply.status is not None:
        answer = _answer.judge(reply.status, reply.body)
    else:
        answer = _answer.Answer(reply.outcome, reply.message)
    return {
        "number": number,
        "request_id": identity,
        "sent_at": sent_at,
        "seconds": round(reply.seconds, 3),
        "first_byte_seconds": None
        if reply.first_byte_seconds is None
        else round(reply.first_byte_seconds, 3),
        "status": reply.status,
        "headers": {name: reply.headers[name] for name in HEADERS_OF_INTEREST if name in reply.headers},
        "body": reply.body.decode("utf-8", "backslashreplace"),
        "cut": reply.cut,
        **answer.as_dict(),
    }


def _trace(emit: Emit, over: int) -> Reading:
    """Memory on each GPU until the requests are over; a value is kept when it differs from the one before."""
    samples: List[Dict[str, Any]] = []
    began = time.monotonic()
    with _gpu_memory.opened() as used:
        while True:
            memory = used()
            if not samples or samples[-1]["bytes"] != memory:
                samples.append({"seconds": round(time.monotonic() - began, 2), "bytes": memory})
                emit(Reading(list(samples)))
            if select.select([over], [], [], TRACE_SECONDS)[0]:
                samples.append({"seconds": round(time.monotonic() - began, 2), "bytes": used()})
                return Reading(samples, source="NVML")


def _document(
    plan: Plan, before: Mapping[str, Probe], after: Mapping[str, Probe], answers: Mapping[str, Probe]
) -> Dict[str, Any]:
    requests, memory = answers["requests"], answers["gpu_memory"]
    attempts: List[Dict[str, Any]] = requests.value or []
    sent = plan.times * plan.parallel
    answered = sum(attempt["outcome"] == _answer.ANSWERED for attempt in attempts)
    # Wrong content was finished by the engine as well.
    finished_by_us = sum(attempt["status"] == 200 for attempt in attempts)
    counters = [_counters(before), _counters(after)]
    finished = _metrics.grown(counters[0], counters[1], _metrics.FINISHED)
    first_bad = next((attempt for attempt in attempts if attempt["outcome"] != _answer.ANSWERED), None)
    outcome = _answer.ANSWERED
    message = ""
    if first_bad is not None:
        outcome, message = first_bad["outcome"], first_bad["message"]
    elif requests.outcome != OK or len(attempts) < sent:
        outcome, message = _answer.TIMEOUT, requests.message or "not all requests came to an end"
    return {
        "schema": SCHEMA,
        "url": plan.url,
        "route": plan.route,
        "body": plan.body,
        "body_sha256": _body.digest(plan.body),
        "timeout": plan.timeout,
        "times": plan.times,
        "parallel": plan.parallel,
        "sent": sent,
        "answered": answered,
        "outcome": outcome,
        "message": message,
        "attempts": attempts,
        "metrics": {
            "before": counters[0],
            "after": counters[1],
            "grown": {name: _metrics.grown(counters[0], counters[1], name) for name in _metrics.KEPT},
            "message": _why_no_metrics(before, after),
        },
        "cache_config": _metrics.cache_config(_metrics_text(after)),
        "finished": finished,
        "disturbed": _metrics.disturbance(finished, sent, finished_by_us),
        "health": {"before": _status(before["health"]), "after": _status(after["health"])},
        "gpu_memory": {"outcome": memory.outcome, "message": memory.message, "trace": memory.value or []},
    }


def _status(probe: Probe) -> Optional[int]:
    return probe.value["status"] if probe.value else None


def _why_no_metrics(before: Mapping[str, Probe], after: Mapping[str, Probe]) -> str:
    for name, look in (("before", before), ("after", after)):
        probe = look["metrics"]
        if not probe.value:
            return "%s the requests: %s" % (name, probe.message or probe.outcome)
        if probe.value["status"] != 200:
            return "%s the requests: %s" % (name, probe.value["message"] or "HTTP %s" % probe.value["status"])
    return ""


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
