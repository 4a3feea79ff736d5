# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of watched ranks, and a wait that ends at once when one of them ends (private to the collection).

The wait is for the kernel's word on the rank's first process, by a process descriptor (pidfd_open(2)), not for
the next round of asking. Where that cannot be had (an older kernel, a process of another PID namespace) the
processes or the Engine are asked several times a second.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, ProbeFailure
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import utc
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank, is_alive, read_row

State = Dict[str, Any]
# The Engine needs a moment to write down what the kernel has told already.
SETTLE_SECONDS = 1.5
_ASK_SECONDS = 0.05
_LOOK_SECONDS = 0.2
_ENGINE_SECONDS = 1.0


def unknown(problem: str, pid: int = 0) -> State:
    """The state of a rank that could not be asked for."""
    return {
        "running": None,
        "status": "",
        "exit_code": None,
        "oom_killed": None,
        "error": "",
        "started_at": None,
        "finished_at": None,
        "restarts": None,
        "pid": pid,
        "problem": problem,
    }


def container_state(inspect: Mapping[str, Any]) -> State:
    """The state in an answer of GET /containers/ID/json."""
    state = inspect.get("State") or {}
    status = str(state.get("Status") or "")
    # A container that was made and not started yet is not over.
    over = status in ("exited", "dead", "removing") or not (state.get("Running") or status == "created")
    return {
        **unknown(""),
        "running": not over,
        "status": status,
        "exit_code": state.get("ExitCode") if over else None,
        "oom_killed": bool(state.get("OOMKilled")),
        "error": str(state.get("Error") or ""),
        "started_at": state.get("StartedAt"),
        "finished_at": state.get("FinishedAt") if over else None,
        "restarts": inspect.get("RestartCount"),
        "pid": int(state.get("Pid") or 0),
    }


def process_state(rank: Rank, proc: str = "/proc") -> State:
    """The state of a rank that is a plain process. Nobody but its parent is told its exit code."""
    row = read_row(rank.pid, proc)
    alive = is_alive(row, rank.start_ticks)
    return {
        **unknown("", rank.pid),
        "running": alive,
        "status": "running" if alive else "exited",
        "finished_at": None if alive else utc(time.time()),
    }


class Watch:
    """Asks for states. ``inspects`` keeps the Engine's whole answers; ``pids`` are known from an earlier call."""

    def __init__(
        self, ranks: Sequence[Rank], socket: str, pids: Mapping[int, int], deadline: int = 5
    ) -> None:
        self._ranks = ranks
        self._socket = socket
        self._pids = dict(pids)
        self._deadline = deadline
        self.inspects: Dict[int, Mapping[str, Any]] = {}

    def states(self) -> Dict[int, State]:
        """The state of every rank now."""
        return {rank.number: self._state(rank) for rank in self._ranks}

    def wait(self, seconds: float) -> Tuple[Dict[int, State], bool]:
        """The states, and whether a rank had ended: then at once, else after so many seconds."""
        end = time.monotonic() + seconds
        states = self.states()
        while not ended(states):
            left = end - time.monotonic()
            if left <= 0:
                return states, False
            visible = self._visible(states)
            hidden = len(visible) < len(self._ranks)
            if wait_for_end(visible, min(left, _ENGINE_SECONDS) if hidden else left):
                states = self._settled()
            elif hidden:
                states = self.states()
        return states, True

    def _settled(self) -> Dict[int, State]:
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            states = self.states()
            if ended(states) or time.monotonic() >= end:
                return self._by_kernel(states)
            time.sleep(_ASK_SECONDS)

    def _by_kernel(self, states: Dict[int, State]) -> Dict[int, State]:
        """A process that is gone has ended, also where the Engine does not say so (yet)."""
        for state in states.values():
            if state["running"] is not False and state["pid"] and read_row(state["pid"]) is None:
                problem = state["problem"] or "the process is gone; the Engine has not said so"
                state.update(running=False, finished_at=utc(time.time()), problem=problem)
        return states

    def _state(self, rank: Rank) -> State:
        if not rank.container:
            return process_state(rank)
        try:
            with Engine(self._socket, self._deadline) as engine:
                inspect = engine.container(rank.container)
        except ProbeFailure as failure:
            if failure.reading.outcome == ABSENT and os.path.exists(self._socket):
                gone = {**unknown("the container is gone: " + str(failure)), "running": False}
                return {**gone, "status": "removed", "finished_at": utc(time.time())}
            return unknown(str(failure), self._pids.get(rank.number, 0))
        self.inspects[rank.number] = inspect
        state = container_state(inspect)
        self._pids[rank.number] = state["pid"]
        return state

    def _visible(self, states: Mapping[int, State]) -> List[int]:
        """First processes that this host's /proc shows."""
        return [state["pid"] for state in states.values() if state["pid"] and read_row(state["pid"])]


def ended(states: Mapping[int, State]) -> bool:
    """Whether any rank is over."""
    return any(state["running"] is False for state in states.values())


def wait_for_end(
    pids: Sequence[int], seconds: float, open_descriptor: Optional[Callable[[int], int]] = None
) -> bool:
    """Wait until one of the processes ends; False when none did in that time."""
    if open_descriptor is None:
        open_descriptor = getattr(os, "pidfd_open", None)
    with ExitStack() as stack:
        poll = select.poll()
        for pid in pids:
            try:
                descriptor = _no_descriptors() if open_descriptor is None else open_descriptor(pid)
            except ProcessLookupError:
                return True
            except OSError:
                return _look_for_end(pids, seconds)
            stack.callback(os.close, descriptor)
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def _no_descriptors() -> int:
    raise OSError("this Python knows no process descriptors")


def _look_for_end(pids: Sequence[int], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        rows = [read_row(pid) for pid in pids]
        if not all(is_alive(row, 0) for row in rows):
            return True
        left = end - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(_LOOK_SECONDS, left))
