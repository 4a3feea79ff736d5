# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a freeze asks beside the tables of probes."""

from __future__ import annotations

import os
from typing import Dict, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _before_after
from ansible_collections.gpufleet.baseline.plugins.module_utils import _freeze_collect as collecting
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe, run_probes


def before(outcome: str) -> Dict[str, Probe]:
    names = ["before.%s" % kind for kind in _before_after.KINDS]
    return {name: Probe(name, "ok", {}) for name in names[2:]} | {
        name: Probe(name, outcome, message="no answer within 30 s") for name in names[:2]
    }


def test_an_engine_that_was_silent_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: List[str] = []
    monkeypatch.setattr(collecting, "docker_listing", lambda _socket, kind: asked.append(kind) or {})
    after = collecting.ask_after({}, before("timeout"))
    assert after["after.containers"].outcome == "skipped"
    assert "the first look was timeout, no answer within 30 s" in after["after.containers"].message
    assert after["after.processes"].outcome == "ok"


def test_an_engine_that_answered_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "docker_listing", lambda _socket, kind: {kind: "there"})
    after = collecting.ask_after({}, before("ok"))
    assert after["after.images"].value == {"images": "there"}


def test_the_deadline_of_the_engine_is_that_of_its_lists() -> None:
    deadlines = {spec.name: spec.deadline for spec in collecting.first_round({"docker_deadline": 3})}
    deadlines.update(
        {spec.name: spec.deadline for spec in _before_after.probes(lambda _kind: {}, "before", 3.0)}
    )
    engine = ("docker.", "before.containers", "before.images")
    assert {value for name, value in deadlines.items() if name.startswith(engine)} == {3.0}


def test_named_files_are_found_by_pattern_and_kept_under_their_path(tmp_path) -> None:
    (tmp_path / "a.yaml").write_text("model: m\n")
    options = {"extra_files": [str(tmp_path / "*.yaml"), str(tmp_path / "none"), "relative"]}
    specs = [spec for spec in collecting.first_round(options) if spec.name.startswith("extra.")]
    answers = run_probes(specs)
    assert [probe.outcome for probe in answers.values()] == ["ok", "absent", "error"]
    found = collecting.second_round(Discovery(), answers, options)
    assert [spec.member for spec in found if spec.name.startswith("extra.")] == ["extra%s/a.yaml" % tmp_path]


def test_only_plain_files_are_opened(tmp_path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "directory").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    named = ["fifo", "loop", "directory", "gone"]
    options = {"extra_files": [str(tmp_path / name) for name in named] + ["/dev/zero", "/proc/kmsg"]}
    answers = run_probes([s for s in collecting.first_round(options) if s.name.startswith("extra.")])
    specs = collecting.second_round(Discovery(), answers, options)
    found = run_probes([spec for spec in specs if spec.name.startswith("extra.")])
    outcomes = [probe.outcome for probe in found.values()]
    assert outcomes == ["skipped", "error", "error", "absent", "skipped", "skipped"]
    assert all(probe.seconds < collecting.EXTRA_FILE_DEADLINE for probe in found.values())
    assert "is a directory; name its files" in found["extra.file.2"].message


def test_named_files_beyond_the_limit_are_said_to_be_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(collecting, "EXTRA_FILES_AT_MOST", 2)
    for number in range(3):
        (tmp_path / str(number)).write_text("x")
    answers = {"extra.match.0": Probe("extra.match.0", "ok", [str(tmp_path / str(n)) for n in range(3)])}
    found = run_probes(
        [s for s in collecting.second_round(Discovery(), answers, {}) if s.name.startswith("extra.")]
    )
    assert [probe.outcome for probe in found.values()] == ["ok", "ok", "skipped"]
    assert "name 3 files, the first 2 were kept" in found["extra.more"].message
