# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an answer to the fixed request means (pure, private to the collection).

A server that is healthy and lists its models can still answer nothing, or answer nonsense: only a well-formed
choice with tokens counts. The shapes are those of vLLM's OpenAI-compatible server
(https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Optional

ANSWERED = "answered"
WRONG_CONTENT = "wrong content"
NO_TOKENS = "no tokens"
MALFORMED = "malformed"
REFUSED = "refused"
SERVER_ERROR = "server error"
TIMEOUT = "timeout"
NOT_CONNECTED = "not connected"
CONNECTION_LOST = "connection lost"

# A piece of at most so many characters, said so often in a row to the end, is one token repeated.
_REPEATED = re.compile(r"\A\s*(.{1,24}?)(?:\1){7,}.{0,24}\Z", re.DOTALL)
_MESSAGE_WIDTH = 300


@dataclass(frozen=True)
class Answer:
    """One answer, judged. Tokens are the engine's own count; None where it gave none."""

    outcome: str
    message: str = ""
    finish_reason: Optional[str] = None
    prompt_tokens: Optional[int] = None
    completion_tokens: Optional[int] = None
    cached_tokens: Optional[int] = None
    content_empty: bool = False
    reasoning: bool = False
    tool_calls: int = 0

    @property
    def answered(self) -> bool:
        """Whether the engine did its work."""
        return self.outcome == ANSWERED

    def as_dict(self) -> Dict[str, Any]:
        """For documents."""
        return asdict(self)


def judge(status: int, body: bytes) -> Answer:
    """The meaning of a whole HTTP answer."""
    if status >= 500:
        return Answer(SERVER_ERROR, _error_text(status, body))
    if status != 200:
        return Answer(REFUSED, _error_text(status, body))
    try:
        document = json.loads(body)
    except ValueError as error:
        return Answer(MALFORMED, "expected JSON from the server, found: %s" % error)
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Answer(MALFORMED, "expected a list of choices in the answer, found none")
    usage = document.get("usage")
    return _judge_choice(choices[0], usage if isinstance(usage, dict) else {})


def _judge_choice(choice: Mapping[str, Any], usage: Mapping[str, Any]) -> Answer:
    message = choice.get("message") if isinstance(choice.get("message"), dict) else None
    if message is None and not isinstance(choice.get("text"), str):
        return Answer(MALFORMED, "expected a message or a text in the first choice, found neither")
    content = _text(message.get("content") if message is not None else choice["text"])
    # The field was renamed in vLLM; both names are in use.
    thought = _text(message.get("reasoning") or message.get("reasoning_content")) if message else ""
    calls = message.get("tool_calls") if message else None
    details = usage.get("prompt_tokens_details")
    facts: Dict[str, Any] = {
        "finish_reason": _optional_text(choice.get("finish_reason")),
        "prompt_tokens": _number(usage.get("prompt_tokens")),
        "completion_tokens": _number(usage.get("completion_tokens")),
        "cached_tokens": _number(details.get("cached_tokens")) if isinstance(details, dict) else None,
        "content_empty": not content,
        "reasoning": bool(thought),
        "tool_calls": len(calls) if isinstance(calls, list) else 0,
    }
    if not facts["completion_tokens"]:
        return Answer(NO_TOKENS, "the engine answered and counted no token of its own", **facts)
    if repeats_one_token(content or thought):
        piece = (content or thought).strip()[:40]
        return Answer(WRONG_CONTENT, "one token repeated: %r" % piece, **facts)
    note = ""
    if not content and not facts["tool_calls"]:
        note = (
            "the content is empty: all tokens went into reasoning, which is an answer"
            if thought
            else "the content is empty, though the engine counted tokens"
        )
    return Answer(ANSWERED, note, **facts)


def repeats_one_token(text: str) -> bool:
    """Whether a text is one short piece said again and again, as from weights or a cache that are broken."""
    return bool(text.strip()) and bool(_REPEATED.match(text))


def _error_text(status: int, body: bytes) -> str:
    text = body.decode("utf-8", "backslashreplace").strip()
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if isinstance(document, dict):
        error = document.get("error", document)
        found = error.get("message") if isinstance(error, dict) else error
        text = found if isinstance(found, str) else text
    text = " ".join(text.split())
    return "HTTP %d%s" % (status, ": " + text[:_MESSAGE_WIDTH] if text else "")


def _text(value: Any) -> str:
    """The text of a message, which may also come as a list of parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _optional_text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _number(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
