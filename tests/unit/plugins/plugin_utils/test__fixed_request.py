# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixed request is a JSON object, or an error in one line before anything is frozen."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._fixed_request import (
    read_api_key,
    read_request,
)


def test_the_body_is_kept_as_it_is_written(tmp_path, monkeypatch):
    (tmp_path / "body.json").write_text('{"model" : "K3"}\n')
    monkeypatch.chdir(tmp_path)
    assert read_request("body.json") == '{"model" : "K3"}\n'
    assert read_request("") == ""


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "found: No such file or directory; give the right path in freeze_request_file"),
        (b"not json", "found: Expecting value: line 1 column 1"),
        (b"\xff\xfe{}", "found: 'utf-8' codec can't decode byte 0xff"),
        (b"[1]", "found list instead of an object"),
    ],
)
def test_anything_else_is_an_error_in_one_line(tmp_path, content, found):
    path = tmp_path / "body.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BaselineError) as raised:
        read_request(str(path))
    assert f"expected the fixed request's JSON body in {path}, {found}" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_api_key_is_the_first_line_of_its_file(tmp_path):
    (tmp_path / "key").write_text("  sk-1 \nsecond line\n")
    assert read_api_key(str(tmp_path / "key")) == "sk-1"
    assert read_api_key("") == ""


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"\xff\xfe"])
def test_a_file_without_a_key_is_one_clear_line(tmp_path, content):
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    with pytest.raises(BaselineError, match="expected an API key in") as raised:
        read_api_key(str(tmp_path / "key"))
    assert "\n" not in str(raised.value)
