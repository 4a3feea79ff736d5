# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a log is read: from the json-file driver's files, else through the Engine."""

from __future__ import annotations

import io
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _log_origin
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    MULTIPLEXED,
    PLAIN,
    TERMINAL,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import LogOrigin


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = tmp_path / "abc-json.log"
    log.write_text("now\n")
    return log


def inspect(path: Path, driver: str = "json-file", terminal: bool = False, **options: str) -> Dict[str, Any]:
    config = {"Type": driver, "Config": options}
    return {
        "Id": "abc",
        "LogPath": str(path),
        "HostConfig": {"LogConfig": config},
        "Config": {"Tty": terminal},
    }


def test_t10_rotated_files_come_first_and_the_oldest_before_all(path: Path) -> None:
    for suffix in (".1", ".2.gz", ".10.gz", ".tmp", ".1.bak"):
        path.with_name(path.name + suffix).write_text("older\n")
    origin = LogOrigin.of_container(inspect(path), "/run/docker.sock")
    names = [Path(name).name for name in origin.files]
    assert names == ["abc-json.log.10.gz", "abc-json.log.2.gz", "abc-json.log.1", "abc-json.log"]
    assert origin.form == JSON_FILE
    assert origin.bytes_on_disk() == 3 * len("older\n") + len("now\n")


@pytest.mark.parametrize(("options", "rotates"), [({"max-size": "10m"}, True), ({}, False)])
def test_t10_whether_the_head_can_have_been_rotated_away(
    path: Path, options: Dict[str, str], rotates: bool
) -> None:
    assert LogOrigin.of_container(inspect(path, **options), "").rotates is rotates


@pytest.mark.parametrize(("terminal", "form"), [(False, MULTIPLEXED), (True, TERMINAL)])
def test_other_drivers_and_closed_files_are_read_through_the_engine(
    path: Path, terminal: bool, form: str
) -> None:
    for shown in (inspect(path, "journald", terminal), inspect(path.with_name("absent"), terminal=terminal)):
        origin = LogOrigin.of_container(shown, "/run/docker.sock")
        assert (origin.form, origin.files, origin.rotates) == (form, (), None)
        assert origin.describe() == "the Engine's log of abc"


def test_an_inspect_without_anything_is_no_fault() -> None:
    assert LogOrigin.of_container({}, "").form == MULTIPLEXED


def test_a_file_that_is_gone_when_its_size_is_asked_counts_nothing(path: Path) -> None:
    origin = LogOrigin.of_file(str(path))
    path.unlink()
    assert (origin.form, origin.bytes_on_disk()) == (PLAIN, 0)


def test_the_engines_stream_is_read_in_blocks_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"x" * (_log_origin.BLOCK + 1)

    class Engine:
        def __init__(self, socket: str, timeout: float) -> None:
            assert (socket, timeout) == ("/run/docker.sock", _log_origin.SILENCE_SECONDS)

        def __enter__(self) -> object:
            return self

        def __exit__(self, *_unused: object) -> None:
            pass

        @contextmanager
        def log_stream(self, container: str) -> Iterator[io.BytesIO]:
            assert container == "abc"
            yield io.BytesIO(content)

    monkeypatch.setattr(_log_origin, "Engine", Engine)
    blocks = list(LogOrigin(MULTIPLEXED, (), "/run/docker.sock", "abc")._from_engine())
    assert [len(block) for block in blocks] == [_log_origin.BLOCK, 1]
