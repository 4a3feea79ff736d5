# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._request._body import check, default_body
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _ladder_load as loads
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._ladder_load import Load, exchanges, load_of

FIXED = default_body("served/model")
SIZED = {loads.LONGER_INPUT: 2048, loads.MORE_OUTPUT: 256, loads.PARALLEL: 4}


def bodies(load: Load, block: int = 128) -> list[dict[str, Any]]:
    return [json.loads(exchange.body) for exchange in exchanges(load, FIXED, block)]


@pytest.mark.parametrize("kind", sorted(loads._KINDS))
def test_every_body_can_be_sent_and_keeps_the_model_and_the_sampling(kind: str) -> None:
    for exchange in exchanges(Load(kind, SIZED.get(kind, 0), "http://gateway"), FIXED):
        body = check(exchange.body)
        assert (body["model"], body["temperature"]) == ("served/model", 0)
        assert exchange.label


@pytest.mark.parametrize("block", [16, 128, 1088])
def test_the_cache_load_is_the_same_twice_and_longer_than_two_blocks(block: int) -> None:
    first, second = exchanges(Load(loads.SAME_TWICE), FIXED, block)
    assert first.body == second.body
    text = json.loads(first.body)["messages"][0]["content"]
    assert len(text.split()) >= 2 * block


def test_a_shared_prefix_has_two_ends() -> None:
    one, other = (body["messages"][0]["content"] for body in bodies(Load(loads.SHARED_PREFIX)))
    assert one != other
    assert one.rpartition("\n\n")[0] == other.rpartition("\n\n")[0]


def test_a_longer_input_has_at_least_its_words_and_repeats_none() -> None:
    text = bodies(Load(loads.LONGER_INPUT, 2048))[0]["messages"][0]["content"]
    assert len(text.split()) >= 2048
    numbers = [word for word in text.split() if word.isdigit()]
    assert len(numbers) == len(set(numbers))


def test_more_output_must_be_reached_and_parallel_is_at_once() -> None:
    body = bodies(Load(loads.MORE_OUTPUT, 256))[0]
    assert (body["max_tokens"], body["ignore_eos"]) == (256, True)
    assert [exchange.parallel for exchange in exchanges(Load(loads.PARALLEL, 4), FIXED)] == [4]
    assert exchanges(Load(loads.GATEWAY, 0, "http://gateway"), FIXED)[0].url == "http://gateway"


def test_the_picture_is_a_whole_png() -> None:
    content = base64.b64decode(loads.RED_SQUARE, validate=True)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    place, names = 8, []
    while place < len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        chunk = content[place + 4 : place + 8 + size]
        assert zlib.crc32(chunk) == struct.unpack(">I", content[place + 8 + size : place + 12 + size])[0]
        names.append(chunk[:4])
        place += 12 + size
    assert names == [b"IHDR", b"IDAT", b"IEND"]


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "leap"},
        {"kind": "parallel"},
        {"kind": "gateway"},
        {"kind": "longer input", "size": "x"},
        {"kind": "none", "size": None},
    ],
)
def test_what_is_no_load_is_an_error(document: dict[str, Any]) -> None:
    with pytest.raises(BaselineError, match="expected"):
        load_of(document)


def test_a_load_is_written_and_read_again() -> None:
    load = Load(loads.LONGER_INPUT, 2048)
    assert load_of(load.as_dict()) == load
    assert load_of({}) == Load()


def test_a_prompt_below_two_blocks_shows_nothing() -> None:
    assert loads.shows_something(256, 128)
    assert not loads.shows_something(255, 128)
    assert not loads.shows_something(None, 16)
