# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that a rung puts on the engine (pure; private to the collection, controller only).

Each load is a list of exchanges for the module fixed_request, sent in this order. The text of long prompts is made of
plain words and running numbers: a word is at least one token in every tokenizer, so the number of words is a floor for
the number of tokens; how many it really was is read from the answer's usage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._request._body import CHAT_ROUTE, encode

NONE = "none"
SAME_TWICE = "same twice"
SHARED_PREFIX = "shared prefix"
LONGER_INPUT = "longer input"
MORE_OUTPUT = "more output"
PARALLEL = "parallel"
TOOLS = "tools"
STRUCTURED = "structured output"
IMAGE = "image"
GATEWAY = "gateway"

# A prefix must fill so many blocks of the cache, or a second request could not show anything.
BLOCKS_TO_SHOW = 2
DEFAULT_BLOCK = 128
QUESTION = "Which number stands last in the list above? Answer with the number alone."
OTHER_QUESTION = "Which number stands first in the list above? Answer with the number alone."
# A red square of 8 x 8 pixels.
RED_SQUARE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mP4z8CAFTEMLQkAKP8/wc53yE8AAAAASUVORK5CYII="
)


@dataclass(frozen=True)
class Exchange:
    """Arguments of one call of fixed_request."""

    label: str
    body: str
    times: int = 1
    parallel: int = 1
    route: str = CHAT_ROUTE
    url: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For documents and tasks."""
        return asdict(self)


@dataclass(frozen=True)
class Load:
    """A kind of load and its size: tokens of input or output, requests at once, or the URL of a gateway."""

    kind: str = NONE
    size: int = 0
    url: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return asdict(self)


def load_of(document: Mapping[str, Any]) -> Load:
    """A load from a document; raises BaselineError for what is none."""
    try:
        load = Load(
            str(document.get("kind", NONE)), int(document.get("size", 0)), str(document.get("url", ""))
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise BaselineError(
            f"expected a load with kind, size and url, found {document!r}: {error}"
        ) from error
    if load.kind not in _KINDS:
        raise BaselineError(f"expected one of {', '.join(_KINDS)} as the kind of a load, found {load.kind!r}")
    if load.kind in (LONGER_INPUT, MORE_OUTPUT, PARALLEL) and load.size < 1:
        raise BaselineError(f"expected a size of 1 or more for the load {load.kind!r}, found {load.size}")
    if load.kind == GATEWAY and not load.url:
        raise BaselineError("expected the URL of the gateway, found none; give it, or skip the rung")
    return load


def exchanges(load: Load, fixed_body: str, block_tokens: int = DEFAULT_BLOCK) -> list[Exchange]:
    """What the load sends; ``fixed_body`` is the fixed request, whose model and sampling settings are kept."""
    return _KINDS[load.kind](load, json.loads(fixed_body), max(1, block_tokens))


def words(count: int) -> str:
    """A text of at least ``count`` tokens in which nothing repeats."""
    return " ".join(f"item {number}" for number in range(1, (count + 1) // 2 + 1))


def shows_something(prompt_tokens: int | None, block_tokens: int) -> bool:
    """Whether a prompt was long enough for the cache to have a say."""
    return prompt_tokens is not None and prompt_tokens >= BLOCKS_TO_SHOW * block_tokens


def _with_text(body: Mapping[str, Any], text: str, **more: Any) -> str:
    return encode({**body, "messages": [{"role": "user", "content": text}], **more})


def _prompt(block_tokens: int, question: str) -> str:
    return f"{words(BLOCKS_TO_SHOW * block_tokens + block_tokens // 2)}\n\n{question}"


def _none(_load: Load, _body: Mapping[str, Any], _block: int) -> list[Exchange]:
    return []


def _same_twice(_load: Load, body: Mapping[str, Any], block: int) -> list[Exchange]:
    same = _with_text(body, _prompt(block, QUESTION))
    return [Exchange("long prompt, first time", same), Exchange("the same prompt again", same)]


def _shared_prefix(_load: Load, body: Mapping[str, Any], block: int) -> list[Exchange]:
    return [
        Exchange("shared prefix, one question", _with_text(body, _prompt(block, QUESTION))),
        Exchange("shared prefix, another question", _with_text(body, _prompt(block, OTHER_QUESTION))),
    ]


def _longer_input(load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    return [
        Exchange(
            f"input of at least {load.size} tokens", _with_text(body, f"{words(load.size)}\n\n{QUESTION}")
        )
    ]


def _more_output(load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    text = "Count upwards from one, one number a line."
    # Without this the engine may stop early, and the higher limit was never tried.
    return [
        Exchange(
            f"output of {load.size} tokens", _with_text(body, text, max_tokens=load.size, ignore_eos=True)
        )
    ]


def _parallel(load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    return [Exchange(f"{load.size} at once", encode(dict(body)), times=2, parallel=load.size)]


def _tools(_load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    tool = {
        "type": "function",
        "function": {
            "name": "planet_mass",
            "description": "Mass of a planet in kilograms",
            "parameters": {
                "type": "object",
                "properties": {"planet": {"type": "string"}},
                "required": ["planet"],
            },
        },
    }
    return [
        Exchange(
            "a tool is offered", _with_text(body, "How heavy is Mars?", tools=[tool], tool_choice="auto")
        )
    ]


def _structured(_load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    schema = {
        "type": "object",
        "properties": {"planet": {"type": "string"}},
        "required": ["planet"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "planet", "schema": schema, "strict": True}}
    return [
        Exchange(
            "the answer follows a schema", _with_text(body, "Name a planet as JSON.", response_format=wanted)
        )
    ]


def _image(_load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    content = [
        {"type": "text", "text": "Which colour has the picture?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{RED_SQUARE}"}},
    ]
    return [Exchange("a picture", encode({**body, "messages": [{"role": "user", "content": content}]}))]


def _gateway(load: Load, body: Mapping[str, Any], _block: int) -> list[Exchange]:
    return [Exchange("through the gateway", encode(dict(body)), url=load.url)]


_KINDS: dict[str, Callable[[Load, Mapping[str, Any], int], list[Exchange]]] = {
    NONE: _none,
    SAME_TWICE: _same_twice,
    SHARED_PREFIX: _shared_prefix,
    LONGER_INPUT: _longer_input,
    MORE_OUTPUT: _more_output,
    PARALLEL: _parallel,
    TOOLS: _tools,
    STRUCTURED: _structured,
    IMAGE: _image,
    GATEWAY: _gateway,
}
