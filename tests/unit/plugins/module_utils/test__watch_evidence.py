# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real process that hangs tells where, and writes its Python stacks when it ends."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_evidence import (
    collect,
    read_threads,
    together,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank, read_row
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_stacks import catches, write_stacks

HANGING = """
import threading
lock = threading.Lock()
lock.acquire()

def waits_for_a_peer_that_is_gone():
    print("hanging", flush=True)
    lock.acquire()

def spins():
    while True:
        pass

threading.Thread(target=spins, daemon=True).start()
waits_for_a_peer_that_is_gone()
"""


@pytest.fixture
def hanging(tmp_path, request):
    """A Python that hangs for good with one thread, and spins with another."""
    environment = {**os.environ, **getattr(request, "param", {})}
    log = tmp_path / "rank.log"
    with open(log, "wb") as stream:
        child = subprocess.Popen(
            [sys.executable, "-c", HANGING],
            stdout=stream,
            stderr=stream,
            env=environment,
            start_new_session=True,
        )
    while b"hanging" not in log.read_bytes():
        time.sleep(0.02)
    yield child, log
    child.kill()
    child.wait()


def rank_of(child, log):
    return Rank(0, pid=child.pid, start_ticks=read_row(child.pid).start_ticks, log=str(log))


def test_where_the_threads_of_a_hung_process_are(hanging):
    child, log = hanging
    found = collect([rank_of(child, log)], "")["ranks"]["0"]
    assert [process["pid"] for process in found] == [child.pid]
    threads = found[0]["threads"]
    assert threads[0]["cpu_percent"] >= 50, "the spinning one comes first"
    waiting = [group for group in threads if group["state"] == "S"]
    assert waiting
    assert waiting[0]["cpu_percent"] < 50
    # A kernel stack is for root; who may not read it is told so.
    assert waiting[0]["stack"] or waiting[0]["stack_refused"] in ("denied", "absent")
    assert found[0]["status"]["Threads"] == "2"
    assert child.poll() is None, "nothing was changed"


def test_threads_in_the_same_place_are_one_entry():
    thread = {
        "tid": 1, "name": "a", "state": "S", "wchan": "futex_wait_queue", "syscall": "202", "stack": None,
        "stack_refused": "denied", "cpu_percent": 0,
    }  # fmt: skip
    found = together([{**thread, "tid": n, "name": "pool-%d" % (n % 2)} for n in range(100)] + [
        {**thread, "tid": 200, "state": "R", "wchan": "0", "cpu_percent": 99}
    ])  # fmt: skip
    assert [(group["count"], group["state"]) for group in found] == [(1, "R"), (100, "S")]
    assert found[1]["names"] == ["pool-0", "pool-1"]
    assert len(found[1]["tids"]) == 16


def test_a_process_that_is_gone_is_named():
    with pytest.raises(FileNotFoundError):
        read_threads(2**22 + 5, lambda _reading: None)


@pytest.mark.parametrize("hanging", [{"PYTHONFAULTHANDLER": "1"}], indirect=True)
def test_python_stacks_are_written_to_the_log(hanging):
    child, log = hanging
    document = write_stacks([rank_of(child, log)], "", wait_seconds=30.0)
    assert document["ranks"]["0"][0]["result"] == "written"
    assert child.wait() == -signal.SIGABRT
    text = log.read_text()
    assert "in waits_for_a_peer_that_is_gone" in text
    assert "in spins" in text


@pytest.mark.parametrize("hanging", [{"PYTHONFAULTHANDLER": "1"}], indirect=True)
def test_no_core_dump_is_made(hanging, monkeypatch):
    child, log = hanging
    monkeypatch.setattr(os, "kill", lambda _pid, _number: None)
    resource.prlimit(child.pid, resource.RLIMIT_CORE, (4096, 4096))
    document = write_stacks([rank_of(child, log)], "", wait_seconds=0.0)
    assert document["ranks"]["0"][0]["result"] == "asked, and did not end"
    assert resource.prlimit(child.pid, resource.RLIMIT_CORE) == (1, 4096)


@pytest.mark.parametrize("hanging", [{"PYTHONFAULTHANDLER": ""}], indirect=True)
def test_a_python_without_a_fault_handler_is_left_alone(hanging):
    child, log = hanging
    document = write_stacks([rank_of(child, log)], "", wait_seconds=0.0)
    assert document["ranks"]["0"][0]["result"].startswith("not asked: no fault handler")
    assert child.poll() is None


def test_a_process_with_a_reused_number_is_left_alone(hanging):
    child, log = hanging
    document = write_stacks([Rank(0, pid=child.pid, start_ticks=1, log=str(log))], "", wait_seconds=0.0)
    assert document["ranks"]["0"] == []
    assert child.poll() is None


def test_caught_signals():
    assert catches(
        "00000000000004e8", (signal.SIGABRT, signal.SIGSEGV, signal.SIGFPE, signal.SIGBUS, signal.SIGILL)
    )
    assert not catches("0000000000000020", (signal.SIGABRT, signal.SIGSEGV))
    assert not catches("", (signal.SIGABRT,))
