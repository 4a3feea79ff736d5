# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One poll of a real process: its lines, its numbers, its end; nothing that hangs costs more than its own time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _watch_poll, _watch_sample
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    OK,
    TIMEOUT,
    Probe,
    ProbeFailure,
    Reading,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_health import health_status, listeners
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_poll import (
    PollOptions,
    confirmed,
    poll,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank, read_row

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def no_driver(monkeypatch):
    """This machine's driver, if it has one, is not part of these tests."""

    def none(_emit):
        raise ProbeFailure(ABSENT, "no driver")

    monkeypatch.setattr(_watch_sample, "read_gpus", none)
    monkeypatch.setattr(_watch_sample, "read_all_holders", none)


@pytest.fixture
def started(tmp_path):
    children = []

    def start(program):
        log = tmp_path / ("%d.log" % len(children))
        with open(log, "wb") as stream:
            child = subprocess.Popen(
                [sys.executable, "-c", program], stdout=stream, stderr=stream, stdin=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        children.append(child)
        while not log.read_bytes().endswith(b"\n"):
            time.sleep(0.02)
        return child, log

    yield start
    for child in children:
        child.kill()
        child.communicate()


def rank_of(child, log, **more):
    return Rank(0, pid=child.pid, start_ticks=read_row(child.pid).start_ticks, log=str(log), **more)


def ask(rank, cursor, seconds):
    answer = poll(PollOptions([rank], json.loads(json.dumps(cursor)), seconds, b"k" * 32))
    json.dumps(answer)
    return answer


def test_from_the_first_line_to_the_end(started, tmp_path):
    child, log = started("print('begins', flush=True); input(); print('last words', flush=True)")
    (tmp_path / "lease").touch()
    rank = rank_of(child, log, state_directory=str(tmp_path))
    first = ask(rank, {}, 0.0)
    row = first["ranks"][0]
    assert (first["ended"], row["lines"], row["state"]["running"]) == (False, "begins\n", True)
    assert row["sample"]["bytes_read"] > 0
    assert row["sample"]["log_bytes"] == 7
    assert row["lease"] is True
    child.stdin.write(b"\n")
    child.stdin.close()
    # Were the wait not ended by the process's end, its probe would run out of time and tell no end.
    last = ask(rank, first["cursor"], 3600.0)
    assert last["ended"]
    assert last["ranks"][0]["lines"] == "last words\n"


def test_a_driver_that_does_not_answer_costs_its_own_time_once(started, monkeypatch):
    child, log = started("print('begins', flush=True); input()")
    asked = []

    def hangs(_emit):
        time.sleep(3600)

    monkeypatch.setattr(_watch_poll, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(_watch_sample, "read_gpus", hangs)
    rank = rank_of(child, log)
    first = ask(rank, {}, 0.2)
    assert any(problem.startswith("gpus: timeout") for problem in first["problems"])
    assert first["ranks"][0]["lines"] == "begins\n"
    assert first["ranks"][0]["sample"]["gpu_memory"] is None
    monkeypatch.setattr(_watch_sample, "read_gpus", lambda _emit: asked.append(1) or Reading({}))
    second = ask(rank, first["cursor"], 0.2)
    assert second["problems"] == []
    assert second["cursor"]["gpus_again"] == first["cursor"]["gpus_again"]


def test_gpu_memory_of_all_and_of_the_rank(started, monkeypatch):
    child, log = started("print('begins', flush=True); input()")
    gpus = [
        {"uuid": "A", "minor": 0, "processes": [{"pid": child.pid, "kind": "compute", "memory_used": 5}]},
        {"uuid": "B", "minor": 1, "processes": []},
    ]
    monkeypatch.setattr(
        _watch_sample, "read_gpus", lambda _emit: Reading({"memory": {"A": 9, "B": 1}, "gpus": gpus})
    )
    sample = ask(rank_of(child, log), {}, 0.1)["ranks"][0]["sample"]
    assert (sample["gpu_memory"], sample["rank_gpu_memory"]) == ({"A": 9, "B": 1}, {"A": 5})
    only = ask(rank_of(child, log, gpus=("B",)), {}, 0.1)["ranks"][0]["sample"]
    assert only["gpu_memory"] == {"B": 1}


def test_a_stranger_is_told_once_and_only_when_it_stays(started, monkeypatch):
    child, log = started("print('begins', flush=True); input()")
    stranger, _log = started("print('begins', flush=True); input()")
    processes = [{"pid": pid, "kind": "compute", "memory_used": 5} for pid in (child.pid, stranger.pid)]
    gpus = [{"uuid": "A", "minor": 0, "processes": processes}]
    monkeypatch.setattr(_watch_sample, "read_gpus", lambda _emit: Reading({"memory": {"A": 9}, "gpus": gpus}))
    rank, cursor, told = rank_of(child, log), {}, []
    for _count in range(4):
        answer = ask(rank, cursor, 0.05)
        cursor = answer["cursor"]
        told.append([holder["pid"] for holder in answer["holders_new"]])
    assert told == [[], [stranger.pid], [], []]


def test_confirmed_strangers():
    found = [{"identity": "5@1"}, {"identity": "6@1"}, {"identity": "7@1"}]
    cursor = {"seen": ["5@1", "6@1"], "told": ["6@1"]}
    assert confirmed(found, cursor, []) == [{"identity": "5@1"}]
    assert confirmed(found, cursor, ["5@1"]) == []
    assert confirmed(None, cursor, []) == []


def test_health_is_that_of_the_ranks_own_server(started):
    server, server_log = started(SERVER)
    other, other_log = started("print('begins', flush=True); input()")
    port = int(server_log.read_text())
    assert listeners(port) == [server.pid]
    own = ask(rank_of(server, server_log, api_port=port), {}, 0.0)
    assert own["ranks"][0]["health"] == 200
    foreign = ask(rank_of(other, other_log, api_port=port), {}, 0.0)
    assert foreign["ranks"][0]["health"] is None


def test_health_where_the_listener_is_not_known():
    answer = partial(Probe, "health.0", OK)
    assert health_status(answer({"status": 200, "listeners": None}), {"pids": [1]}) == 200
    assert health_status(answer({"status": 503, "listeners": None}), {"pids": [1]}) == 503
    assert health_status(answer({"status": None, "listeners": None}), {"pids": [1]}) is None
    assert health_status(Probe("health.0", TIMEOUT), {"pids": [1]}) is None


def test_a_log_that_is_not_there_is_a_problem_and_no_end(started, tmp_path):
    child, _log = started("print('begins', flush=True); input()")
    answer = ask(rank_of(child, tmp_path / "none.log"), {}, 0.0)
    assert answer["ranks"][0]["log_problem"].startswith("absent: ")
    assert not answer["ended"]
