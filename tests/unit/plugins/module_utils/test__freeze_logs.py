# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs of a freeze: all of them without secrets, each with its first failure."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _freeze_logs
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_collect import Collected
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_logs import MIB, Logs, limit_for
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_members import Members
from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import LogOrigin
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._staging import Staging

SECRET = "Zq8LxW4tNv7RkPc2Ym5Hs9Bd"
TIME = "2026-08-09T14:02:11.%09dZ"


class Host:
    """Containers with logs, and the freeze of these."""

    def __init__(self, tmp_path: Path) -> None:
        directory = tmp_path / "staging"
        directory.mkdir(mode=0o700)
        self.tmp_path = tmp_path
        self.staging = Staging(str(directory))
        self.redactor = Redactor(bytes(range(32)))
        self.members = Members(self.staging, self.redactor)
        self.collected = Collected({}, Discovery())

    def container(self, name: str, *lines: str) -> Path:
        identifier = name.ljust(64, "0")
        log = self.tmp_path / (name + "-json.log")
        records = [
            json.dumps({"log": line + "\n", "stream": "stderr", "time": TIME % number})
            for number, line in enumerate(lines)
        ]
        log.write_text("".join(record + "\n" for record in records))
        short = identifier[:12]
        self.collected.found.containers.append(SimpleNamespace(identifier=identifier, short=short, name=name))  # type: ignore[arg-type]
        self.collected.found.inspects[identifier] = {
            "Id": identifier,
            "LogPath": str(log),
            "HostConfig": {"LogConfig": {"Type": "json-file", "Config": {}}},
            "State": {"Status": "exited", "ExitCode": 1, "StartedAt": TIME % 0},
        }
        member = "containers/%s/inspect.json" % name
        probe = "container.%s.inspect" % short
        self.collected.answers[probe] = Probe(probe, "ok", member=member)
        return log

    def keep(self, limit_mib: int = 64) -> Logs:
        logs = Logs(
            self.collected, {"log_limit_mib": limit_mib}, self.staging, self.redactor, free=1024 * MIB
        )
        logs.keep(self.members)
        return logs

    def text(self, name: str) -> str:
        path = "containers/%s/log.txt.gz" % name
        kept = next(member for member in self.members.all() if member.path == path)
        return gzip.decompress(kept.content.open().read()).decode()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


FAILURE = (
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3/vllm/loader.py", line 12, in load',
    "    with safe_open(path) as f:",
    "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
)


def test_each_log_is_kept_with_its_first_failure_at_its_line_in_the_record(host: Host) -> None:
    host.container("a", "INFO begins", *FAILURE)
    host.container("b", "INFO Application startup complete.")
    verdicts = host.keep().verdicts["engines"]
    failed, good = verdicts["container:" + "a".ljust(64, "0")], verdicts["container:" + "b".ljust(64, "0")]
    assert (failed["name"], failed["member"]) == ("a", "containers/a/log.txt.gz")
    assert failed["verdict"]["stage"] == "weights"
    lines = host.text("a").split("\n")
    assert "SafetensorError" in lines[failed["verdict"]["exception_line"] - 1]
    assert good["verdict"]["stage"] != "weights"


def test_t21_a_secret_that_a_later_log_teaches_is_gone_from_the_earlier_one_too(host: Host) -> None:
    host.container("a", "the word is %s" % SECRET)
    host.container("b", "HF_TOKEN=%s" % SECRET)
    host.keep()
    host.members.refresh()
    assert SECRET not in host.text("a") + host.text("b")
    assert "the word is <redacted HF_TOKEN " in host.text("a")


def test_t11_a_log_that_is_gone_costs_that_log_and_says_why(host: Host) -> None:
    gone = host.container("a", "x")
    host.container("b", "still here")

    class Gone(Logs):
        def _keep_one(self, log: Any, kernel: bytes) -> Any:
            gone.unlink(missing_ok=True)
            return super()._keep_one(log, kernel)

    logs = Gone(host.collected, {"log_limit_mib": 64}, host.staging, host.redactor, 1024 * MIB)
    logs.keep(host.members)
    entry = logs.verdicts["engines"]["container:" + "a".ljust(64, "0")]
    assert entry["verdict"] is None
    assert entry["why"].startswith("its log was not read: absent")
    assert "still here" in host.text("b")


