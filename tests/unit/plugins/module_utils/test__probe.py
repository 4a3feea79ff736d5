# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, List, Tuple

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _command, _guardian, _probe_child
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    Emit,
    Probe,
    ProbeFailure,
    ProbeSpec,
    Reading,
    command_probe,
    file_probe,
    run_probes,
)


@pytest.fixture(autouse=True)
def _a_hang_is_a_failure() -> Iterator[None]:
    """A deadline that does not hold ends the test instead of the whole run of tests."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("the deadline did not hold")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(90)
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


def hang(emit: Emit) -> Reading:
    while True:
        time.sleep(60)


def giving(value: Any) -> Callable[[Emit], Reading]:
    return lambda emit: Reading(value)


def ask(run: Callable[[Emit], Reading], deadline: float = 30.0) -> Probe:
    return run_probes([ProbeSpec("one", run, deadline)])["one"]


def test_answers_come_in_the_order_of_the_questions_with_their_duration() -> None:
    answers = run_probes([ProbeSpec(name, giving(name)) for name in "cab"], parallel=2)
    assert [(name, probe.value, probe.outcome) for name, probe in answers.items()] == [
        ("c", "c", "ok"),
        ("a", "a", "ok"),
        ("b", "b", "ok"),
    ]
    assert all(probe.seconds > 0 for probe in answers.values())


def test_t1_a_probe_that_never_answers_is_a_timeout_and_has_its_key() -> None:
    answers = run_probes([ProbeSpec("hung", hang, 0.3), ProbeSpec("well", giving(8))])
    assert (answers["hung"].outcome, answers["hung"].value) == ("timeout", None)
    assert "0.3 s" in answers["hung"].message
    assert (answers["well"].outcome, answers["well"].value) == ("ok", 8)


@pytest.mark.parametrize(
    ("number", "outcome"),
    [(errno.ENOENT, "absent"), (errno.EACCES, "denied"), (errno.EPERM, "denied"), (errno.EIO, "error")],
)
def test_t1_an_error_of_the_system_has_its_outcome(number: int, outcome: str) -> None:
    def run(emit: Emit) -> Reading:
        raise OSError(number, os.strerror(number))

    assert ask(run).outcome == outcome


def test_t1_a_named_failure_keeps_its_outcome_and_words() -> None:
    def run(emit: Emit) -> Reading:
        raise ProbeFailure("denied", "root is needed", "/proc/1/fd")

    probe = ask(run)
    assert (probe.outcome, probe.message, probe.source) == ("denied", "root is needed", "/proc/1/fd")


def test_t1_a_fault_of_our_own_costs_one_probe_and_is_named() -> None:
    answers = run_probes([ProbeSpec("bad", lambda emit: Reading(1 // 0)), ProbeSpec("good", giving(1))])
    assert answers["bad"].outcome == "error"
    assert "ZeroDivisionError" in answers["bad"].message
    assert answers["good"].outcome == "ok"


def test_an_answer_that_cannot_be_sent_is_an_error_that_keeps_the_evidence() -> None:
    probe = ask(lambda emit: Reading(lambda: 0, raw=b"evidence"))
    assert (probe.outcome, probe.raw) == ("error", b"evidence")


def test_a_child_that_dies_is_an_error_with_its_signal() -> None:
    def run(emit: Emit) -> Reading:
        emit(Reading([0, 1]))
        os.kill(os.getpid(), signal.SIGKILL)
        return Reading()

    probe = ask(run)
    assert (probe.outcome, probe.value, probe.partial) == ("error", [0, 1], True)
    assert "signal 9" in probe.message


def test_t2_deadline_holds_for_a_function_that_ignores_every_signal() -> None:
    def run(emit: Emit) -> Reading:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        return hang(emit)

    assert ask(run, 0.3).outcome == "timeout"


def test_t2_a_hung_command_is_killed_with_its_children_when_the_probe_runs_out_of_time(
    tmp_path: Path,
) -> None:
    def run(emit: Emit) -> Reading:
        _command.run_command(["sh", "-c", "sleep 300 & echo $! >%s/pid; wait" % tmp_path], deadline=300)
        return Reading()

    assert ask(run, 1.0).outcome == "timeout"
    wait_for_end_of(int((tmp_path / "pid").read_text()))


def test_t2_children_that_cannot_be_killed_cost_one_grace_together(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: List[float] = []
    left: List[int] = []
    monkeypatch.setattr(_probe_child, "_reap", left.append)
    monkeypatch.setattr(_command, "KILL_GRACE_SECONDS", 0.05)
    real_sleep = time.sleep
    monkeypatch.setattr(_probe_child.time, "sleep", lambda wait: (waits.append(wait), real_sleep(wait)))
    answers = run_probes([ProbeSpec("nfs.%d" % number, hang, 0.2) for number in range(6)], parallel=6)
    for name, probe in answers.items():
        assert probe.outcome == "timeout", name
        assert "cannot be killed and was left behind" in probe.message
    assert sum(waits) < 6 * 0.05
    for pid in set(left):
        os.waitpid(pid, 0)


def test_t2_a_child_left_behind_does_not_hold_the_module_s_output(capfd: pytest.CaptureFixture[str]) -> None:
    names = [os.readlink("/proc/self/fd/%d" % number) for number in (1, 2)]
    assert os.devnull not in names
    probe = ask(lambda emit: Reading([os.readlink("/proc/self/fd/%d" % number) for number in (0, 1, 2)]))
    assert probe.value == [os.devnull] * 3


def test_t3_what_was_found_before_the_deadline_is_kept_and_marked() -> None:
    def run(emit: Emit) -> Reading:
        for gpu in range(5):
            emit(Reading(message="name of GPU %d" % gpu))
            emit(Reading(list(range(gpu + 1)), raw=b"0-%d" % gpu))
        emit(Reading(message="name of GPU 5"))
        return hang(emit)

    probe = ask(run, 1.0)
    assert (probe.outcome, probe.value, probe.raw) == ("timeout", [0, 1, 2, 3, 4], b"0-4")
    assert probe.partial
    assert probe.message.endswith("last asked: name of GPU 5")


def test_t3_the_output_of_a_hung_command_is_kept_and_not_parsed() -> None:
    spec = command_probe(
        "smi", ["sh", "-c", "echo GPU 0; exec sleep 300"], deadline=0.5, parse=str.splitlines
    )
    probe = run_probes([spec])["smi"]
    assert (probe.outcome, probe.value, probe.raw, probe.partial) == ("timeout", None, b"GPU 0\n", True)


def test_t4_after_one_hung_call_the_group_is_not_asked_again_and_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("580.159.04\n")
    specs = [
        ProbeSpec("smi.list", giving("first"), group="nvidia-smi"),
        ProbeSpec("smi.query", hang, 0.3, "nvidia-smi"),
        ProbeSpec("smi.xml", giving("never"), group="nvidia-smi"),
        ProbeSpec("smi.topology", giving("never"), group="nvidia-smi"),
        file_probe("proc.version", str(tmp_path / "version")),
    ]
    answers = run_probes(specs)
    assert [answers[spec.name].outcome for spec in specs] == ["ok", "timeout", "skipped", "skipped", "ok"]
    assert "smi.query did not answer within its deadline" in answers["smi.xml"].message


def test_t4_a_group_is_asked_one_by_one_in_its_order(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def noting(name: str) -> Callable[[Emit], Reading]:
        def run(emit: Emit) -> Reading:
            with log.open("a") as stream:
                stream.write("<%s" % name)
                stream.flush()
                stream.write(">")
            return Reading()

        return run

    specs: List[ProbeSpec] = []
    for number in range(8):
        specs.append(ProbeSpec("smi.%d" % number, noting(str(number)), group="nvidia-smi"))
        specs.append(ProbeSpec("other.%d" % number, giving(0)))
    run_probes(specs, parallel=3)
    assert log.read_text() == "".join("<%d>" % number for number in range(8))


def test_t6_slow_is_not_dead(tmp_path: Path) -> None:
    tool = tmp_path / "slow-tool"
    tool.write_text("#!/bin/sh\nsleep 1\necho late but well\n")
    tool.chmod(0o755)
    probe = run_probes([command_probe("slow", [str(tool)], deadline=60)])["slow"]
    assert (probe.outcome, probe.value) == ("ok", "late but well\n")
    assert probe.seconds >= 1


def test_no_process_is_left_when_the_run_is_killed(tmp_path: Path) -> None:
    """SIGKILL to the module: its probes, their commands and what those started all end."""
    command = "setsid sleep 300 & echo $! >>pids; sleep 300 & echo $! >>pids; wait"
    script = (
        "from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import *\n"
        "run_probes([command_probe(str(n), ['sh', '-c', '%s'], deadline=300) for n in range(2)])\n"
    ) % command
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    pids = tmp_path / "pids"
    while not pids.exists() or len(pids.read_text().split()) < 4:
        assert parent.poll() is None
    started = [int(pid) for pid in pids.read_text().split()]
    assert all(lives(pid) for pid in started)
    parent.kill()
    parent.wait()
    wait_for_end_of(*started)


def test_no_process_is_left_after_a_run() -> None:
    before = set(children())
    run_probes([ProbeSpec("well", giving(1)), ProbeSpec("hung", hang, 0.2)])
    assert set(children()) <= before


def children() -> List[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # A process may have any bytes as its name.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def test_a_group_whose_number_went_to_a_stranger_is_not_signalled() -> None:
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        assert not _probe_child._is_ours(stranger.pid, parent=1)
        assert _probe_child._is_ours(stranger.pid, parent=os.getpid())
    finally:
        stranger.kill()
        stranger.wait()


def test_our_own_command_is_known_by_its_mark() -> None:
    result = _command.run_command(["sh", "-c", "tr '\\0' '\\n' </proc/$$/environ"])
    assert "%s=%s" % (_command.MARK_NAME, _command.MARK) in result.text.split("\n")
    assert not _guardian.carries(os.getpid(), _command.MARK)


def test_a_caller_that_ignores_sigchld_loses_no_answer() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        probe = ask(lambda emit: Reading(_command.run_command(["echo", "here"]).text))
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (probe.outcome, probe.value) == ("ok", "here\n")


def test_no_room_for_a_process_is_the_error_of_that_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(main: object) -> object:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(_probe_child, "start", start)
    probe = ask(giving(1))
    assert probe.outcome == "error"
    assert "no process could be started" in probe.message


def test_an_answer_over_the_limit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe_child, "FRAME_LIMIT", 1000)
    probe = ask(lambda emit: Reading(raw=b"x" * 2000))
    assert probe.outcome == "error"
    assert "over the limit" in probe.message


def test_a_large_answer_comes_whole() -> None:
    content = os.urandom(1024 * 1024) * 9
    assert ask(lambda emit: Reading(raw=content)).raw == content


def test_a_file_is_kept_up_to_its_limit_and_the_cut_is_told(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    probe = run_probes([file_probe("log", str(path), limit=4)])["log"]
    assert (probe.value, probe.raw, probe.cut_bytes, probe.partial) == ("0123", b"0123", 6, True)


def test_the_source_of_a_long_command_is_shortened() -> None:
    probe = run_probes([command_probe("echo", ["echo", "x" * 200])])["echo"]
    assert probe.value == "x" * 200 + "\n"
    assert len(probe.source) == 60
    assert probe.source.startswith("echo xxx")
    assert probe.source.endswith("...")


def test_t1_a_file_that_is_not_there_is_absent(tmp_path: Path) -> None:
    probe = run_probes([file_probe("log", str(tmp_path / "none"))])["log"]
    assert (probe.outcome, probe.value) == ("absent", None)


def frames(*values: Tuple[bytes, Any]) -> Callable[[_probe_child.Send], None]:
    def main(send: _probe_child.Send) -> None:
        for kind, value in values:
            send(kind, value)

    return main


def test_a_command_that_has_ended_is_no_longer_among_the_groups_to_kill() -> None:
    child = _probe_child.start(frames((b"s", 12345678), (b"s", 23456789), (b"e", 12345678)))
    while not child.closed:
        _probe_child.receive(child)
    assert child.groups == {23456789}
    _probe_child.end([child])
    assert child.status == 0
