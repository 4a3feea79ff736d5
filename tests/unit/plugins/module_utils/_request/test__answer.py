# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._request import _answer
from ansible_collections.gpufleet.baseline.tests.unit.plugins.module_utils._request.server import chat
from hypothesis import given
from hypothesis import strategies as st


def _judge(document: object, status: int = 200) -> _answer.Answer:
    return _answer.judge(status, document if isinstance(document, bytes) else json.dumps(document).encode())


def test_a_well_formed_choice_with_tokens_is_an_answer() -> None:
    answer = _judge(chat())
    assert (answer.outcome, answer.completion_tokens, answer.cached_tokens, answer.message) == (
        "answered",
        3,
        0,
        "",
    )


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_all_tokens_in_reasoning_are_an_answer_and_are_said_so(field: str) -> None:
    answer = _judge(chat(None, 32, **{field: "The user wants a planet."}))
    assert (answer.outcome, answer.content_empty, answer.reasoning) == ("answered", True, True)
    assert "reasoning" in answer.message


def test_tokens_without_any_text_are_an_answer_with_a_note() -> None:
    answer = _judge(chat("", 32))
    assert answer.answered
    assert "counted tokens" in answer.message


@pytest.mark.parametrize(
    "text", ["!" * 32, "the the the the the the the the the", "<|a|>" * 20, "\n ab" * 12]
)
@pytest.mark.parametrize("in_reasoning", [False, True])
def test_one_token_repeated_is_wrong_content(text: str, in_reasoning: bool) -> None:
    answer = _judge(chat(None, 32, reasoning=text) if in_reasoning else chat(text, 32))
    assert answer.outcome == "wrong content"


@pytest.mark.parametrize(
    "text", ["Mars is a planet of the solar system.", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10", "Hm... yes"]
)
def test_other_content_is_not_wrong(text: str) -> None:
    assert _judge(chat(text)).outcome == "answered"


def test_no_completion_tokens_is_no_answer() -> None:
    assert _judge(chat("Mars.", 0)).outcome == "no tokens"
    document = chat()
    del document["usage"]
    assert _judge(document).outcome == "no tokens"


def test_tool_calls_are_an_answer() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    answer = _judge(chat(None, 12, tool_calls=calls))
    assert (answer.outcome, answer.tool_calls, answer.message) == ("answered", 1, "")


@pytest.mark.parametrize(
    "document", [b"<html>", [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [None]}, b""]
)
def test_what_is_no_completion_is_malformed(document: object) -> None:
    assert _judge(document).outcome == "malformed"


def test_an_error_tells_its_status_and_the_server_s_own_words() -> None:
    refused = _judge({"error": {"message": "max_tokens is too\nlarge", "code": 400}}, 400)
    assert (refused.outcome, refused.message) == ("refused", "HTTP 400: max_tokens is too large")
    assert _judge({"detail": "x"}, 503).outcome == "server error"
    assert _judge(b"", 302).message == "HTTP 302"


@given(
    st.integers(100, 599),
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["choices", "usage", "message", "content", "error", "text"]),
                inner,
                max_size=4,
            )
        ),
    ).map(lambda value: json.dumps(value).encode()),
)
def test_whatever_a_server_answers_is_judged(status: int, body: bytes) -> None:
    answer = _answer.judge(status, body)
    assert answer.answered <= (status == 200)
