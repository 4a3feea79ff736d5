# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._attempt import (
    OUTCOMES,
    Evidence,
    Rank,
    judge,
    same,
)

RANKS = (Rank("tray1", 0, "head"), Rank("tray2", 1, "worker"))
STARTED = {"tray1": {"outcome": "started"}, "tray2": {"outcome": "started"}}
READY = {"tray1": {"outcome": "ready"}, "tray2": {"outcome": "ready"}}
ANSWER = {
    "outcome": "answered",
    "answered": 1,
    "sent": 1,
    "attempts": [{"outcome": "answered"}],
    "host": "tray1",
}
LOST = {
    "outcome": "failed",
    "stage": "engine",
    "substage": "nccl-init",
    "failure_class": "nccl-init",
    "node": 1,
    "rank": 4,
    "line": 17,
    "path": "tray2-1.log",
    "message": "NCCL error",
    "time": "2026-08-09T10:00:00Z",
    "confidence": "high",
    "reason": "it came first",
    "advice": "look at the interface",
}
ENDED = {
    "tray1": {"outcome": "sibling", "exit": {"running": True}},
    "tray2": {
        "outcome": "failed",
        "exit": {"running": False, "exit_code": 1},
        "ended_at": "2026-08-09T10:00:01Z",
    },
}


def attempt(**more: Any) -> dict[str, Any]:
    return judge(
        Evidence(**{"ranks": RANKS, "started": STARTED, "watched": READY, "requests": (ANSWER,), **more})
    )


def test_started_ready_and_answered_is_stable() -> None:
    verdict = attempt()
    assert (verdict["outcome"], verdict["stage"], verdict["failure_class"]) == ("stable", "none", "none")
    assert verdict["signature"] == {
        "stage": "none", "substage": "", "class": "none", "role": "", "exit": "", "request": "answered",
    }  # fmt: skip


def test_the_first_failure_of_the_logs_is_the_attempt_s() -> None:
    verdict = attempt(watched=ENDED, requests=(), first_failure=LOST)
    assert (verdict["outcome"], verdict["host"], verdict["node"], verdict["line"]) == (
        "failed",
        "tray2",
        1,
        17,
    )
    assert (verdict["stage"], verdict["failure_class"], verdict["advice"]) == (
        "engine",
        "nccl-init",
        "look at the interface",
    )
    assert verdict["signature"]["role"] == "worker"
    assert verdict["signature"]["exit"] == "exit 1"
    assert verdict["signature"]["request"] == "not asked"


def test_without_a_word_in_the_logs_the_rank_that_ended_first_is_named() -> None:
    watched = {
        "tray1": {"outcome": "failed", "ended_at": "2026-08-09T10:00:02Z", "exit": {"exit_code": 1}},
        "tray2": {
            "outcome": "failed",
            "ended_at": "2026-08-09T10:00:01Z",
            "stage": "weights",
            "exit": {"oom_killed": True},
        },
    }
    verdict = attempt(watched=watched, requests=())
    assert (verdict["host"], verdict["stage"], verdict["confidence"]) == ("tray2", "weights", "low")
    assert verdict["signature"]["exit"] == "out of memory"


@pytest.mark.parametrize("ends", [("hung", "hung"), ("deadline", "sibling"), ("hung", "sibling")])
def test_no_progress_is_hung(ends: tuple[str, str]) -> None:
    watched = {
        host: {"outcome": end, "stage": "engine", "exit": {}} for host, end in zip(READY, ends, strict=True)
    }
    verdict = attempt(watched=watched, requests=())
    assert verdict["signature"]["exit"] == "running"
    assert (verdict["outcome"], verdict["stage"], verdict["failure_class"]) == ("hung", "engine", "hang")


def test_a_container_that_could_not_be_made_failed_in_the_first_stage() -> None:
    started = {**STARTED, "tray2": {"outcome": "not started", "message": "unknown device"}}
    verdict = attempt(started=started, watched={}, requests=())
    assert (verdict["outcome"], verdict["stage"], verdict["host"]) == ("failed", "container", "tray2")
    assert verdict["message"] == "unknown device"


@pytest.mark.parametrize("outcome", ["blocked", "refused"])
def test_blocked_and_refused_are_no_failure_of_the_launch(outcome: str) -> None:
    started = {**STARTED, "tray2": {"outcome": outcome, "message": "held by 4711"}}
    verdict = attempt(started=started, watched={}, requests=())
    assert (verdict["outcome"], verdict["stage"]) == (outcome, "none")
    assert "held by 4711" in verdict["message"]


