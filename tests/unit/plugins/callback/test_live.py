# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The live view: on a terminal alone, while a start is watched, and a word when it is interrupted."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.callback import live
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import Events, events_path
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_view import LIVE_VARIABLE


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(live, "REDRAW_SECONDS", 0.01)
    monkeypatch.setattr(live.atexit, "register", lambda _function: None)
    monkeypatch.setattr(live.context, "CLIARGS", {"inventory": ("inventories/gb300",)})
    monkeypatch.setenv(LIVE_VARIABLE, "")
    callback = live.CallbackModule()
    callback.v2_playbook_on_start(None)
    yield callback
    callback._stop()


def opened(run: Path) -> Any:
    return SimpleNamespace(task=task(live.OPENS_A_RUN), result={"path": str(run)})


def task(action: str) -> Any:
    return SimpleNamespace(action=action)


def drawn(callback: Any, text: str) -> None:
    while text not in callback._stream.getvalue():
        time.sleep(0.01)


def test_it_draws_while_a_start_is_watched(made: Any, tmp_path: Path) -> None:
    assert os.environ[LIVE_VARIABLE] == "1"
    Events(events_path(tmp_path, "a", 0)).append({"time": 1.0, "kind": "ready"})
    made.v2_runner_on_ok(opened(tmp_path))
    made.v2_playbook_on_task_start(task(live.WATCHES), False)
    drawn(made, "a              rank 0")
    made.v2_playbook_on_task_start(task("ansible.builtin.debug"), False)
    assert made._thread is None
    before = made._stream.getvalue()
    made.interrupted()
    assert made._stream.getvalue() == before


def test_an_interrupted_watch_says_how_to_stop_the_ranks(made: Any, tmp_path: Path) -> None:
    made.v2_runner_on_ok(opened(tmp_path))
    made.v2_playbook_on_task_start(task(live.WATCHES), False)
    made.interrupted()
    text = made._stream.getvalue()
    assert f"ansible-playbook gpufleet.baseline.clean -i inventories/gb300 -e run={tmp_path}" in text


def test_other_tasks_and_a_task_without_a_run_draw_nothing(made: Any, tmp_path: Path) -> None:
    made.v2_playbook_on_task_start(task(live.WATCHES), False)
    assert made._thread is None
    made.v2_runner_on_ok(opened(tmp_path))
    made.v2_playbook_on_task_start(task("ansible.builtin.debug"), False)
    assert made._thread is None
    made.v2_playbook_on_stats(None)
    assert made._stream.getvalue() == ""


def test_without_a_terminal_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.delenv(LIVE_VARIABLE, raising=False)
    callback = live.CallbackModule()
    callback.v2_playbook_on_start(None)
    callback.v2_runner_on_ok(opened(tmp_path))
    callback.v2_playbook_on_task_start(task(live.WATCHES), False)
    assert callback._thread is None
    assert LIVE_VARIABLE not in os.environ
