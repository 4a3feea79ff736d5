# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of a watch over a simulated host and clock: recorded starts in, one ending out."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import Events, Tail, events_path
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_loop import (
    ConnectionLost,
    Member,
    Options,
    Watcher,
    World,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_rule import LIMITS

RECORDINGS = Path(__file__).parents[3] / "lab" / "engine" / "recordings"
GIB = 1024**3
RUNNING = {
    "running": True,
    "status": "running",
    "exit_code": None,
    "oom_killed": False,
    "error": "",
    "pid": 7,
}


def recorded(name: str) -> list[str]:
    text = (RECORDINGS / f"{name}.log").read_bytes().decode()
    return [line + "\n" for line in text.split("\n") if line and not line.startswith("#|")]


def started(name: str = "healthy") -> list[str]:
    """A recorded start up to its readiness."""
    lines = recorded(name)
    return lines[: next(n for n, line in enumerate(lines) if "Application startup complete" in line) + 1]


def exited(code: int, **more: Any) -> dict[str, Any]:
    return {**RUNNING, "running": False, "status": "exited", "exit_code": code, "finished_at": "F", **more}


class Host:
    """A host whose ranks say a few lines a poll; ``at`` changes what it tells from the n-th poll on."""

    def __init__(self, lines: list[str], a_poll: int = 5, rank: int = 0) -> None:
        self.now = 1_000_000.0
        self.lines, self.a_poll, self.rank = lines, a_poll, rank
        self.polls = 0
        self.state: dict[str, Any] = RUNNING
        self.sample: Callable[[int], dict[str, Any]] = lambda _n: {}
        self.at: dict[int, Callable[[], None]] = {}
        self.health: int | None = None
        self.holders: list[dict[str, Any]] = []
        self.lost = False
        self.evidence_read = 0
        self.shown: list[str] = []
        self.log_problem = ""
        self.lease: bool | None = True

    def poll(self, cursor: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        self.polls += 1
        self.at.get(self.polls, lambda: None)()
        self.now += seconds
        if self.lost:
            raise ConnectionLost("no route to host")
        place = int(cursor.get("line", 0))
        piece = self.lines[place : place + self.a_poll]
        row = {
            "rank": self.rank, "state": self.state, "lines": "".join(piece), "unfinished": "", "gap": "",
            "more": self.state["running"] is False and place + self.a_poll < len(self.lines),
            "log_problem": self.log_problem, "sample": self.sample(self.polls), "health": self.health,
            "lease": self.lease,
        }  # fmt: skip
        holders, self.holders = self.holders, []
        return {"cursor": {"line": place + len(piece)}, "ranks": [row], "holders_new": holders}

    def evidence(self) -> dict[str, Any]:
        self.evidence_read += 1
        return {"schema": "gpufleet.baseline/hang-evidence/1", "ranks": {}}

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def watch(tmp_path: Path, host: Host, group: list[Member] | None = None, **options: Any) -> dict[str, Any]:
    chosen = {"limits": LIMITS, "stop_command": "stop it", **options}
    members = group or [Member("a", host.rank, True)]
    told = Options("a", tmp_path, [{"rank": host.rank}], members, **chosen)
    return Watcher(
        told, World(host.poll, host.evidence, host.shown.append, lambda: host.now, host.sleep)
    ).watch()


def events(tmp_path: Path, host: str = "a", rank: int = 0) -> list[dict[str, Any]]:
    return Tail(events_path(tmp_path, host, rank)).read()


def test_a_recorded_start_becomes_ready(tmp_path):
    host = Host(recorded("healthy"))
    result = watch(tmp_path, host)
    assert (result["outcome"], result["stage"]) == ("ready", "runtime")
    seen = events(tmp_path)
    stages = [event["stage"] for event in seen if event["kind"] == "stage"]
    assert stages[0] == "weights"  # model-config, and the engine's own order from there
    assert [stage for stage in ("devices", "engine", "api", "runtime") if stage in stages] == [
        "devices", "engine", "api", "runtime",
    ]  # fmt: skip
    assert [event["kind"] for event in seen][-1] == "end"
    assert host.shown[0] == "to stop: stop it"
    assert any("ready: its log says so" in line for line in host.shown)
    assert all(len(line) <= 100 for line in host.shown)
    kept = gzip.decompress((tmp_path / "logs" / "a-0.log.gz").read_bytes()).decode()
    assert "".join(recorded("healthy")).startswith(kept)
    assert "Application startup complete" in kept


@pytest.mark.parametrize(
    "name", ["weights-oom", "engine-kv-no-memory", "api-port-in-use", "devices-no-cuda-gpus"]
)
def test_an_exit_ends_the_wait_and_the_whole_log_is_kept(tmp_path, name):
    host = Host(recorded(name))
    host.at[3] = lambda: setattr(host, "state", exited(1))
    result = watch(tmp_path, host)
    assert result["outcome"] == "failed"
    assert result["exit"]["exit_code"] == 1
    assert "exit code 1" in result["reason"]
    kept = gzip.decompress((tmp_path / "logs" / "a-0.log.gz").read_bytes()).decode()
    assert kept == "".join(recorded(name))
    assert any(event["kind"] == "failure" for event in events(tmp_path))
    assert host.evidence_read == 0


def test_a_killed_container_says_so(tmp_path):
    host = Host(recorded("healthy"), a_poll=2)
    host.at[4] = lambda: setattr(host, "state", exited(137, oom_killed=True))
    assert "exit code 137, killed for memory" in watch(tmp_path, host)["reason"]


def test_a_foreign_server_on_the_port_is_not_asked_for_readiness(tmp_path):
    # The host tells no health for a port that is not the rank's, so only the limit is left.
    host = Host(recorded("healthy")[:6])
    host.health = None
    assert watch(tmp_path, host)["outcome"] == "hung"


def test_health_alone_is_enough_for_a_form_of_log_that_is_not_known(tmp_path):
    host = Host(["what nobody has seen before\n"])
    host.at[5] = lambda: setattr(host, "health", 200)
    assert watch(tmp_path, host)["outcome"] == "ready"


def test_fifty_silent_minutes_of_loading_then_ready(tmp_path):
    lines = started()
    load = next(n for n, line in enumerate(lines) if "Completed | 0/" in line)
    host = Host(lines[:load], a_poll=50)
    host.sample = lambda n: {"bytes_read": n * 300 * 1024**2, "cpu_seconds": n * 0.01}
    host.at[1000] = lambda: setattr(host, "lines", lines)
    result = watch(tmp_path, host, limits={**LIMITS, "weights": 300.0})
    assert result["outcome"] == "ready"
    assert result["watched_seconds"] > 3000
    quiet = [line for line in host.shown if "read" in line]
    assert quiet, "a silent load shows how much was read"


def test_a_spinning_rank_is_hung_with_evidence_and_its_last_line(tmp_path):
    host = Host(recorded("engine-hang-nccl"), a_poll=500)
    host.sample = lambda n: {
        "bytes_read": 5 * GIB, "cpu_seconds": 3.0 * n, "rank_gpu_memory": {"G": 2 * GIB}, "threads": 300,
    }  # fmt: skip
    result = watch(tmp_path, host, limits={**LIMITS, "engine": 900.0})
    assert (result["outcome"], result["stage"]) == ("hung", "engine")
    assert host.evidence_read == 1
    assert result["evidence"]["schema"].endswith("hang-evidence/1")
    assert json.loads((tmp_path / "watch" / "a-evidence.json").read_text()) == result["evidence"]
    assert result["last_line"]
    assert 900 < result["watched_seconds"] < 1000


def test_heartbeats_do_not_keep_a_hang_alive(tmp_path):
    beat = "(EngineCore pid=9) INFO 08-09 10:{0:02d}:00 [shm_broadcast.py:681] No available shared memory "
    beat += "broadcast block found in 60 seconds. This typically happens when some processes are hanging.\n"
    host = Host(recorded("engine-hang-nccl") + [beat.format(n % 60) for n in range(60)], a_poll=1)
    result = watch(tmp_path, host, limits={**LIMITS, "engine": 100.0})
    assert result["outcome"] == "hung"
    assert "broadcast block" not in result["last_line"]


def test_silent_ranks_are_named(tmp_path):
    result = watch(tmp_path, Host([]), limits={**LIMITS, "container": 60.0})
    assert result["outcome"] == "hung"
    assert "never spoke: a rank 0" in result["reason"]


def test_progress_of_a_sibling_keeps_the_group_alive_and_its_end_ends_it(tmp_path):
    host = Host(recorded("healthy")[:6], rank=1)
    sibling = Events(events_path(tmp_path, "b", 0))

    def tell(**event: Any) -> Callable[[], None]:
        return lambda: sibling.append({"time": host.now, "rank": 0, **event})

    for n in range(1, 200):
        host.at[n] = tell(kind="progress", what="bytes read", stage="weights")
    host.at[200] = tell(kind="end", outcome="failed", reason="exit code 1", stage="weights")
    group = [Member("b", 0, True), Member("a", 1, False)]
    result = watch(tmp_path, host, group, limits={**LIMITS, "weights": 60.0})
    assert result["outcome"] == "sibling"
    assert "b rank 0 ended the wait: failed, exit code 1" in result["reason"]
    assert host.polls == 201  # one more, for this rank's last words
    assert host.evidence_read == 0


def test_the_threads_of_every_rank_are_read_when_a_sibling_found_the_hang(tmp_path):
    host = Host(recorded("healthy")[:6], rank=1)
    host.at[2] = lambda: Events(events_path(tmp_path, "b", 0)).append(
        {"time": host.now, "kind": "end", "outcome": "hung", "reason": "no progress"}
    )
    result = watch(tmp_path, host, [Member("b", 0, True), Member("a", 1, False)])
    assert (result["outcome"], host.evidence_read) == ("sibling", 1)


def test_a_rank_without_endpoint_waits_for_those_that_serve(tmp_path):
    host = Host(recorded("healthy.node1"), rank=1)
    host.at[30] = lambda: Events(events_path(tmp_path, "b", 0)).append({"time": host.now, "kind": "ready"})
    result = watch(tmp_path, host, [Member("b", 0, True), Member("a", 1, False)])
    assert result["outcome"] == "ready"
    assert host.polls == 30


def test_one_that_serves_goes_on_renewing_until_all_do(tmp_path):
    host = Host(started(), a_poll=500)
    host.at[40] = lambda: Events(events_path(tmp_path, "b", 1)).append({"time": host.now, "kind": "ready"})
    result = watch(tmp_path, host, [Member("a", 0, True), Member("b", 1, True)])
    assert result["outcome"] == "ready"
    assert host.polls == 40


def test_the_end_of_an_earlier_watch_of_the_run_does_not_count(tmp_path):
    host = Host(recorded("healthy.node1"), rank=1)
    sibling = Events(events_path(tmp_path, "b", 0))
    sibling.append({"time": host.now - 900.0, "kind": "end", "outcome": "failed", "reason": "before"})
    host.at[3] = lambda: sibling.append({"time": host.now, "kind": "ready"})
    assert watch(tmp_path, host, [Member("b", 0, True), Member("a", 1, False)])["outcome"] == "ready"


def test_a_new_holder_disturbs_and_does_not_fail(tmp_path):
    host = Host(recorded("healthy"), a_poll=1)
    holder = {"pid": 77, "command": "python3", "user": "bob", "identity": "77@1"}
    host.at[4] = lambda: setattr(host, "holders", [holder])
    result = watch(tmp_path, host)
    assert result["outcome"] == "disturbed"
    assert result["holders"] == [holder]
    assert "process 77, user bob" in result["reason"]


def test_a_cut_connection_is_tried_again_within_its_bound(tmp_path):
    host = Host(recorded("healthy"))
    host.at[2] = lambda: setattr(host, "lost", True)
    host.at[9] = lambda: setattr(host, "lost", False)
    assert watch(tmp_path, host)["outcome"] == "ready"
    assert any("connection lost: no route to host" in line for line in host.shown)
    assert any("connected again after" in line for line in host.shown)


def test_a_host_that_stays_away_is_unreachable_and_not_hung(tmp_path):
    host = Host(recorded("healthy"))
    host.at[2] = lambda: setattr(host, "lost", True)
    result = watch(tmp_path, host, limits=dict.fromkeys(LIMITS, 10.0), unreachable_seconds=60.0)
    assert result["outcome"] == "unreachable"
    assert "no route to host" in result["reason"]
    assert result["exit"] == {}


def test_the_deadline_is_that_of_the_group(tmp_path):
    host = Host(recorded("healthy")[:6])
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "deadline").write_text(f"{host.now + 30.0}\n")
    result = watch(tmp_path, host, deadline=9999.0)
    assert result["outcome"] == "deadline"
    assert 30 <= result["watched_seconds"] < 40
    assert host.evidence_read == 1
    assert "to stop: stop it" not in host.shown  # the one that set the deadline has shown it


def test_a_failure_in_the_log_of_a_rank_that_lives_on(tmp_path):
    host = Host(recorded("weights-oom"), a_poll=1000)
    result = watch(tmp_path, host, linger_seconds=30.0)
    assert result["outcome"] == "failed"
    assert "lives on" in result["reason"]
    assert result["exit"] == {}


def test_a_lease_that_is_gone_and_a_log_that_cannot_be_read_are_told_once(tmp_path):
    host = Host(recorded("healthy"), a_poll=3)
    host.lease, host.log_problem = False, "denied: permission denied"
    watch(tmp_path, host)
    warnings = [event["text"] for event in events(tmp_path) if event["kind"] == "warning"]
    assert sum("lease is gone" in text for text in warnings) == 1
    assert warnings.count("denied: permission denied") == 1


def test_shown_text_of_a_log_cannot_move_the_cursor(tmp_path):
    host = Host(["\x1b[2J\x1b]0;x\x07(APIServer pid=1) INFO 08-09 10:00:00 [x.py:1] \x1b[31mred\x1b[0m\n"])
    result = watch(tmp_path, host, limits={**LIMITS, "container": 60.0})
    assert "\x1b" not in "".join(host.shown)
    assert result["last_line"] == "(APIServer pid=1) INFO 08-09 10:00:00 [x.py:1] red"


def test_something_is_shown_every_half_minute(tmp_path):
    host = Host(recorded("healthy")[:6])
    at: list[float] = []
    show = host.shown.append
    host.shown = type("Shown", (list,), {"append": lambda own, text: (at.append(host.now), show(text))})()
    watch(tmp_path, host, deadline=300.0)
    assert max(after - before for before, after in itertools.pairwise(at)) <= 33.0