@pytest.mark.parametrize(
    "watched", [{"tray1": READY["tray1"]}, {**READY, "tray2": {"outcome": "unreachable"}}]
)
def test_a_host_that_was_lost_says_nothing_about_the_launch(watched: dict[str, Any]) -> None:
    verdict = attempt(watched=watched, requests=())
    assert (verdict["outcome"], verdict["host"]) == ("interrupted", "tray2")


def test_a_lost_host_does_not_hide_another_one_s_failure() -> None:
    watched = {"tray1": {"outcome": "unreachable"}, "tray2": ENDED["tray2"]}
    assert attempt(watched=watched, requests=(), first_failure=LOST)["outcome"] == "failed"


def test_a_host_that_never_answered_the_start_is_an_interruption() -> None:
    assert attempt(started={"tray1": STARTED["tray1"]}, watched={}, requests=())["outcome"] == "interrupted"


def test_a_task_of_ours_that_broke_says_nothing_about_the_launch() -> None:
    started = {**STARTED, "tray2": {"outcome": "error", "message": "no room for Ansible's files"}}
    verdict = attempt(started=started, watched={}, requests=())
    assert (verdict["outcome"], verdict["host"]) == ("interrupted", "tray2")
    assert "no room" in verdict["message"]


def test_a_new_holder_and_foreign_requests_disturb() -> None:
    watched = {**READY, "tray2": {"outcome": "disturbed", "message": "pid 7"}}
    assert attempt(watched=watched)["outcome"] == "disturbed"
    verdict = attempt(requests=({**ANSWER, "disturbed": "the engine finished 2 requests and we sent 1"},))
    assert (verdict["outcome"], verdict["host"]) == ("disturbed", "tray1")


def test_a_server_that_never_answers_failed_in_the_last_stage_of_the_start() -> None:
    bad = {
        "outcome": "timeout",
        "message": "no whole answer within 60 s",
        "attempts": [{"outcome": "timeout"}],
        "host": "tray1",
    }
    verdict = attempt(requests=(bad,))
    assert (verdict["outcome"], verdict["stage"], verdict["failure_class"]) == (
        "failed",
        "api",
        "request-timeout",
    )


def test_a_server_that_answered_before_failed_at_runtime() -> None:
    bad = {
        "outcome": "timeout",
        "attempts": [{"outcome": "answered"}, {"outcome": "timeout", "sent_at": "t"}],
    }
    assert (attempt(requests=(bad,))["stage"], attempt(requests=(bad,))["time"]) == ("runtime", "t")
    at_once = {"outcome": "timeout", "attempts": [{"outcome": "timeout"}]}
    assert attempt(requests=(ANSWER, at_once))["stage"] == "runtime"


def test_a_request_that_killed_the_engine_is_told_by_the_logs() -> None:
    bad = {"outcome": "connection lost", "attempts": [{"outcome": "connection lost"}]}
    verdict = attempt(
        requests=(bad,), first_failure={**LOST, "stage": "runtime", "failure_class": "cuda-error"}
    )
    assert (verdict["stage"], verdict["failure_class"]) == ("runtime", "cuda-error")
    assert verdict["message"] == "fixed request: connection lost; NCCL error"


def test_what_was_not_asked_is_not_stable() -> None:
    assert attempt(requests=())["outcome"] == "interrupted"
    assert attempt(requests_wanted=2)["outcome"] == "interrupted"
    assert attempt(requests=(), requests_wanted=0)["outcome"] == "stable"


def test_stable_needs_every_piece_of_evidence() -> None:
    """Whatever is missing or bad in one place, the attempt is not stable."""
    ends = ["ready", "failed", "hung", "deadline", "sibling", "unreachable", "disturbed", ""]
    starts = ["started", "already", "blocked", "refused", "not started", ""]
    for start, end, request in itertools.product(starts, ends, ["answered", "timeout", "wrong content"]):
        verdict = attempt(
            started={**STARTED, "tray2": {"outcome": start}},
            watched={**READY, "tray2": {"outcome": end}},
            requests=({**ANSWER, "outcome": request},),
        )
        good = start in ("started", "already") and end == "ready" and request == "answered"
        assert (verdict["outcome"] == "stable") == good
        assert verdict["outcome"] in OUTCOMES


def test_two_attempts_are_the_same_by_signature_and_not_by_text() -> None:
    one = attempt(watched=ENDED, requests=(), first_failure=LOST)
    again = attempt(
        watched=ENDED, requests=(), first_failure={**LOST, "line": 99, "message": "other", "time": "later"}
    )
    other = attempt(watched=ENDED, requests=(), first_failure={**LOST, "failure_class": "oom"})
    assert same(one, again)
    assert not same(one, other)
