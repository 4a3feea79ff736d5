# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fixed request is a JSON object, or an error in one line before anything is frozen."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._fixed_request import read_request


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
