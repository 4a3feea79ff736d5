# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leave no process behind when our own is killed (private to the collection).

A probe's child and its command end with their parent (PR_SET_PDEATHSIG), but the kernel does this for one
generation only: what a command itself started would live on. The guardian is a small process that waits for
its parent's end and then kills every process that carries the run's mark in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from typing import Iterator, List, NoReturn

from ansible_collections.gpufleet.baseline.plugins.module_utils import _command

# A process may start another one between our look and the kill; a few rounds find that one as well.
ROUNDS = 5
ROUND_SECONDS = 0.1


@contextmanager
def guarded() -> Iterator[None]:
    """While the block runs, a killed caller takes with it everything that its commands started."""
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:  # no room for one more process: the run itself matters more
        yield
        return
    if pid == 0:
        _guard(parent)
    try:
        yield
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _guard(parent: int) -> NoReturn:
    try:
        os.setsid()
        silence()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        _command.die_with_parent(parent, signal.SIGUSR1)
        while os.getppid() == parent:
            signal.sigtimedwait({signal.SIGUSR1}, 5.0)
        for _round in range(ROUNDS):
            for pid in marked_processes(_command.MARK):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(ROUND_SECONDS)
    finally:
        os._exit(0)


def marked_processes(mark: str) -> List[int]:
    """The processes that carry ``mark`` in their environment."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and carries(int(name), mark)]


def carries(pid: int, mark: str) -> bool:
    """Whether the process was started with ``mark`` in its environment; False when that cannot be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as stream:
            return ("%s=%s" % (_command.MARK_NAME, mark)).encode() in stream.read().split(b"\0")
    except OSError:
        return False


def silence() -> None:
    """Let go of the three standard streams.

    A process that cannot be killed would else hold the module's output open, and the controller would wait
    for its end for ever.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
