# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _command, _journal
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe, ProbeFailure, run_probes


def ask(monkeypatch: pytest.MonkeyPatch, text: str, refused: str, outcome: str = "ok") -> Probe:
    result = _command.CommandResult(["journalctl"], outcome, stdout=text.encode(), message="why")
    monkeypatch.setattr(_command, "run_command", lambda *arguments: result)
    monkeypatch.setattr(_journal, "why_not_whole", lambda: refused)
    return run_probes([_journal.journal_probe("journal", [], "j.txt", 5.0, str.split)])["journal"]


def test_a_journal_that_is_read_whole_is_ok_also_when_it_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ask(monkeypatch, "", "").outcome, ask(monkeypatch, "a b", "").value) == ("ok", ["a", "b"])


def test_t1_a_journal_of_which_the_login_sees_a_part_is_denied_and_keeps_the_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = ask(monkeypatch, "a b", "root only")
    assert (probe.outcome, probe.value, probe.message) == ("denied", ["a", "b"], "root only")


def test_a_journalctl_that_fails_keeps_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = ask(monkeypatch, "a", "root only", "error")
    assert (probe.outcome, probe.value, probe.message) == ("error", None, "why")


def test_t1_a_host_without_a_journal_has_none_which_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailure) as failure:
        _journal.why_not_whole([str(tmp_path / "run"), str(tmp_path / "var")])
    assert failure.value.reading.outcome == "absent"


def test_a_journal_that_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "id").mkdir()
    (tmp_path / "id" / "system.journal").touch()
    assert _journal.why_not_whole([str(tmp_path)]) == ""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "root and the groups adm and systemd-journal" in _journal.why_not_whole([str(tmp_path)])


def test_a_directory_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert _journal.why_not_whole([str(tmp_path)]) == "%s may not be read by this login" % tmp_path
