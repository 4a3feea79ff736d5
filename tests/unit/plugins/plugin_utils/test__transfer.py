# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records come back streaming and verified, or not at all."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _transfer

CONTENT = b"sealed record"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
LARGE = _transfer.PIPED_LIMIT_BYTES + 1


class Connection:
    """Stands for a connection plugin: gives one prepared answer for each call."""

    def __init__(self, *answers: bytes | Exception, transport: str = "local", method: str = "smart") -> None:
        self.answers = list(answers)
        self.transport = transport
        self.options = {"ssh_transfer_method": method}
        self.methods: list[str] = []

    def get_option(self, name: str) -> str:
        return self.options[name]

    def set_option(self, name: str, value: str) -> None:
        self.options[name] = value

    def fetch_file(self, _remote: str, local: str) -> None:
        self.methods.append(self.options["ssh_transfer_method"])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        Path(local).write_bytes(answer)


def fetch(connection: Connection, local: Path, size: int = len(CONTENT)) -> None:
    _transfer.fetch_record(connection, "/staging/record.tar.gz", local, size, SHA256)


def test_a_record_arrives_closed_to_others_with_its_checksum(tmp_path):
    fetch(Connection(CONTENT), tmp_path / "h.tar.gz")
    assert (tmp_path / "h.tar.gz").read_bytes() == CONTENT
    assert stat.S_IMODE((tmp_path / "h.tar.gz").stat().st_mode) == 0o600
    assert (tmp_path / "h.tar.gz.sha256").read_text() == f"{SHA256}  h.tar.gz\n"
    assert not (tmp_path / "h.tar.gz.part").exists()


@pytest.mark.parametrize(
    "first", [AnsibleConnectionFailure("cut"), AnsibleError("sftp failed"), b"half", b"sealed recorX"]
)
def test_a_bad_transfer_is_tried_again(tmp_path, first):
    connection = Connection(first, CONTENT)
    fetch(connection, tmp_path / "h.tar.gz")
    assert (tmp_path / "h.tar.gz").read_bytes() == CONTENT
    assert len(connection.methods) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (AnsibleConnectionFailure("connection reset"), "connection reset"),
        (b"half", "4 bytes arrived"),
        (b"sealed recorX", "sha256 .* instead of"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_record_that_stays_wrong_is_never_kept(tmp_path, answer, message):
    with pytest.raises(BaselineError, match=message):
        fetch(Connection(answer, answer), tmp_path / "h.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_t14_the_method_that_holds_the_file_in_memory_is_refused_above_64_mib(tmp_path):
    with pytest.raises(BaselineError, match="holds it in memory; use sftp or scp"):
        fetch(Connection(transport="ssh", method="piped"), tmp_path / "h.tar.gz", LARGE)


def test_t14_smart_never_falls_back_to_it_for_a_large_record(tmp_path):
    failures = [AnsibleError("no")] * 4
    connection = Connection(*failures, transport="ssh")
    with pytest.raises(BaselineError):
        fetch(connection, tmp_path / "h.tar.gz", LARGE)
    assert connection.methods == ["sftp", "scp", "sftp", "scp"]
    assert connection.options["ssh_transfer_method"] == "smart"


def test_a_small_record_goes_the_configured_way(tmp_path):
    connection = Connection(CONTENT, transport="ssh", method="piped")
    fetch(connection, tmp_path / "h.tar.gz")
    assert connection.methods == ["piped"]


def test_a_silent_host_ends_the_connection_unless_the_user_says_otherwise():
    connection = Connection(transport="ssh")
    connection.options.update(
        ssh_extra_args="-o ServerAliveInterval=5", sftp_extra_args="", scp_extra_args=""
    )
    for _again in range(2):
        _transfer.notice_a_cut_connection(connection)
    alive = "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
    # ssh takes the first value it is given.
    assert connection.options["ssh_extra_args"] == f"-o ServerAliveInterval=5 {alive}"
    assert connection.options["sftp_extra_args"] == connection.options["scp_extra_args"] == alive


def test_other_connections_are_left_alone():
    connection = Connection(transport="local")
    before = dict(connection.options)
    _transfer.notice_a_cut_connection(connection)
    assert connection.options == before


def test_what_a_connection_said_is_one_line_without_chatter():
    text = "Failed to connect:\nWarning: Permanently added '172.30.5.11' to the list of known hosts.\r\ntimed  out\n"
    assert _transfer.one_line(text) == "Failed to connect: timed out"
    said = "Failed to connect to the host via ssh: Host key verification failed."
    assert _transfer.one_line(said) == "Host key verification failed."
