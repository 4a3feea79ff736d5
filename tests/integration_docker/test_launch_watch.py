# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real containers are followed to their end, which ends the wait by itself."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_poll import PollOptions, poll
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank

SECRET = "Zk8q2Vx9Lm4tRw7Zk8q2"


def ask(rank: Rank, cursor: dict[str, Any], seconds: float) -> dict[str, Any]:
    return poll(PollOptions([rank], json.loads(json.dumps(cursor)), seconds, b"k" * 32))


def run(docker: Any, image: str, script: str, *options: str) -> Rank:
    name = docker.name()
    identifier = docker("run", "-d", "--name", name, *options, image, "sh", "-c", script)
    return Rank(0, identifier, name)


@pytest.mark.parametrize("driver", ["json-file", "local"])
def test_lines_come_once_and_without_secrets(docker: Any, image: str, driver: str) -> None:
    script = 'echo one; echo "token $API_TOKEN"; sleep 1; echo three >&2; exec sleep 1000'
    rank = run(docker, image, script, "--log-driver", driver, "-e", f"API_TOKEN={SECRET}")
    cursor: dict[str, Any] = {}
    text = ""
    while "three" not in text:
        answer = ask(rank, cursor, 0.3)
        cursor, text = answer["cursor"], text + answer["ranks"][0]["lines"]
        assert not answer["ended"]
    assert [line.split(" ")[2] for line in text.splitlines()] == ["one", "token", "three"]
    assert [line.split(" ")[1] for line in text.splitlines()][-1] == "stderr"
    assert SECRET not in text
    assert ask(rank, cursor, 0.0)["ranks"][0]["lines"] == ""


def test_the_end_of_a_container_ends_the_wait(docker: Any, image: str) -> None:
    rank = run(docker, image, "echo begins; sleep 2; echo ends; exit 7")
    first = ask(rank, {}, 0.2)
    assert (first["ended"], first["ranks"][0]["lines"].split(" ")[2]) == (False, "begins\n")
    # The wait is an hour: only the end itself can end it before the probe's own time is over.
    last = ask(rank, first["cursor"], 3600.0)
    heard = time.time()
    state = last["ranks"][0]["state"]
    assert last["ended"]
    assert (state["running"], state["exit_code"], state["oom_killed"], state["problem"]) == (
        False,
        7,
        False,
        "",
    )
    assert "ends\n" in last["ranks"][0]["lines"]
    finished = datetime.fromisoformat(state["finished_at"][:26].rstrip("Z") + "+00:00").timestamp()
    print(f"the end was told {heard - finished:.2f} s after FinishedAt")


def test_a_killed_container(docker: Any, image: str) -> None:
    rank = run(docker, image, "echo begins; exec sleep 1000")
    first = ask(rank, {}, 0.2)
    threading.Timer(0.5, lambda: docker("kill", rank.name)).start()
    last = ask(rank, first["cursor"], 3600.0)
    assert last["ranks"][0]["state"]["exit_code"] == 137


def test_a_container_that_is_removed_while_it_is_watched(docker: Any, image: str) -> None:
    rank = run(docker, image, "exec sleep 1000")
    first = ask(rank, {}, 0.2)
    threading.Timer(0.5, lambda: docker("rm", "-f", rank.name)).start()
    last = ask(rank, first["cursor"], 3600.0)
    assert last["ended"]
    assert last["ranks"][0]["state"]["running"] is False


def test_the_processes_of_a_container_are_its_own(docker: Any, image: str) -> None:
    rank = run(docker, image, "head -c 8388608 /dev/zero >/dev/null & wait; sleep 1000 & exec sleep 1000")
    sample: dict[str, Any] = {}
    cursor: dict[str, Any] = {}
    while sample.get("processes") != 2:
        answer = ask(rank, cursor, 0.2)
        cursor, sample = answer["cursor"], answer["ranks"][0]["sample"]
    assert sample["bytes_read"] is not None
    assert sample["threads"] == 2
