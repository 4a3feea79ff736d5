# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._request import _body, _http, _send
from ansible_collections.gpufleet.baseline.tests.unit.plugins.module_utils._request.server import (
    chat,
    free_port,
    serving,
    whole,
)

BODY = _body.default_body("served/model")


def _run(url: str, **more: Any) -> dict[str, Any]:
    return _send.run(_send.Plan(url, BODY, **{"timeout": 20.0, **more}))


def test_answered_requests_are_kept_with_what_the_engine_counted() -> None:
    with serving(whole(chat())) as played:
        document = _run(played.url, times=3, request_id="run-001", headers={"Authorization": "Bearer k"})
    assert (document["outcome"], document["sent"], document["answered"], document["finished"]) == (
        "answered",
        3,
        3,
        3,
    )
    assert document["disturbed"] == ""
    assert document["health"] == {"before": 200, "after": 200}
    assert document["body_sha256"] == _body.digest(BODY)
    assert [body for _path, _headers, body in played.seen] == [BODY.encode()] * 3
    assert [headers["x-request-id"] for _path, headers, _body_ in played.seen] == [
        "run-001-1",
        "run-001-2",
        "run-001-3",
    ]
    assert {headers["authorization"] for _path, headers, _body_ in played.seen} == {"Bearer k"}
    assert "Bearer" not in json.dumps(document)
    assert json.loads(document["attempts"][0]["body"]) == chat()


def test_requests_of_one_round_are_sent_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20)

    def reply(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        both.wait()
        whole(chat())(handler, body)

    with serving(reply) as played:
        document = _run(played.url, times=2, parallel=2)
    assert (document["answered"], document["disturbed"]) == (4, "")


def test_somebody_else_s_requests_make_it_disturbed() -> None:
    with serving(whole(chat(), count=2)) as played:
        assert "somebody else" in _run(played.url)["disturbed"]


def test_an_engine_that_counts_nothing_did_not_answer_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_send, "COUNT_SECONDS", 0.1)
    with serving(whole(chat(), count=0)) as played:
        assert "something else" in _run(played.url)["disturbed"]


def test_without_metrics_nothing_is_said_about_others() -> None:
    with serving(whole(chat())) as played:
        played.counted = False
        document = _run(played.url)
    assert (document["outcome"], document["disturbed"], document["finished"]) == ("answered", "", None)
    assert "HTTP 404" in document["metrics"]["message"]


def test_a_refusal_is_kept_with_the_server_s_words_and_a_redirect_is_one() -> None:
    with serving(whole({"error": {"message": "no such model"}}, 404, count=0)) as played:
        document = _run(played.url)
        assert (document["outcome"], document["message"]) == ("refused", "HTTP 404: no such model")
        played.reply = whole(b"", 307, count=0)
        assert _run(played.url)["message"] == "HTTP 307"


def test_a_server_that_does_not_answer_costs_the_time_limit_and_is_told() -> None:
    go_on = threading.Event()

    def reply(_handler: BaseHTTPRequestHandler, _content: bytes) -> None:
        go_on.wait(30)

    with serving(reply) as played:
        document = _run(played.url, timeout=0.5)
        go_on.set()
    assert (document["outcome"], document["answered"]) == ("timeout", 0)
    assert document["message"] == "no whole answer within 0.5 s"
    assert document["health"]["after"] == 200


def test_a_connection_that_ends_within_the_answer_is_lost() -> None:
    def reply(handler: BaseHTTPRequestHandler, _content: bytes) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    with serving(reply) as played:
        document = _run(played.url)
    attempt = document["attempts"][0]
    assert (document["outcome"], attempt["status"], attempt["body"]) == ("connection lost", 200, "{")


def test_a_connection_that_ends_within_a_chunk_is_lost() -> None:
    def reply(handler: BaseHTTPRequestHandler, _content: bytes) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc")
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    with serving(reply) as played:
        assert _run(played.url)["outcome"] == "connection lost"


def test_nobody_there_is_not_connected() -> None:
    document = _run(f"http://127.0.0.1:{free_port()}")
    assert (document["outcome"], document["health"]) == ("not connected", {"before": None, "after": None})


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://a",
        "http://",
        "http://a:99999",
        "http://u:p@a",
        "http://a?b",
        "http://[::1",
    ],
)
def test_what_is_no_server_is_an_error(url: str) -> None:
    with pytest.raises(BaselineError, match="expected a server as http://HOST:PORT"):
        _run(url)


@pytest.mark.parametrize(
    ("body", "word"), [("{", "Expecting"), ("[]", "list"), ('{"stream": true}', "stream")]
)
def test_a_body_that_cannot_be_the_fixed_request_is_an_error(body: str, word: str) -> None:
    with pytest.raises(BaselineError, match=word):
        _send.run(_send.Plan("http://127.0.0.1:1", body))


def test_the_served_model_is_asked_for() -> None:
    with serving(whole(chat())) as played:
        assert _send.served_model(played.url, {}) == "served/model"
    with pytest.raises(BaselineError, match="to name the served model, found: Connection refused"):
        _send.served_model(f"http://127.0.0.1:{free_port()}", {})


def test_an_answer_larger_than_the_limit_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_http, "LIMIT", 100_000)
    with serving(whole(b"x" * 300_000)) as played:
        reply = _http.exchange(played.url, "/v1/x", b"{}", timeout=20)
    assert (len(reply.body), reply.cut) == (100_000, True)
