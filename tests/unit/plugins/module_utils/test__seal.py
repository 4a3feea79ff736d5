# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sealed archive: readable by everybody's tools, the same for the same content, scanned again."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _seal, _staging
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CANARY = b"hf_planted_canary_value"


class CanaryScanner:
    def __init__(self) -> None:
        self.seen = b""

    def feed(self, block: bytes) -> None:
        self.seen += block

    def finish(self) -> list[str]:
        return ["canary"] * self.seen.count(CANARY)


@pytest.fixture
def staging(tmp_path):
    tmp_path.chmod(0o700)
    with _staging.Staging(str(tmp_path)) as opened:
        yield opened


def members(staging, files: dict[str, bytes]) -> list[_seal.Member]:
    made = []
    for path, content in files.items():
        spool = staging.spool()
        spool.write(content)
        made.append(_seal.Member(path, spool, "probe"))
    return made


def sealed(staging, files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    _seal.write_archive(members(staging, files), target, 1700000000)
    return target.getvalue()


FILES = {
    "logs/vllm.log.gz": gzip.compress(b"line\n" * 100_000),
    "z.txt": b"last",
    "facts.json": b"{}",
    "manifest.json": b"{}",
    "five-questions.txt": b"read me first",
    "a" * 180 + "/ü.txt": b"",
}


def test_tar_reads_the_archive_and_its_compressed_members(staging, tmp_path):
    (tmp_path / "record.tar.gz").write_bytes(sealed(staging, FILES))
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xzf", tmp_path / "record.tar.gz", "-C", tmp_path / "out"], check=True)
    for path, content in FILES.items():
        assert (tmp_path / "out" / path).read_bytes() == content


def test_pythons_tarfile_reads_the_archive(staging):
    with tarfile.open(fileobj=io.BytesIO(sealed(staging, FILES))) as archive:
        assert {info.name: archive.extractfile(info).read() for info in archive} == FILES


def test_order_and_metadata_depend_on_the_content_alone(staging):
    backwards = dict(reversed(list(FILES.items())))
    assert sealed(staging, FILES) == sealed(staging, backwards)
    with tarfile.open(fileobj=io.BytesIO(sealed(staging, FILES))) as archive:
        infos = archive.getmembers()
    assert [info.name for info in infos[:3]] == ["five-questions.txt", "manifest.json", "facts.json"]
    assert {(info.mode, info.uid, info.gid, info.uname, info.mtime) for info in infos} == {
        (0o600, 0, 0, "", 1700000000)
    }


def test_sha256_and_size_are_those_of_the_file(staging):
    target = io.BytesIO()
    sha256, size = _seal.write_archive(members(staging, FILES), target, 0)
    assert (sha256, size) == (hashlib.sha256(target.getvalue()).hexdigest(), len(target.getvalue()))


def test_the_manifest_describes_the_members_as_stored(staging):
    table = _seal.manifest_members(members(staging, FILES))
    content = FILES["logs/vllm.log.gz"]
    assert table["logs/vllm.log.gz"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert table["logs/vllm.log.gz"]["bytes"] == len(content)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("plain.txt", b"before " + CANARY + b" after"),
        ("logs/x.log.gz", gzip.compress(b"noise\n" * 10_000 + CANARY + b"\n" * 10)),
        ("logs/two.log.gz", gzip.compress(b"first\n") + gzip.compress(CANARY)),
        ("names/" + CANARY.decode(), b""),
    ],
    # gzip puts the time into its output, and workers must agree on the names of tests.
    ids=["plain", "packed", "packed in two parts", "in the name"],
)
def test_t23_the_second_scan_finds_a_planted_canary(staging, path, content):
    found = _seal.scan(io.BytesIO(sealed(staging, {**FILES, path: content})), CanaryScanner)
    assert found == {path: ["canary"]}


def test_t23_the_second_scan_is_quiet_about_a_clean_archive(staging):
    assert _seal.scan(io.BytesIO(sealed(staging, FILES)), CanaryScanner) == {}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.text("abcdefgh/_.é", min_size=1, max_size=40).filter(lambda p: p.strip("/.")),
        st.binary(max_size=2000),
    )
)
def test_any_member_comes_back(staging, files):
    files = {path.strip("/"): content for path, content in files.items() if "//" not in path}
    with tarfile.open(fileobj=io.BytesIO(sealed(staging, files))) as archive:
        assert {info.name: archive.extractfile(info).read() for info in archive} == files


def test_a_name_that_is_no_text_costs_no_document():
    content = _seal.json_bytes({"source": "/root/bad\udcff"})
    assert json.loads(content.decode())["source"] == "/root/bad\udcff"


def test_a_document_is_written_readably():
    assert json.loads(_seal.json_bytes({"b": 1, "a": "ü"})) == {"a": "ü", "b": 1}
    assert _seal.json_bytes({"b": 1, "a": 2}).startswith(b'{\n "a"')
