# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in nested documents, argument lists and environments (private to the collection).

One walk serves both passes: a visitor is told of every secret and of every other text, and what it answers
stands in the new document.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional, Protocol, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._names import (
    SURE,
    WEAK,
    about_secret,
    names_location,
    secret_kind,
    words_of,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._read_value import scheme_length
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._values import (
    is_path,
    is_value,
    key_file,
    looks_random,
)

_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z_][A-Za-z0-9_.\-]{0,127})=(.*)\Z", re.DOTALL)
_USER_FLAGS = frozenset(("-u", "--user", "--proxy-user", "-U"))
_DEEPEST = 200


class Visitor(Protocol):
    """Is told of what stands in a document."""

    def secret(self, value: str, name: str) -> str:
        """A secret that the name gives away; what is to stand in its place."""

    def text(self, value: str) -> str:
        """Any other text; what is to stand in its place."""


def walk(document: Any, visitor: Visitor, name: str = "", depth: int = 0) -> Any:
    """The document with the visitor's answers in it. ``name``: the secret's name under which it stands."""
    if depth > _DEEPEST:
        raise ValueError(
            f"document: expected at most {_DEEPEST} levels, found more; leave it out of the record"
        )
    if isinstance(document, str):
        return _secret(document, visitor, name) if name else visitor.text(document)
    if isinstance(document, bytes):
        return walk(document.decode("utf-8", "surrogateescape"), visitor, name, depth).encode(
            "utf-8", "surrogateescape"
        )
    if isinstance(document, Mapping):
        return _walk_mapping(document, visitor, name, depth)
    if isinstance(document, (list, tuple)):
        walked = _walk_list(document, visitor, name, depth)
        return tuple(walked) if isinstance(document, tuple) else walked
    if name and isinstance(document, (int, float)) and not isinstance(document, bool):
        number = str(document)
        replaced = _secret(number, visitor, name)
        return document if replaced == number else replaced
    return document


def walk_environment(pairs: Sequence[tuple[str, str]], visitor: Visitor) -> None:
    """Tell the visitor of the variables of an environment."""
    for name, value in pairs:
        _assignment(name, value, visitor)


def _walk_mapping(document: Mapping[Any, Any], visitor: Visitor, name: str, depth: int) -> dict[Any, Any]:
    pair = _named_pair(document)
    walked: dict[Any, Any] = {}
    for key, value in document.items():
        under = pair[0] if pair and key == pair[1] else _under(key, value, name, document)
        new_key = visitor.text(key) if isinstance(key, str) else key
        walked[new_key] = walk(value, visitor, under, depth + 1)
    return walked


def _named_pair(document: Mapping[Any, Any]) -> Optional[tuple[str, str]]:
    """``{"name": "HF_TOKEN", "value": "..."}``: the secret's name, and the key under which it stands."""
    folded = {key.lower(): key for key in document if isinstance(key, str)}
    name = document.get(folded.get("name", folded.get("key", "")))
    if "value" in folded and isinstance(name, str) and secret_kind(name):
        return name, folded["value"]
    return None


def _under(key: Any, value: Any, outer: str, document: Mapping[Any, Any]) -> str:
    """The secret's name under which a value of a mapping stands, or an empty text."""
    if not isinstance(key, str):
        return ""
    kind = secret_kind(key)
    if kind == WEAK and isinstance(value, Mapping):
        return ""
    if kind:
        return "" if key == "token" and "logprob" in document else key
    if names_location(key):
        return key
    return "" if about_secret(key) else outer


def _walk_list(items: Sequence[Any], visitor: Visitor, name: str, depth: int) -> list[Any]:
    if name or not all(isinstance(item, str) for item in items):
        under = "" if name else _pair_name(items)
        return [
            walk(item, visitor, under if under and index else name, depth + 1)
            for index, item in enumerate(items)
        ]
    return _walk_words(items, visitor)


def _pair_name(items: Sequence[Any]) -> str:
    """The name in ``["authorization", "Bearer ..."]``; two names side by side are no pair."""
    if len(items) != 2 or not all(isinstance(item, (str, bytes)) for item in items):
        return ""
    name, value = (
        item if isinstance(item, bytes) else item.encode("utf-8", "surrogatepass") for item in items
    )
    text = name.decode("latin-1")
    if text.startswith("-") or secret_kind(text) != SURE or secret_kind(value.decode("latin-1")):
        return ""
    return text if "-" in text or "authorization" in text.lower() or looks_random(value) else ""


def _walk_words(words: Sequence[str], visitor: Visitor) -> list[str]:
    """An argument list, or any other list of texts."""
    walked: list[str] = []
    flag = _pair_name(words)
    several = False
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        if word.startswith("-") or not flag or (index == 1 and before != words[0]):
            walked.append(_word(word, before, words[index - 2] if index > 1 else "", visitor))
            name = word if word.startswith("-") and "=" not in word and secret_kind(word) else ""
            flag = name or (flag if index == 0 else "")
            several = word.lower().strip("-").replace("_", "-") in ("api-key", "api-keys")
        elif index == 0:
            walked.append(visitor.text(word))
        else:
            walked.append(_secret(word, visitor, flag))
            flag = flag if several else ""
    return walked


def _word(word: str, before: str, second_before: str, visitor: Visitor) -> str:
    assignment = _ASSIGNMENT.match(word)
    if assignment:
        name = assignment.group(1)
        return f"{name}={_assignment(name, assignment.group(2), visitor)}"
    if before in _USER_FLAGS and ":" in word and "://" not in word:
        user, _colon, password = word.partition(":")
        return f"{user}:{_secret(password, visitor, 'password')}"
    if before == "login" and second_before.rpartition("/")[2] == "wandb" and not word.startswith("-"):
        return _secret(word, visitor, "WandB-key")
    return visitor.text(word)


def _assignment(name: str, value: str, visitor: Visitor) -> str:
    if secret_kind(name) or names_location(name):
        return _secret(value, visitor, name)
    # With its name before it, since a text is judged by both.
    text = visitor.text(f"{name}={value}")
    return text[len(name) + 1 :] if text.startswith(name + "=") else text


def _secret(value: str, visitor: Visitor, name: str) -> str:
    """A value under a secret's name: the visitor is told of it when it is one."""
    kind = secret_kind(name) or SURE
    raw = value.encode("utf-8", "surrogatepass")
    placed = names_location(name) or key_file(words_of(name))
    scheme = scheme_length(raw)
    if (placed and is_path(raw)) or not is_value(raw[scheme:], name, kind, True):
        return visitor.text(value)
    if value.lstrip()[:1] in ("{", "[") or "-----BEGIN " in value:
        visitor.text(value)
    return raw[:scheme].decode() + visitor.secret(raw[scheme:].decode("utf-8", "surrogatepass"), name)
