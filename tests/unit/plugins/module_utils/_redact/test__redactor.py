# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents, argument lists, stand-ins and reports of the redactor; streams of any length in constant memory."""

from __future__ import annotations

import base64
import json
import tracemalloc
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import STAND_IN
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = b"a key of a reproduction in tests"
V = "cNry7-Vq2LmT9xWz4"


def plain(document: Any) -> str:
    return STAND_IN.sub(rb"<\1>", json.dumps(Redactor(KEY).redact_value(document)).encode()).decode()


DOCUMENTS = [
    ({"api_key": V}, {"api_key": "<api_key>"}),
    ({"apiKey": ["a1", "b2"], "port": 8000}, {"apiKey": ["<apiKey>", "<apiKey>"], "port": 8000}),
    ({"password": 12345678}, {"password": "<password>"}),
    ({"password": True, "secret": None, "token": 0}, {"password": True, "secret": None, "token": 0}),
    ({"Env": ["HF_TOKEN=" + V, "PATH=/bin"]}, {"Env": ["HF_TOKEN=<HF_TOKEN>", "PATH=/bin"]}),
    ({"Env": ["HF_TOKEN=two words"]}, {"Env": ["HF_TOKEN=<HF_TOKEN>"]}),
    (
        ["serve", "m", "--api-key", V, "--port", "80"],
        ["serve", "m", "--api-key", "<api-key>", "--port", "80"],
    ),
    (["--api-key", "k1", "k2", "--port"], ["--api-key", "<api-key>", "<api-key>", "--port"]),
    (["--hf-token", V, "model"], ["--hf-token", "<hf-token>", "model"]),
    (["--hf-token", "--port", "80"], ["--hf-token", "--port", "80"]),
    (["--api-key=" + V], ["--api-key=<api-key>"]),
    (["-e", "HF_TOKEN=" + V, "-e", "HF_TOKEN"], ["-e", "HF_TOKEN=<HF_TOKEN>", "-e", "HF_TOKEN"]),
    (["--env=HF_TOKEN=" + V], ["--env=HF_TOKEN=<HF_TOKEN>"]),
    (["curl", "-u", "me:pw", "http://h"], ["curl", "-u", "me:<password>", "http://h"]),
    (["curl", "-H", "Authorization: Bearer pw"], ["curl", "-H", "Authorization: Bearer <Authorization>"]),
    (["wandb", "login", "0123abcd"], ["wandb", "login", "<WandB-key>"]),
    (["sh", "-c", f"vllm serve --api-key {V} m"], ["sh", "-c", "vllm serve --api-key <api-key> m"]),
    ({"name": "HF_TOKEN", "value": "abc"}, {"name": "HF_TOKEN", "value": "<HF_TOKEN>"}),
    ({"Key": "X-Api-Key", "Value": "abc"}, {"Key": "X-Api-Key", "Value": "<X-Api-Key>"}),
    (
        [["authorization", "Bearer abc"], ["host", "h"]],
        [["authorization", "Bearer <authorization>"], ["host", "h"]],
    ),
    ({"Authorization": "Bearer abc"}, {"Authorization": "Bearer <Authorization>"}),
    ({"secrets": {"db": "abc", "type": "Opaque"}}, {"secrets": {"db": "<secrets>", "type": "Opaque"}}),
    ({"auth": {"username": "me", "password": "pw"}}, {"auth": {"username": "me", "password": "<password>"}}),
    ({"token": "Hello", "logprob": -0.5}, {"token": "Hello", "logprob": -0.5}),
    ({"token": "Hello"}, {"token": "<token>"}),
    ({"HF_TOKEN_PATH": "/root/.cache/token"}, {"HF_TOKEN_PATH": "/root/.cache/token"}),
    ({"HF_TOKEN_PATH": "abc123"}, {"HF_TOKEN_PATH": "<HF_TOKEN_PATH>"}),
    (
        {"ssl_key": "/etc/key.pem", "url": "http://u:pw@h/"},
        {"ssl_key": "/etc/key.pem", "url": "http://u:<URL-password>@h/"},
    ),
    (
        {"max_tokens": 5, "n": 1.5, "ok": True, "none": None},
        {"max_tokens": 5, "n": 1.5, "ok": True, "none": None},
    ),
    ({"a": [{"b": ({"api_key": "x1"},)}]}, {"a": [{"b": [{"api_key": "<api_key>"}]}]}),
]


@pytest.mark.parametrize(("document", "expected"), DOCUMENTS)
def test_documents_keep_their_shape(document: Any, expected: Any) -> None:
    assert json.loads(plain(document)) == expected


@pytest.mark.parametrize(("document", "_expected"), DOCUMENTS)
def test_redacting_a_document_twice_is_redacting_it_once(document: Any, _expected: Any) -> None:
    redactor = Redactor(KEY)
    once = redactor.redact_value(document)
    assert redactor.redact_value(once) == once


def test_a_value_within_a_document_is_gone_everywhere_in_it() -> None:
    encoded = base64.b64encode(f"me:{V}".encode()).decode()
    document = {"log": f"saw {V}", V: 1, "auths": {"r": {"auth": encoded}}, "deep": [[f"x{V}y"]]}
    answer = json.dumps(Redactor(KEY).redact_value(document))
    assert V not in answer
    assert encoded not in answer


