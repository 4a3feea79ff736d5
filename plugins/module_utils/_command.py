# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one command with a deadline that holds (private to the collection).

The deadline holds for a command that ignores SIGTERM, whose child keeps the pipe open, or that sits in
uninterruptible sleep: the process group is killed, what was printed until then is kept, and a process
that cannot be killed is left behind and named instead of waited for. Every command carries a mark of this
run in its environment, by which what a killed run leaves behind is found (see _guardian.py).
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

# A login without a terminal often has no sbin in its PATH; the driver's own tools may lie below
# /usr/local/nvidia/bin on virtual machines.
EXTRA_PATH = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/local/nvidia/bin",
)

PR_SET_PDEATHSIG = 1  # https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html

# The mark in the environment of all commands of this process, unlike that of any other process.
MARK_NAME = "GPUFLEET_BASELINE_PROBES"
MARK = "%d-%s" % (os.getpid(), os.urandom(8).hex())

# Words with which tools say that they may not; the exit status alone does not tell it.
DENIED_WORDS = ("permission denied", "operation not permitted", "insufficient permissions", "access denied")

# How long to wait for a killed process to be reaped, and for a pipe to close after its command ended.
KILL_GRACE_SECONDS = 1.0
PIPE_GRACE_SECONDS = 0.5

# Called with the process group of every command that is started; a probe's child uses it to tell its
# parent what to kill when the probe itself runs out of time.
on_start: Optional[Callable[[int], None]] = None

# Called with the same number when the command is over, before the number can belong to somebody else.
on_end: Optional[Callable[[int], None]] = None


@dataclass(frozen=True)
class CommandResult:
    """What one command gave. ``outcome`` is ok, absent, error, timeout or denied; sizes are bytes."""

    argv: List[str]
    outcome: str
    returncode: Optional[int] = None
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    cut_bytes: int = 0
    message: str = ""

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 are kept as escapes."""
        return self.stdout.decode("utf-8", "backslashreplace")


@dataclass
class _Kept:
    """Head and tail of a stream within a limit, and the number of bytes dropped between them."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: Deque[bytes] = field(default_factory=deque)
    tail_bytes: int = 0
    cut: int = 0

    def add(self, block: bytes) -> None:
        room = self.limit // 2 - len(self.head)
        if room > 0:
            self.head += block[:room]
            block = block[room:]
        if not block:
            return
        self.tail.append(block)
        self.tail_bytes += len(block)
        while self.tail_bytes - len(self.tail[0]) >= self.limit - self.limit // 2:
            dropped = self.tail.popleft()
            self.tail_bytes -= len(dropped)
            self.cut += len(dropped)

    def value(self) -> bytes:
        middle = b"\n[... %d bytes cut here ...]\n" % self.cut if self.cut else b""
        return bytes(self.head) + middle + b"".join(self.tail)


def die_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """Ask the kernel for a signal when the process ``parent`` ends, so that nothing outlives a killed run."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), number)


def command_environment(extra: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """Environment of our own commands: English output, and a PATH that has the system's directories."""
    environment = dict(os.environ, LC_ALL="C", LANGUAGE="C")
    environment[MARK_NAME] = MARK
    path = [part for part in environment.get("PATH", "").split(":") if part]
    environment["PATH"] = ":".join(path + [part for part in EXTRA_PATH if part not in path])
    environment.update(extra or {})
    return environment


def run_command(
    argv: Sequence[str],
    deadline: float = 30.0,
    limit: int = 8 * 1024 * 1024,
    environment: Optional[Mapping[str, str]] = None,
) -> CommandResult:
    """Run ``argv`` for at most ``deadline`` seconds and keep at most about ``limit`` bytes of each stream."""
    started = time.monotonic()
    arguments = [str(part) for part in argv]
    parent = os.getpid()
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=command_environment(environment),
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # the callers are single-threaded
        )
    except FileNotFoundError:
        return CommandResult(arguments, "absent", message="command not found: %s" % arguments[0])
    except PermissionError as error:
        if not _is_there(arguments[0], environment):
            return CommandResult(arguments, "absent", message="command not found: %s" % arguments[0])
        return CommandResult(arguments, "denied", message="%s: %s" % (arguments[0], error.strerror))
    except OSError as error:
        return CommandResult(arguments, "error", message="%s: %s" % (arguments[0], error.strerror))
    if on_start is not None:
        on_start(process.pid)
    kept = {"stdout": _Kept(limit), "stderr": _Kept(limit)}
    timed_out = _read_until(process, kept, started + deadline)
    stuck = _end_group(process)
    seconds = time.monotonic() - started
    outcome, message = _judge(process, timed_out, stuck, deadline, kept["stderr"].value())
    return CommandResult(
        arguments,
        outcome,
        process.returncode,
        kept["stdout"].value(),
        kept["stderr"].value(),
        seconds,
        kept["stdout"].cut + kept["stderr"].cut,
        message,
    )


def _is_there(name: str, environment: Optional[Mapping[str, str]]) -> bool:
    """Whether a command exists: one that does not is refused too, by a directory that we may not enter."""
    if "/" in name:
        return True
    path = command_environment(environment)["PATH"].split(":")
    return any(os.path.exists(os.path.join(directory, name)) for directory in path)


def _read_until(process: subprocess.Popen[bytes], kept: Mapping[str, _Kept], end: float) -> bool:
    """Read both pipes until they close and the command is over, or the deadline; True on the deadline."""
    selector = selectors.DefaultSelector()
    for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream.fileno(), selectors.EVENT_READ, name)
    ended_at: Optional[float] = None
    try:
        while True:
            now = time.monotonic()
            if ended_at is None and _has_ended(process.pid):
                ended_at = now
            if ended_at is not None and (not selector.get_map() or now >= ended_at + PIPE_GRACE_SECONDS):
                return False
            if now >= end:
                return ended_at is None
            _read_ready(selector, kept, min(0.1, end - now))
    finally:
        selector.close()


def _read_ready(selector: selectors.BaseSelector, kept: Mapping[str, _Kept], wait: float) -> None:
    """Keep what is there to read; a pipe that was closed is not watched any more."""
    if not selector.get_map():
        time.sleep(min(0.01, wait))  # both pipes are closed and the command still runs: only its end is left
        return
    for key, _events in selector.select(wait):
        block = _read_block(key.fd)
        if block:
            kept[key.data].add(block)
        elif block is not None:
            selector.unregister(key.fd)


def _has_ended(pid: int) -> bool:
    """Whether a child of ours is over; it is not reaped: its number stays ours until the group is killed."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read_block(descriptor: int) -> Optional[bytes]:
    """One block, empty at the end of the stream, None when there is nothing to read yet."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def _end_group(process: subprocess.Popen[bytes]) -> bool:
    """Kill what is left of the command's own process group; True when it cannot be ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    if on_end is not None:
        on_end(process.pid)
    try:
        process.wait(KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _judge(
    process: subprocess.Popen[bytes], timed_out: bool, stuck: bool, deadline: float, stderr: bytes
) -> Tuple[str, str]:
    if timed_out:
        end = "process %d cannot be killed and was left behind" % process.pid if stuck else "killed"
        return "timeout", "no end within %g s, %s" % (deadline, end)
    if process.returncode == 0:
        return "ok", ""
    last = stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    reason = ": " + last[-1][:200] if last else ""
    if any(word in reason.lower() for word in DENIED_WORDS):
        return "denied", "exit status %s%s" % (process.returncode, reason)
    if process.returncode is not None and process.returncode < 0:
        return "error", "ended by signal %d%s" % (-process.returncode, reason)
    return "error", "exit status %s%s" % (process.returncode, reason)
