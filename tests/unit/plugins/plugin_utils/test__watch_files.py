# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events, logs and the common deadline in the run."""

from __future__ import annotations

import gzip

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import (
    Events,
    RankLogFile,
    Tail,
    events_path,
    launch_ranks,
    log_path,
    shared_deadline,
)


def test_events_are_read_once_and_whole(tmp_path):
    path = events_path(tmp_path, "tray-a", 0)
    events, tail = Events(path), Tail(path)
    assert tail.read() == []
    events.append({"time": 1.0, "kind": "stage", "stage": "weights", "text": "line\nfeed \u2028 \udcff"})
    with open(path, "ab") as stream:
        stream.write(b'{"time": 2.0, "kind": "pro')
    assert [event["kind"] for event in tail.read()] == ["stage"]
    with open(path, "ab") as stream:
        stream.write(b'gress"}\nno event\n{"kind": "without a time"}\n[]\n')
    assert [event["time"] for event in tail.read()] == [2.0]
    assert tail.read() == []
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_first_watch_sets_the_deadline_for_all(tmp_path):
    assert shared_deadline(tmp_path, 100.0, now=1000.0) == (1100.0, True)
    assert shared_deadline(tmp_path, 5.0, now=1010.0) == (1100.0, False)
    assert [path.name for path in (tmp_path / "watch").iterdir()] == ["deadline"]


def test_a_damaged_deadline_is_named(tmp_path):
    shared_deadline(tmp_path, 100.0, now=1000.0)
    (tmp_path / "watch" / "deadline").write_text("soon")
    with pytest.raises(BaselineError, match="expected a time"):
        shared_deadline(tmp_path, 5.0, now=1010.0)


def test_a_log_grows_and_is_packed_in_the_end(tmp_path):
    path = log_path(tmp_path, "tray/b", 1)
    log = RankLogFile(path)
    log.append("one\n")
    log.append("")
    log.append("two \ufffd\n")
    packed = log.pack()
    assert packed.name == "tray%2Fb-1.log.gz"
    assert gzip.decompress(packed.read_bytes()).decode() == "one\ntwo \ufffd\n"
    assert not path.exists()
    again = RankLogFile(path)
    again.append("three\n")
    assert gzip.decompress(again.pack().read_bytes()).decode() == "one\ntwo \ufffd\nthree\n"


def test_a_rank_that_never_spoke_has_an_empty_log(tmp_path):
    assert gzip.decompress(RankLogFile(log_path(tmp_path, "a", 0)).pack().read_bytes()) == b""


def test_the_group_of_the_launch(tmp_path):
    assert launch_ranks(tmp_path) == []
    (tmp_path / "launch.json").write_text('{"ranks": [{"host": "a", "node_rank": 0}, {"no": "host"}]}')
    assert [rank["host"] for rank in launch_ranks(tmp_path)] == ["a"]