def test_keys_that_look_like_secrets_stay() -> None:
    document = {"environment": {"HF_TOKEN": V}, "order": ["HF_TOKEN", "PATH"]}
    answer = Redactor(KEY).redact_value(document)
    assert list(answer["environment"]) == ["HF_TOKEN"]
    assert answer["order"] == ["HF_TOKEN", "PATH"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["--api-key", "HF_TOKEN=x1", V]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["api_key", "name", "value", "a", "token"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(json_values)
def test_any_document_is_taken_and_twice_is_once(document: Any) -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment({"HF_TOKEN": V})
    once = redactor.redact_value(document)
    assert V not in json.dumps(once)
    assert redactor.redact_value(once) == once


def test_a_document_without_end_is_refused() -> None:
    document: Any = []
    for _level in range(300):
        document = [document]
    with pytest.raises(ValueError, match="expected at most 200 levels"):
        Redactor(KEY).redact_value(document)


def test_equal_values_have_equal_stand_ins_under_one_key_and_no_other() -> None:
    answers = []
    for key in (KEY, KEY, b"the key of another reproduction!"):
        redactor = Redactor(key)
        redactor.learn_environment({"HF_TOKEN": V})
        answers.append(redactor.redact_text(f"token={V} and {V}"))
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]
    assert len(set(STAND_IN.findall(answers[0].encode()))) == 1


def test_a_short_value_has_one_stand_in_too() -> None:
    answer = Redactor(KEY).redact_text("redis_password=abc1 DB_PASS=abc1")
    assert len(set(STAND_IN.findall(answer.encode()))) == 1


def test_a_stand_in_names_no_secret() -> None:
    redactor = Redactor(KEY)
    answer = redactor.redact_text(f"{V}_TOKEN={V} abcd1_token=abcd1")
    assert V not in answer
    assert answer.endswith(" abcd1_token=<redacted secret " + answer[-7:])


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least 16 bytes, found 3"):
        Redactor(b"abc")


def test_report_and_digests_hold_counts_and_names_but_no_value() -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment({"HF_TOKEN": V})
    redactor.redact_text(f"HF_TOKEN={V} and {V} and password=abc")
    report = redactor.report()
    assert report["replaced"] == 3
    assert report["by_name"] == {"HF_TOKEN": 2, "password": 1}
    assert report["known_values"] == 1
    assert V not in json.dumps([report, redactor.digests()])
    assert {entry["name"] for entry in redactor.digests()} == {"HF_TOKEN"}
    assert all(len(entry["digest"]) == 64 for entry in redactor.digests())


def test_values_from_texts_are_not_learned_without_bound() -> None:
    redactor = Redactor(KEY)
    text = "\n".join(f"https://h/w?X-Amz-Signature={index:06d}aBcDeFgHiJ" for index in range(400))
    answer = redactor.redact_text(text)
    assert "aBcDeFgHiJ" not in answer
    report = redactor.report()
    assert report["known_values"] == 256
    assert report["not_learned"] >= 144


def test_t23_the_scanner_finds_a_canary_planted_in_clean_text() -> None:
    redactor = Redactor(KEY)
    redactor.learn_environment({"HF_TOKEN": V})
    clean = redactor.redact_bytes((f"HF_TOKEN={V}\n".encode() + b"line\n" * 3000) * 120)
    scanner = redactor.scanner()
    scanner.feed(clean)
    assert scanner.finish() == []
    scanner = redactor.scanner()
    planted = clean[:1_300_000] + V.encode() + clean[1_300_000:] + b"\n" + base64.b64encode(b"x" + V.encode())
    for start in range(0, len(planted), 1000):
        scanner.feed(planted[start : start + 1000])
    hits = scanner.finish()
    assert [hit.form for hit in hits] == ["raw", "base64"]
    assert hits[0].offset == 1_300_000
    assert hits[0].stand_in.startswith("<redacted HF_TOKEN ")


@pytest.mark.parametrize("opening", ['api_key="', "api_key=", "api_key: ", "-----BEGIN PRIVATE KEY-----\n"])
def test_a_value_longer_than_any_window_is_removed_whole(opening: str) -> None:
    redactor = Redactor(KEY)
    stream = redactor.stream()
    value = b"A1b2C3d4" * 500_000
    closing = (
        b"@host" if "me:" in opening else (b"\n-----END PRIVATE KEY-----" if "BEGIN" in opening else b'"')
    )
    answer = b"".join(
        stream.feed(block) for block in (b"x\n" + opening.encode(), value, closing, b"\nand on\n" * 9)
    )
    answer += stream.finish()
    assert b"A1b2C3d4" not in answer
    assert answer.endswith(b"\nand on\n" * 9)
    assert len(answer) < 300


@pytest.mark.parametrize("line", [b"x" * 100, b"batch of 8 tokens, 3 requests\n"])
def test_memory_does_not_grow_with_the_stream(line: bytes) -> None:
    peaks = []
    for mebibytes in (3, 9):
        stream = Redactor(KEY).stream()
        block = line * (65536 // len(line))
        tracemalloc.start()
        for _index in range(mebibytes * 16):
            stream.feed(block)
        stream.finish()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.3
