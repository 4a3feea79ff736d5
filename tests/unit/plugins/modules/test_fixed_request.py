# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.baseline.plugins.modules import fixed_request
from ansible_collections.gpufleet.baseline.tests.unit.plugins.module_utils._request.server import (
    chat,
    serving,
    whole,
)

CANARY = "sk-canary-5d1b0e0fbb1c4a7b9d"


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> tuple[dict[str, Any], str]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        fixed_request.main()
    output = capsys.readouterr().out
    return json.loads(output), output


def test_the_default_body_names_the_served_model(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(whole(chat())) as played:
        result, _output = run(capsys, url=played.url, label="first")
    assert result["changed"] is False
    assert (result["request"]["outcome"], result["request"]["label"]) == ("answered", "first")
    assert json.loads(played.seen[0][2])["model"] == "served/model"


def test_a_stored_body_is_sent_byte_for_byte(capsys: pytest.CaptureFixture[str]) -> None:
    body = '{ "model" : "m",\n "messages": [], "max_tokens": 7 }'
    with serving(whole(chat())) as played:
        run(capsys, url=played.url, body=body, route="/v1/other")
    assert [(path, sent) for path, _headers, sent in played.seen] == [("/v1/other", body.encode())]


def test_an_api_key_is_sent_and_appears_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = {"error": {"message": f"key {CANARY} is not known"}}
    with serving(whole(refusal, 401, count=0)) as played:
        result, output = run(capsys, url=played.url, api_key=CANARY, model="m")
    assert played.seen[0][1]["authorization"] == f"Bearer {CANARY}"
    assert result["request"]["outcome"] == "refused"
    assert CANARY not in output


def test_check_mode_sends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(whole(chat())) as played:
        result, _output = run(capsys, url=played.url, _ansible_check_mode=True)
    assert (result["request"]["outcome"], played.seen) == ("planned", [])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"times": 0}, "times: expected 1 to 1000, found 0"),
        ({"parallel": 1001}, "parallel: expected 1 to 1000"),
        ({"timeout": 0}, "timeout: expected more than 0 seconds"),
        ({"body": "{"}, "expected the fixed request's body as a JSON object"),
        ({"url": "nowhere", "model": "m"}, "expected a server as http://HOST:PORT"),
        ({"redaction_key": "xyz", "url": "http://127.0.0.1:9", "model": "m"}, "redaction_key: expected 64"),
    ],
)
def test_what_cannot_be_sent_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], arguments: dict[str, Any], word: str
) -> None:
    result, _output = run(capsys, **arguments)
    assert result["failed"]
    assert word in result["msg"]
    assert "\n" not in result["msg"]