def test_the_kernel_log_is_read_beside_an_engines_own(host: Host) -> None:
    host.collected.answers["kernel.dmesg"] = Probe("kernel.dmesg", "ok", raw=b"token=%s\n" % SECRET.encode())
    host.redactor.learn(SECRET.encode(), "HF_TOKEN")
    logs = Logs(host.collected, {"log_limit_mib": 1}, host.staging, host.redactor, MIB)
    assert b"<redacted HF_TOKEN " in logs._kernel_log()
    assert SECRET.encode() not in logs._kernel_log()


def test_t9_a_log_over_its_limit_keeps_head_tail_and_the_failure(host: Host) -> None:
    noise = ['INFO: "GET /metrics HTTP/1.1" 200 OK %s' % ("x" * 400)] * 6000
    host.container("a", "first", *noise, *FAILURE, *noise, "last")
    logs = host.keep(limit_mib=1)
    entry = logs.verdicts["engines"]["container:" + "a".ljust(64, "0")]
    lines = host.text("a").split("\n")
    assert lines[0].endswith(" first")
    assert lines[-2].endswith(" last")
    assert "SafetensorError" in lines[entry["verdict"]["exception_line"] - 1]
    answer = next(iter(logs.answers.values()))
    assert answer.cut_bytes == sum(cut["bytes"] for cut in entry["log"]["cuts"]) > 2 * MIB


@pytest.mark.parametrize(
    ("wanted", "logs", "free", "limit"),
    [(10, 1, 100, 10), (10, 4, 100, 10), (10, 10, 100, 5), (10, 0, 100, 10)],
)
def test_t12_the_limit_of_a_log_leaves_room_for_all(wanted: int, logs: int, free: int, limit: int) -> None:
    found, lowered = limit_for(wanted * MIB, logs, free * MIB)
    assert found == limit * MIB
    assert bool(lowered) == (limit < wanted)


def test_t9_the_deadline_grows_with_all_of_a_log_whatever_is_kept_of_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open(log, "wb") as stream:
        stream.truncate(1024 * MIB)
    small = _freeze_logs.seconds_for(LogOrigin.of_file(str(tmp_path / "absent")))
    large = _freeze_logs.seconds_for(LogOrigin.of_file(str(log)))
    assert small == _freeze_logs.LEAST_SECONDS
    assert large - small == 1024 * MIB / _freeze_logs.BYTES_A_SECOND
    # One that only the Engine has may be of any size.
    assert _freeze_logs.seconds_for(LogOrigin("x", (), "/s", "id")) > large


def process(outputs: Dict[str, str]) -> List[str]:
    found = Discovery(processes=[SimpleNamespace(leader=True, line=SimpleNamespace(pid=7))])  # type: ignore[list-item]
    answer = Probe("process.7.facts", "ok", {"open": {"outputs": outputs}})
    logs = _freeze_logs.engine_logs(Collected({"process.7.facts": answer}, found))
    return [file for log in logs for file in log.origin.files]


@pytest.mark.parametrize(
    ("outputs", "files"),
    [
        ({"1": "/var/log/out", "2": "/var/log/err"}, ["/var/log/err"]),
        ({"1": "/var/log/out", "2": "pipe:[1]"}, ["/var/log/out"]),
        ({"1": "/dev/pts/1", "2": "/dev/pts/1"}, []),
        ({"1": "socket:[1]", "2": "socket:[1]"}, []),
        ({}, []),
    ],
)
def test_a_plain_process_has_a_log_where_its_output_is_a_file(
    outputs: Dict[str, str], files: List[str]
) -> None:
    assert process(outputs) == files


def test_a_plain_process_that_could_not_be_read_has_no_log() -> None:
    found = Discovery(processes=[SimpleNamespace(leader=True, line=SimpleNamespace(pid=7))])  # type: ignore[list-item]
    assert _freeze_logs.engine_logs(Collected({}, found)) == []
