# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the fixed request: our own small one, or a stored one, sent byte for byte (private to the collection)."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

CHAT_ROUTE = "/v1/chat/completions"
SENTENCE = "Name one planet of the solar system in one short sentence."
MAX_TOKENS = 32


def default_body(model: str) -> str:
    """One short sentence, temperature 0, 32 tokens, for the chat route."""
    return encode(
        {
            "model": model,
            "messages": [{"role": "user", "content": SENTENCE}],
            "temperature": 0,
            "max_tokens": MAX_TOKENS,
        }
    )


def encode(document: Dict[str, Any]) -> str:
    """A body in one form, so that equal bodies have equal hashes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(body: str) -> str:
    """sha256 of the bytes that are sent."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def check(body: str) -> Dict[str, Any]:
    """The body as a document; raises BaselineError for one that cannot be a fixed request."""
    expected = "expected the fixed request's body as a JSON object"
    try:
        document = json.loads(body)
    except ValueError as error:
        raise BaselineError("%s, found: %s; correct the stored body" % (expected, error)) from error
    if not isinstance(document, dict):
        raise BaselineError("%s, found %s; correct the stored body" % (expected, type(document).__name__))
    if document.get("stream"):
        raise BaselineError(
            '%s without streaming, found "stream": true; set it to false, an answer in pieces is a variable of'
            " its own" % expected
        )
    return document
