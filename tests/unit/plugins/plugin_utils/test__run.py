# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run directories: numbers taken once, nothing overwritten, an interrupted run seen as such."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import threading

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run
from hypothesis import given
from hypothesis import strategies as st


def test_the_first_run_is_001_and_says_collecting(tmp_path):
    run = _run.open_run(tmp_path / "repro", "1 1", {"kind": "freeze"})
    assert run.name == "run-001"
    assert run.document()["state"] == "collecting"
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700


def test_another_controller_gets_the_next_number_and_the_first_run_stays(tmp_path):
    first = _run.open_run(tmp_path, "1 1", {})
    before = (first.path / "run.json").read_bytes()
    second = _run.open_run(tmp_path, "2 2", {})
    assert second.name == "run-002"
    assert (first.path / "run.json").read_bytes() == before


def test_the_same_controller_gets_its_open_run_again_and_after_closing_a_new_one(tmp_path):
    first = _run.open_run(tmp_path, "1 1", {})
    assert _run.open_run(tmp_path, "1 1", {}) == first
    _run.write_json(first.path / "run.json", {**first.document(), "state": "complete"})
    assert _run.open_run(tmp_path, "1 1", {}).name == "run-002"


def test_only_what_a_run_was_opened_for_closes_it(tmp_path):
    run = _run.open_run(tmp_path, "1 1", {"kind": "minimal"})
    _run.finish(run, "gate", {"state": "complete", "gate": "pass"})
    assert run.document()["state"] == "collecting"
    assert run.document()["parts"] == {"gate": {"state": "complete", "gate": "pass"}}
    assert _run.open_run(tmp_path, "1 1", {"kind": "freeze"}) == run
    _run.finish(run, "minimal", {"state": "complete"})
    assert _run.open_run(tmp_path, "1 1", {"kind": "freeze"}) != run


def test_the_command_that_checks_a_run_can_be_pasted_also_from_a_place_with_a_blank(tmp_path):
    run = _run.open_run(tmp_path / "my repro; rm x", "1 1", {})
    _run.write_checksums(run, {})
    done = subprocess.run(["sh", "-c", _run.verify_command(run)], capture_output=True, text=True, check=True)
    assert "run.json: OK" in done.stdout


def test_runs_opened_at_once_get_different_numbers(tmp_path):
    opened = []
    threads = [
        threading.Thread(target=lambda n=number: opened.append(_run.open_run(tmp_path, f"{n} {n}", {}).name))
        for number in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(opened) == [f"run-{number:03d}" for number in range(1, 13)]
    assert len({(tmp_path / name / "run.json").exists() for name in opened}) == 1


def test_a_run_after_999_has_four_digits_and_counts_on(tmp_path):
    (tmp_path / "run-1000").mkdir()
    (tmp_path / "run-1000" / "run.json").write_text("{}")
    assert _run.open_run(tmp_path, "1 1", {}).name == "run-1001"


def test_a_damaged_run_is_left_as_it_is(tmp_path):
    (tmp_path / "run-001").mkdir()
    (tmp_path / "run-001" / "run.json").write_text("{ half")
    assert _run.open_run(tmp_path, "1 1", {}).name == "run-002"
    assert (tmp_path / "run-001" / "run.json").read_text() == "{ half"


def test_a_place_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BaselineError, match="choose another place for the reproduction"):
        _run.open_run(tmp_path / "file" / "repro", "1 1", {})


def test_the_key_is_made_once_and_closed_to_others(tmp_path):
    _run.make_key(tmp_path)
    key = _run.read_key(tmp_path)
    _run.make_key(tmp_path)
    assert _run.read_key(tmp_path) == key
    assert len(key) == 32
    assert stat.S_IMODE((tmp_path / ".redaction-key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [".redaction-key"]


@pytest.mark.parametrize("content", ["", "xyz", "ab" * 31, "\xff"])
def test_a_damaged_key_is_an_error_and_never_replaced(tmp_path, content):
    (tmp_path / ".redaction-key").write_bytes(content.encode("latin-1"))
    with pytest.raises(BaselineError, match="expected 64 hexadecimal digits"):
        _run.read_key(tmp_path)


def test_a_controller_is_its_number_and_its_start(tmp_path):
    assert _run.controller_identity(os.getpid()).startswith(f"{os.getpid()} ")
    assert _run.controller_identity(2**22 + 1) == str(2**22 + 1)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("tray-1.example.org", "tray-1.example.org"),
        ("a b", "a%20b"),
        ("../up", "%2E.%2Fup"),
        ("[::1]:22", "%5B%3A%3A1%5D%3A22"),
        (".x", "%2Ex"),
    ],
)
def test_host_names_become_file_names(host, name):
    assert _run.safe_name(host) == name


@given(
    st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True).filter(
        lambda pair: all(_encodable(x) for x in pair)
    )
)
def test_different_hosts_have_different_safe_names(pair):
    first, second = (_run.safe_name(host) for host in pair)
    assert first != second
    assert not first.startswith(".")
    assert not set("/\n") & set(first)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def test_checksums_are_those_of_coreutils_and_cover_everything_but_themselves(tmp_path):
    run = _run.open_run(tmp_path, "1 1", {})
    _run.write_bytes(run.path / "hosts" / "a%20b.tar.gz", b"record")
    _run.write_json(run.work("a b"), {"state": "frozen"})
    _run.write_checksums(run, {})
    checked = subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=run.path, capture_output=True, text=True, check=True
    )
    assert sorted(line.split(":")[0] for line in checked.stdout.splitlines()) == [
        "hosts/a%20b.tar.gz",
        "run.json",
    ]


def test_a_document_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    _run.write_json(path, {"a": 1})

    def full(*_unused: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        _run.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}


def test_a_full_disk_leaves_no_part_of_a_document(tmp_path, monkeypatch):
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        _run.write_json(tmp_path / "facts.json", {"a": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["{broken", "[]", '{"controller": "x", "state": "collecting"}', "7"])
def test_a_damaged_run_is_left_alone_and_costs_no_new_one(tmp_path, content):
    (tmp_path / "run-001").mkdir()
    (tmp_path / "run-001" / "run.json").write_text(content)
    assert _run.open_run(tmp_path, "1 2", {}).name == "run-002"
    assert (tmp_path / "run-001" / "run.json").read_text() == content


def test_a_name_that_is_no_text_costs_no_document(tmp_path):
    _run.write_json(tmp_path / "x.json", {"source": "/bad\udcff"})
    assert _run.read_json(tmp_path / "x.json") == {"source": "/bad\udcff"}


def test_a_read_only_reproduction_is_told_in_one_line(tmp_path, monkeypatch):
    def refuse(*_unused, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(_run.os, "open", refuse)
    monkeypatch.setattr(_run.Path, "unlink", refuse)
    with pytest.raises(BaselineError, match=r"expected to write .*, found: Read-only file system"):
        _run.make_key(tmp_path)
