# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines leave the host without the secrets of the rank, also those learned in an earlier look."""

from __future__ import annotations

import os

from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_text import Vocabulary, read_log

KEY = b"k" * 32
TOKEN = "hf_" + "Q7xv" * 9
PASSWORD = "Zk8q2Vx9Lm4tRw7"


def look(rank, path, cursor, secrets=None, final=False):
    rank = Rank(rank.number, pid=rank.pid, log=str(path), state_directory=rank.state_directory)
    return read_log(rank, None, "", cursor, final, KEY, secrets or {}).value


def own_rank(state_directory=""):
    # A process that is gone has no environment to learn from.
    return Rank(0, pid=2**22 + 5, log="x", state_directory=str(state_directory))


def test_secrets_of_the_start_and_of_the_task(tmp_path):
    log = tmp_path / "log"
    log.write_text("token %s\nkey %s\n" % (TOKEN, PASSWORD))
    value = look(own_rank(), log, {}, {"API_KEY": PASSWORD})
    assert TOKEN not in value["text"]
    assert PASSWORD not in value["text"]
    assert value["text"].count("\n") == 2


def test_what_a_line_gave_away_is_removed_from_later_ones(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    log = tmp_path / "log"
    log.write_text("connecting with password=%s\n" % PASSWORD)
    first = look(own_rank(state), log, {})
    assert PASSWORD not in first["text"]
    with open(log, "a") as stream:
        stream.write("peer said %s\n" % PASSWORD)
    second = look(own_rank(state), log, first["cursor"])
    assert "peer said" in second["text"]
    assert PASSWORD not in second["text"]
    kept = state / "watch-0.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in str(second["cursor"])


def test_the_environment_of_a_container_is_learned(tmp_path):
    path = tmp_path / "x-json.log"
    path.write_text('{"log":"using %s\\n","stream":"stdout","time":"2026-12-01T01:00:00Z"}\n' % PASSWORD)
    inspect = {
        "Id": "c",
        "LogPath": str(path),
        "HostConfig": {"LogConfig": {"Type": "json-file"}},
        "Config": {"Env": ["SERVICE_PASSWORD=" + PASSWORD], "Cmd": None, "Entrypoint": None},
    }
    value = read_log(Rank(0, "c"), inspect, "", {}, False, KEY, {}).value
    assert value["text"].startswith("2026-12-01T01:00:00Z stdout using <redacted")
    assert PASSWORD not in value["text"]


def test_the_unfinished_line_is_redacted_as_well(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\nstill writing " + TOKEN)
    value = look(own_rank(), log, {})
    assert value["unfinished"].startswith("still writing <redacted")


def test_a_vocabulary_that_cannot_be_kept_costs_nothing(tmp_path):
    rank = Rank(0, "c", state_directory=str(tmp_path / "gone"))
    Vocabulary(rank).save({b"value": "NAME"})
    assert Vocabulary(rank).load() == {}
    damaged = Rank(0, "c", state_directory=str(tmp_path))
    (tmp_path / "watch-0.json").write_text('[["%%%", 1]]')
    assert Vocabulary(damaged).load() == {}
    assert Vocabulary(Rank(0, "c")).load() == {}


def test_a_link_in_the_place_of_the_vocabulary_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("as it was")
    os.symlink(target, tmp_path / "watch-0.json.part")
    Vocabulary(Rank(0, "c", state_directory=str(tmp_path))).save({b"value": "NAME"})
    assert target.read_text() == "as it was"
