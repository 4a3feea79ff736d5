# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members of a record: redacted, or left out and named; never raw."""

from __future__ import annotations

import errno
import gzip
import json

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_members import Members
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._staging import Staging

SECRET = "q7Zp4Lw9Xk2Vn8Rt"  # has no form of its own, so that only a name gives it away


@pytest.fixture
def redactor():
    return Redactor(b"k" * 32)


@pytest.fixture
def members(tmp_path, redactor):
    tmp_path.chmod(0o700)
    with Staging(str(tmp_path)) as staging:
        yield Members(staging, redactor)


def content(members: Members, path: str) -> bytes:
    return next(member.content.open().read() for member in members.all() if member.path == path)


def test_the_raw_evidence_of_a_probe_is_redacted(members):
    members.add_probes({"x": Probe("x", "ok", raw=f"HF_TOKEN={SECRET}\n".encode(), member="host/x.txt")})
    assert b"HF_TOKEN=<redacted HF_TOKEN" in content(members, "host/x.txt")


def test_t21_a_value_learned_late_is_removed_from_what_was_written_before(members, redactor):
    members.add_files({"early.txt": f"the word is {SECRET}\n".encode()}, "test")
    members.add_probes({"log": Probe("log", "ok", raw=b"x", member="x")})
    redactor.learn_environment([f"API_KEY={SECRET}"])
    members.refresh()
    assert SECRET.encode() not in content(members, "early.txt")
    assert b"the word is <redacted API_KEY" in content(members, "early.txt")


def test_t21_also_out_of_a_compressed_member(members, redactor, tmp_path):
    spool = members._staging.spool()
    spool.write(gzip.compress(b"line\n" * 1000 + SECRET.encode() + b"\nlast\n"))
    members.add_redacted("logs/x.gz", spool, "log", {})
    redactor.learn_environment([f"API_KEY={SECRET}"])
    members.refresh()
    text = gzip.decompress(content(members, "logs/x.gz"))
    assert SECRET.encode() not in text
    assert text.startswith(b"line\n" * 1000)
    assert text.endswith(b"\nlast\n")


def test_t26_what_cannot_be_redacted_is_left_out_and_named(members, redactor, monkeypatch):
    def broken(_content: bytes) -> bytes:
        raise RecursionError(SECRET)

    monkeypatch.setattr(redactor, "redact_bytes", broken)
    members.add_files({"bad.txt": SECRET.encode()}, "test")
    assert members.all() == []
    assert members.left_out == {"unnamed": "it could not be redacted (RecursionError)"}
    monkeypatch.setattr(redactor, "redact_name", lambda path: path)
    members.add_files({"bad.txt": SECRET.encode()}, "test")
    assert members.left_out["bad.txt"] == "it could not be redacted (RecursionError)"


def test_a_full_disk_costs_the_member_and_is_named(members, monkeypatch):
    def full(_block: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = members._staging.spool()
    monkeypatch.setattr(spool, "write", full)
    monkeypatch.setattr(members._staging, "spool", lambda: spool)
    members.add_files({"large.txt": b"x"}, "test")
    assert members.left_out == {"large.txt": "it could not be written: No space left on device"}


def test_t22_names_of_members_hold_no_secret_and_stay_inside(members, redactor):
    redactor.learn_environment([f"API_KEY={SECRET}"])
    members.add_files({f"../../etc/{SECRET}/x\n.txt": b"1", "/abs/./y.txt": b"2"}, "test")
    paths = sorted(member.path for member in members.all())
    assert all(
        SECRET not in path and ".." not in path and not path.startswith("/") and "\n" not in path
        for path in paths
    )
    assert "abs/y.txt" in paths


def test_two_members_of_one_name_are_both_kept(members):
    members.add_files({"a.txt": b"1"}, "test")
    members.add_files({"a.txt": b"2"}, "test")
    assert sorted(member.path for member in members.all()) == ["a.txt", "a.txt.2"]


def test_t27_coverage_and_checksums_survive_redaction(members, redactor):
    redactor.learn_environment(["API_KEY=coverage-coverage"])
    members.add_files({"a.txt": b"1"}, "test")
    members.replace_manifest(
        {"coverage": {"probes": 44, "ok": 41}, "probes": {"x": {"message": f"TOKEN={SECRET}"}}}
    )
    manifest = json.loads(content(members, "manifest.json"))
    assert manifest["coverage"] == {"probes": 44, "ok": 41}
    assert len(manifest["members"]["a.txt"]["sha256"]) == 64
    assert SECRET not in json.dumps(manifest)


def test_the_manifest_is_replaced_and_says_what_was_left_out(members):
    members.add_files({"a.txt": b"1", "b.txt": b"2"}, "test")
    members.replace_manifest({"coverage": {}})
    members.leave_out(["a.txt", "not-there"])
    members.replace_manifest({"coverage": {}})
    manifest = json.loads(content(members, "manifest.json"))
    assert list(manifest["members"]) == ["b.txt"]
    assert manifest["left_out"] == {"a.txt": "a secret was found in it after sealing"}
    assert [member.path for member in members.all()].count("manifest.json") == 1


def test_a_path_that_is_no_text_or_moves_the_cursor_is_made_one_that_is(members):
    members.add_probes({"x": Probe("x", "ok", raw=b"kept", member="extra/bad\udcff\n\x1b[31m\u202e.txt")})
    assert content(members, "extra/bad___[31m_.txt") == b"kept"
    members.replace_manifest({"coverage": {}, "probes": {"x": {"source": "/bad\udcff"}}})
    assert json.loads(content(members, "manifest.json"))["probes"]["x"]["source"] == "/bad\udcff"
