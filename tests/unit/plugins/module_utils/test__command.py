# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _command
from ansible_collections.gpufleet.baseline.plugins.module_utils._command import run_command
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def _a_hang_is_a_failure() -> Iterator[None]:
    """A deadline that does not hold ends the test instead of the whole run of tests."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("the deadline did not hold")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path("/proc/%d/status" % pid).read_text()
    except OSError:
        return False


def wait_for_end_of(*pids: int) -> None:
    """A killed process takes a moment to go; one that was not killed ends the test by its alarm."""
    while any(lives(pid) for pid in pids):
        time.sleep(0.02)


def test_a_command_gives_its_output_and_its_duration() -> None:
    result = run_command(["sh", "-c", "printf out; printf err >&2"])
    assert (result.outcome, result.returncode, result.stdout, result.stderr) == ("ok", 0, b"out", b"err")
    assert result.seconds > 0


def test_t1_a_command_that_is_not_there_is_absent() -> None:
    result = run_command(["no-such-command-here", "-q"])
    assert result.outcome == "absent"
    assert "no-such-command-here" in result.message


def test_t1_a_file_that_may_not_be_run_is_denied(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o644)
    assert run_command([str(tool)]).outcome == "denied"


def test_t1_a_directory_of_path_that_may_not_be_entered_does_not_make_a_missing_command_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def popen(*arguments: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", popen)
    assert run_command(["no-such-command-here"]).outcome == "absent"
    assert run_command(["sh"]).outcome == "denied"


@pytest.mark.parametrize(
    "words",
    [
        "dmesg: read kernel buffer failed: Operation not permitted",
        "Got permission denied while trying to connect to the socket",
        "No journal files were opened due to insufficient permissions.",
    ],
)
def test_t1_a_refusal_in_words_is_denied_and_not_an_error(words: str) -> None:
    result = run_command(["sh", "-c", 'echo "$0" >&2; exit 1', words])
    assert result.outcome == "denied"
    assert words[:40] in result.message


def test_t1_an_exit_status_is_an_error_with_the_last_line_of_the_reason() -> None:
    result = run_command(["sh", "-c", "echo first >&2; echo last >&2; exit 9"])
    assert (result.outcome, result.returncode, result.message) == ("error", 9, "exit status 9: last")


def test_t1_a_signal_is_an_error() -> None:
    result = run_command(["sh", "-c", "kill -SEGV $$"])
    assert (result.outcome, result.message) == ("error", "ended by signal 11")


def test_t2_deadline_holds_for_a_command_that_ignores_sigterm() -> None:
    result = run_command(
        ["sh", "-c", "trap '' TERM INT HUP; echo $$; while :; do sleep 1; done"], deadline=0.5
    )
    assert result.outcome == "timeout"
    wait_for_end_of(int(result.text))


def test_t2_deadline_holds_for_a_child_that_holds_the_pipe() -> None:
    result = run_command(["sh", "-c", "sleep 300 & echo $!; exec sleep 300"], deadline=0.5)
    assert result.outcome == "timeout"
    wait_for_end_of(int(result.text))


def test_t2_a_command_is_over_when_it_has_ended_though_its_child_holds_the_pipe() -> None:
    result = run_command(["sh", "-c", "sleep 300 & echo $!"], deadline=30)
    assert result.outcome == "ok"
    wait_for_end_of(int(result.text))


def test_t2_deadline_holds_when_both_pipes_are_closed() -> None:
    assert run_command(["sh", "-c", "exec >&- 2>&-; exec sleep 300"], deadline=0.5).outcome == "timeout"


def test_t2_a_command_that_cannot_be_killed_is_left_behind_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: List[int] = []
    monkeypatch.setattr(_command.os, "killpg", lambda group, number: groups.append(group))
    monkeypatch.setattr(_command, "KILL_GRACE_SECONDS", 0.1)
    result = run_command(["sleep", "300"], deadline=0.2)
    assert result.outcome == "timeout"
    assert "process %d cannot be killed and was left behind" % groups[0] in result.message
    os.kill(groups[0], signal.SIGKILL)
    os.waitpid(groups[0], 0)


def test_t3_output_before_the_deadline_is_kept() -> None:
    result = run_command(["sh", "-c", "echo GPU 0; echo GPU 1; exec sleep 300"], deadline=0.5)
    assert (result.outcome, result.text) == ("timeout", "GPU 0\nGPU 1\n")


def test_the_number_of_a_finished_command_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    reaped: List[int] = []
    signalled_late: List[int] = []
    real_waitpid, real_killpg = os.waitpid, os.killpg

    def waitpid(pid: int, options: int) -> tuple[int, int]:
        done, status = real_waitpid(pid, options)
        reaped.append(done)
        return done, status

    def killpg(group: int, number: int) -> None:
        if group in reaped:
            signalled_late.append(group)
        real_killpg(group, number)

    monkeypatch.setattr(os, "waitpid", waitpid)
    monkeypatch.setattr(os, "killpg", killpg)
    for script in ("exit 0", "sleep 300 & exit 0"):
        run_command(["sh", "-c", script])
    assert len([pid for pid in reaped if pid]) == 2
    assert signalled_late == []


def test_killed_parent_takes_its_command_along(tmp_path: Path) -> None:
    script = (
        "from ansible_collections.gpufleet.baseline.plugins.module_utils._command import run_command\n"
        "run_command(['sh', '-c', 'echo $$ >%s/pid.new; mv %s/pid.new %s/pid; exec sleep 300'], 300)\n"
    ) % ((tmp_path,) * 3)
    parent = subprocess.Popen([sys.executable, "-c", script])
    while not (tmp_path / "pid").exists():
        assert parent.poll() is None
    parent.kill()
    parent.wait()
    pid = int((tmp_path / "pid").read_text())
    wait_for_end_of(pid)


def test_the_output_is_kept_within_its_limit_with_head_and_tail() -> None:
    script = "import sys\nfor i in range(20000): sys.stdout.write('%07d\\n' % i)"
    result = run_command([sys.executable, "-c", script], limit=4096)
    assert result.outcome == "ok"
    assert result.text.startswith("0000000\n0000001\n")
    assert result.text.endswith("0019999\n")
    assert "bytes cut here" in result.text
    assert result.cut_bytes > 0


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=30), st.integers(2, 64))
def test_kept_and_cut_bytes_add_up(blocks: List[bytes], limit: int) -> None:
    kept = _command._Kept(limit)
    for block in blocks:
        kept.add(block)
    whole = b"".join(blocks)
    value = kept.value()
    if kept.cut == 0:
        assert value == whole
    else:
        head, _marker, tail = value.partition(b"\n[... %d bytes cut here ...]\n" % kept.cut)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) + kept.cut == len(whole)


def test_the_system_directories_are_looked_in_and_output_is_english() -> None:
    environment = _command.command_environment({"PATH": "/only"})
    assert environment["PATH"] == "/only"
    environment = _command.command_environment()
    assert "/usr/sbin" in environment["PATH"].split(":")
    assert environment["LC_ALL"] == "C"
