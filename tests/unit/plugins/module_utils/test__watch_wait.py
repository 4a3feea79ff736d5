# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wait ends by the kernel's word, not by its time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _watch_wait
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, TIMEOUT, ProbeFailure
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank, read_row
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_wait import (
    Watch,
    container_state,
    process_state,
    wait_for_end,
)

FOR_EVER = 3600.0


@pytest.fixture
def process():
    """A process that ends when its input does, and is waited for by nobody until then."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.communicate()


def rank_of(child):
    return Rank(0, pid=child.pid, start_ticks=read_row(child.pid).start_ticks, log="/dev/null")


@pytest.mark.parametrize("how", ["descriptor", "no descriptors", "refused"])
def test_the_end_of_a_process_ends_the_wait(process, how):
    def refused(_pid):
        raise PermissionError("no")

    if how == "descriptor" and not hasattr(os, "pidfd_open"):
        pytest.skip("this Python knows no process descriptors")

    def unknown(_pid):
        return _watch_wait._no_descriptors()

    opened = {"descriptor": None, "no descriptors": unknown, "refused": refused}[how]
    threading.Timer(0.2, process.stdin.close).start()
    assert wait_for_end([os.getpid(), process.pid], FOR_EVER, opened)


def test_no_end_within_the_time(process):
    assert not wait_for_end([process.pid], 0.05)
    assert not wait_for_end([process.pid], 0.05, lambda _pid: _watch_wait._no_descriptors())


def test_a_process_that_is_gone_already(process):
    process.kill()
    process.wait()
    assert wait_for_end([process.pid], FOR_EVER)


def test_a_watched_process_ends(process):
    watch = Watch([rank_of(process)], "", {})
    assert watch.wait(0.0)[1] is False
    threading.Timer(0.2, process.stdin.close).start()
    states, over = watch.wait(FOR_EVER)
    assert over
    assert states[0]["running"] is False
    assert states[0]["finished_at"]


def test_a_process_with_a_reused_number_is_over(process):
    rank = Rank(0, pid=process.pid, start_ticks=1, log="/dev/null")
    assert process_state(rank)["running"] is False


def state(**values):
    return {"State": {"Status": "running", "Running": True, "Pid": 5, **values}, "RestartCount": 0}


def test_states_of_a_container():
    assert container_state(state())["running"] is True
    assert container_state(state(Status="created", Running=False))["running"] is True
    over = container_state(
        state(Status="exited", Running=False, ExitCode=137, OOMKilled=True, FinishedAt="t")
    )
    assert (over["running"], over["exit_code"], over["oom_killed"], over["finished_at"]) == (
        False,
        137,
        True,
        "t",
    )
    assert container_state(state(ExitCode=0))["exit_code"] is None


class Engine:
    """An Engine that answers what it is told, or raises it."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, _socket, _deadline):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None

    def container(self, _identifier):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_engine_that_does_not_answer_is_no_end(monkeypatch, process):
    monkeypatch.setattr(_watch_wait, "Engine", Engine(ProbeFailure(TIMEOUT, "no answer")))
    states, over = Watch([Rank(0, "c")], "/s", {0: process.pid}).wait(0.05)
    assert not over
    assert (states[0]["running"], states[0]["problem"]) == (None, "no answer")


def test_the_kernel_tells_the_end_where_the_engine_does_not(monkeypatch, process):
    monkeypatch.setattr(_watch_wait, "Engine", Engine(ProbeFailure(TIMEOUT, "no answer")))
    monkeypatch.setattr(_watch_wait, "SETTLE_SECONDS", 0.1)
    watch = Watch([Rank(0, "c")], "/s", {0: process.pid})
    process.kill()
    process.wait()
    monkeypatch.setattr(watch, "_visible", lambda _states: [process.pid])
    states, over = watch.wait(FOR_EVER)
    assert over
    assert states[0]["running"] is False


def test_a_container_that_was_removed_is_over(monkeypatch, tmp_path):
    monkeypatch.setattr(_watch_wait, "Engine", Engine(ProbeFailure(ABSENT, "status 404: no such container")))
    socket = tmp_path / "docker.sock"
    socket.touch()
    states, over = Watch([Rank(0, "c")], str(socket), {}).wait(FOR_EVER)
    assert over
    assert states[0]["status"] == "removed"


def test_without_a_socket_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(_watch_wait, "Engine", Engine(ProbeFailure(ABSENT, "nobody listens")))
    states, over = Watch([Rank(0, "c")], str(tmp_path / "no.sock"), {}).wait(0.0)
    assert not over
    assert states[0]["running"] is None


def test_the_engine_needs_a_moment(monkeypatch, process):
    running, over = state(Pid=process.pid), state(Status="exited", Running=False, ExitCode=1)
    monkeypatch.setattr(_watch_wait, "Engine", Engine(running, running, running, over))
    watch = Watch([Rank(0, "c")], "/s", {})
    threading.Timer(0.2, process.stdin.close).start()
    states, ended = watch.wait(FOR_EVER)
    assert ended
    assert states[0]["exit_code"] == 1
