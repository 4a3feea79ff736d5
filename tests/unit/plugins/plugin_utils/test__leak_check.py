# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""T21 between hosts: a secret of one host is found in another's record by its keyed digest alone."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _leak_check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KEY = b"k" * 32
SECRET = "Zq8LxW4tNv7RkPc2Ym5Hs9Bd"


def record(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def digests(*values: str) -> list[dict[str, Any]]:
    redactor = Redactor(KEY)
    redactor.learn_environment([f"API_KEY_{number}={value}" for number, value in enumerate(values)])
    return redactor.digests()


def leaks(tmp_path: Path, files: dict[str, bytes], *values: str, host: str = "n2") -> list[_leak_check.Leak]:
    return _leak_check.find_leaks(record(tmp_path / "r.tar.gz", files), {"n1": digests(*values)}, KEY, host)


FORMS = {
    "raw": SECRET,
    "quoted": f"'api_key': ['{SECRET}']",
    "in a URL": f"https://user:{SECRET}@host/path",
    "with neighbours": f"x_{SECRET}-y",
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "URL": quote(SECRET),
}


@pytest.mark.parametrize("form", FORMS)
def test_t21_a_secret_of_another_host_is_found_in_every_form(tmp_path, form):
    found = leaks(tmp_path, {"logs/a.txt": f"noise {FORMS[form]} noise\n".encode()}, SECRET)
    assert [(leak.member, leak.value_of_host, leak.name) for leak in found] == [
        ("logs/a.txt", "n1", "API_KEY_0")
    ]
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    "files",
    [
        {"log.txt.gz": gzip.compress(b"noise\n" * 400_000 + SECRET.encode() + b"\n")},
        {f"names/{SECRET}": b""},
        {"two.txt": b"x" * 10_000_000 + b" " + SECRET.encode()},
    ],
)
def test_t21_in_compressed_members_names_and_long_lines(tmp_path, files):
    assert [leak.member for leak in leaks(tmp_path, files, SECRET)] == list(files)


def test_t21_in_every_member_it_stands_in(tmp_path):
    assert [
        leak.member for leak in leaks(tmp_path, {"a": SECRET.encode(), "b": SECRET.encode()}, SECRET)
    ] == ["a", "b"]


@pytest.mark.parametrize("value", ["wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "p@ss,w0rd;Zq8LxW4tNv7"])
def test_t21_a_secret_with_other_characters_is_found_by_its_longest_run(tmp_path, value):
    for text in (value, quote(value, safe=""), base64.b64encode(value.encode()).decode()):
        assert leaks(tmp_path, {"a": f"secret {text} end".encode()}, value), text


def test_ones_own_secrets_are_the_redactors_business(tmp_path):
    assert leaks(tmp_path, {"a": SECRET.encode()}, SECRET, host="n1") == []


def test_a_clean_record_has_no_leak(tmp_path):
    assert leaks(tmp_path, {"a": b"the quick brown fox <redacted API_KEY 3f2a9c>\n" * 1000}, SECRET) == []


def test_another_key_finds_nothing(tmp_path):
    path = record(tmp_path / "r.tar.gz", {"a": SECRET.encode()})
    assert _leak_check.find_leaks(path, {"n1": digests(SECRET)}, b"x" * 32, "n2") == []


def test_what_cannot_be_tested_is_counted(tmp_path):
    values = digests("a!b@c#d$e%f^1G", SECRET)
    assert _leak_check.untestable({"n1": values}, "n2") >= 1
    assert _leak_check.untestable({"n1": values}, "n1") == 0


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 64))
def test_t21_wherever_it_stands_and_however_the_blocks_fall(tmp_path, before, after, size):
    text = before + b" " + SECRET.encode() + b" " + after
    blocks = [text[start : start + size] for start in range(0, len(text), size)]
    assert SECRET.encode() in set(_leak_check._runs("member", blocks))
