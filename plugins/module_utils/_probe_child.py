# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The child process of a probe: start it, hear from it, end it whatever it does (private to the collection).

A child speaks in frames through one pipe: one byte for the kind, four for the size, a pickled value. Kinds
are the caller's own, but for ``s`` and ``e``: a command with this process group was started, has ended.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Callable, List, NoReturn, Optional, Sequence, Set, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils import _command, _guardian

STARTED, ENDED = b"s", b"e"
FRAME = struct.Struct("!cI")
FRAME_LIMIT = 256 * 1024 * 1024
BLOCK_BYTES, BLOCKS_AT_ONCE = 1024 * 1024, 64

Send = Callable[[bytes, Any], None]


class BrokenAnswer(Exception):
    """What the child sent is not an answer."""


@dataclass
class Child:
    """A child that was started. ``status`` is its wait status, None while it lives or cannot be ended."""

    pid: int
    descriptor: int
    buffer: bytearray = field(default_factory=bytearray)
    groups: Set[int] = field(default_factory=set)
    closed: bool = False
    status: Optional[int] = None


def start(main: Callable[[Send], None]) -> Child:
    """Run ``main`` in a new process; it is given the function to send with."""
    reader, writer = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if pid == 0:
        os.close(reader)
        _run(main, writer, parent)
    os.close(writer)
    os.set_blocking(reader, False)
    return Child(pid, reader)


def _run(main: Callable[[Send], None], writer: int, parent: int) -> NoReturn:
    """The child's life; it ends without any of the parent's own clean-up."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        _command.die_with_parent(parent)
        _guardian.silence()

        def send(kind: bytes, value: Any) -> None:
            payload = pickle.dumps(value, protocol=4)
            data = memoryview(FRAME.pack(kind, len(payload)) + payload)
            while data:
                data = data[os.write(writer, data) :]

        _command.on_start = lambda group: send(STARTED, group)
        _command.on_end = lambda group: send(ENDED, group)
        main(send)
        status = 0
    finally:
        os._exit(status)


def receive(child: Child) -> List[Tuple[bytes, Any]]:
    """What the child has said since the last call, without waiting; sets ``closed`` when it has ended."""
    said: List[Tuple[bytes, Any]] = []
    for _block in range(BLOCKS_AT_ONCE):  # a child that never stops speaking must not outlive its deadline
        if child.closed:
            break
        try:
            block = os.read(child.descriptor, BLOCK_BYTES)
        except BlockingIOError:
            break
        child.closed = not block
        child.buffer += block
        said += _take_frames(child)
    return said


def _take_frames(child: Child) -> List[Tuple[bytes, Any]]:
    said: List[Tuple[bytes, Any]] = []
    while len(child.buffer) >= FRAME.size:
        kind, size = FRAME.unpack_from(child.buffer)
        if size > FRAME_LIMIT:
            raise BrokenAnswer("an answer of %d bytes is over the limit of %d" % (size, FRAME_LIMIT))
        if len(child.buffer) < FRAME.size + size:
            break
        payload = bytes(memoryview(child.buffer)[FRAME.size : FRAME.size + size])
        del child.buffer[: FRAME.size + size]
        value = pickle.loads(payload)  # noqa: S301 - sent by our own child, through a pipe of ours
        if kind == STARTED:
            child.groups.add(value)
        elif kind == ENDED:
            child.groups.discard(value)
        else:
            said.append((kind, value))
    return said


def end(children: Sequence[Child]) -> None:
    """Kill the children with everything that they started, and wait a moment for all of them together."""
    for child in children:
        _kill_groups(child)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(BrokenAnswer):
            receive(child)  # a command that it started in the meantime
        _kill_groups(child)
        os.close(child.descriptor)
    left = list(children)
    limit = time.monotonic() + _command.KILL_GRACE_SECONDS
    while left:
        for child in left:
            child.status = _reap(child.pid)
        left = [child for child in left if child.status is None]
        if left and time.monotonic() >= limit:
            return
        if left:
            time.sleep(0.005)


def _reap(pid: int) -> Optional[int]:
    try:
        done, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has waited for it: it is over, its status is lost
        return 0
    return status if done == pid else None


def _kill_groups(child: Child) -> None:
    for group in child.groups:
        if _is_ours(group, child.pid):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


def _is_ours(group: int, parent: int) -> bool:
    """Whether a group's number still stands for the command that was started as its leader.

    The kernel gives a number to nobody else as long as the group has a member; so a group without its
    leader is ours, and a leader that is neither our child's child nor carries our mark is a stranger.
    """
    try:
        with open("/proc/%d/stat" % group, "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
    except OSError:
        return True
    return int(fields[1]) == parent or _guardian.carries(group, _command.MARK)
