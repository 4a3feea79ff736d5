# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The redactor: one vocabulary of secrets for every path that leaves a host (private to the collection).

First it learns: environments, argument lists, documents and texts are read for values that a name or their
own form gives away. Then it redacts: every learned value in any of its forms, everything that a name or form
gives away on the spot. Values of fewer than eight characters are removed only where a name stands before
them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Iterable, Mapping, Union

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._documents import (
    walk,
    walk_environment,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._find import find_secrets
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._fingerprint import fingerprints
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._forms import password_within
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._known import KnownValues
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._lines import LineFilter
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._scanner import Scanner
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import (
    STAND_IN,
    Span,
    plain_name,
    stand_in,
    tag,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._stream import (
    WINDOW,
    RedactingStream,
    replaced,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._values import worth_learning

# Of a longer value the beginning makes the stand-in, so that a stream need not keep it.
_TAGGED = 64 * 1024
# A text can teach a value that stands earlier in it; each round learns at least one.
_ROUNDS = 32
_NAMES_KEPT = 16384
# A log with a new signed URL on every line would teach millions of values that stand nowhere else: from texts
# no more than these are learned. The others are still removed where they stand, and the report counts them.
_LEARNED_FROM_TEXTS = 256
_STAND_IN_IN_PATH = re.compile(STAND_IN.pattern.decode())


class Redactor:
    """Learns the secrets of one host and replaces them by stand-ins under the key of a reproduction."""

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError(
                f"redaction key: expected at least 16 bytes, found {len(key)}; make a new reproduction key"
            )
        self._key = key
        self._known = KnownValues()
        self._filter = LineFilter(self._known)
        self._short_names: dict[bytes, str] = {}
        # Names as they may stand in a stand-in, and the generation they were found harmless at.
        self._plain_names: dict[str, str] = {}
        self._plain_names_of = 0
        self._from_texts = self._not_learned = 0
        self._by_rule: Counter[str] = Counter()
        self._by_name: Counter[str] = Counter()

    @property
    def generation(self) -> int:
        """Grows whenever a value is learned: a text redacted at an earlier one may hold the new value."""
        return self._known.generation

    def learn_environment(self, environment: Union[Iterable[str], Mapping[str, str]]) -> None:
        """Learn from ``K=V`` strings or a mapping."""
        if isinstance(environment, Mapping):
            pairs = list(environment.items())
        else:
            pairs = [(name, value) for name, _equals, value in (one.partition("=") for one in environment)]
        walk_environment(pairs, _Learning(self))

    def learn_argv(self, argv: Iterable[str]) -> None:
        """Learn from an argument list."""
        walk([str(word) for word in argv], _Learning(self))

    def learn_value(self, document: Any) -> None:
        """Learn from nested lists and mappings, as of JSON."""
        walk(document, _Learning(self))

    def learn(self, value: bytes, name: str, certain: bool = True) -> bool:
        """Learn one value when it is worth looking for elsewhere; True when it is new."""
        learned = False
        for one in (value, password_within(value)):
            if not one or one in self._known.names or not worth_learning(one, certain):
                continue
            if not certain and self._from_texts >= _LEARNED_FROM_TEXTS:
                self._not_learned += 1
                continue
            self._from_texts += not certain
            learned |= self._known.add(one, name)
        return learned

    def learn_text(self, source: Iterable[bytes]) -> None:
        """Learn from a text in blocks, in constant memory."""
        stream = RedactingStream(self._find_and_learn, lambda span: b"")
        for block in source:
            stream.feed(block)
        stream.finish()

    def redact_text(self, text: str) -> str:
        """A text without its secrets."""
        return self.redact_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def redact_bytes(self, text: bytes) -> bytes:
        """A text without its secrets."""
        if len(text) <= WINDOW:
            return replaced(text, self._find_and_learn(text, len(text)), self._replacement, 0, len(text))
        for _count in range(_ROUNDS):
            generation = self._known.generation
            self.learn_text([text])
            if generation == self._known.generation:
                break
        stream = self.stream()
        return stream.feed(text) + stream.finish()

    def redact_value(self, document: Any) -> Any:
        """A nested document without its secrets, of the same shape."""
        self.learn_value(document)
        return walk(document, _Redacting(self))

    def redact_name(self, path: str) -> str:
        """A file's name or path without its secrets, made of characters that a name may have."""
        return _STAND_IN_IN_PATH.sub(r"redacted-\1-\2", self.redact_text(path))

    def stream(self) -> RedactingStream:
        """Redacts blocks as they come: ``feed(block)`` gives what is ready, ``finish()`` the rest."""
        return RedactingStream(self._find_and_learn, self._replacement)

    def known(self) -> dict[bytes, str]:
        """The learned values with the name under which each was seen first; for another process of this host alone."""
        return dict(self._known.names)

    def learn_known(self, values: Mapping[bytes, str]) -> None:
        """Learn what another process of this host has learned."""
        for value, name in values.items():
            self._known.add(value, name)

    def scanner(self) -> Scanner:
        """Looks for learned values in what should be clean: ``feed(block)``, then ``finish()``."""
        return Scanner(self._known, lambda span: self.replace_value(span.value, span.name).decode())

    def digests(self) -> list[dict[str, Any]]:
        """Keyed digests of the learned values, for the records of other hosts; never the values."""
        return [
            entry
            for value, name in sorted(self._known.names.items())
            for entry in fingerprints(self._key, self._harmless_name(name, value), value)
        ]

    def report(self) -> dict[str, Any]:
        """How much was replaced, by rule and by name, and how many values are known."""
        return {
            "replaced": sum(self._by_rule.values()),
            "by_rule": dict(sorted(self._by_rule.items())),
            "by_name": dict(sorted(self._by_name.items())),
            "known_values": len(self._known.names),
            "not_learned": self._not_learned,
        }

    def replace_value(self, value: bytes, name: str) -> bytes:
        """The stand-in of a value; the name under which the value was seen first stands in it."""
        value = value[:_TAGGED]
        first = self._known.names.get(value) or self._short_names.get(value)
        if first is None:
            first = name
            if len(self._short_names) < _NAMES_KEPT:
                self._short_names[value] = first
        return stand_in(self._harmless_name(first, value), tag(self._key, value))

    def count(self, name: str, rule: str) -> None:
        """Take note of a replacement."""
        self._by_rule[rule] += 1
        self._by_name[self._harmless_name(name, b"")] += 1

    def _replacement(self, span: Span) -> bytes:
        self.count(self._known.names.get(span.value, span.name), span.rule)
        return self.replace_value(span.value, span.name)

    def _harmless_name(self, name: str, value: bytes) -> str:
        """A name that holds neither the value nor another learned one."""
        if self._plain_names_of != self._known.generation:
            self._plain_names_of = self._known.generation
            self._plain_names.clear()
        plain = self._plain_names.get(name)
        if plain is None:
            plain = plain_name(name)
            if any(known in plain.encode() for known in self._known.names):
                plain = "secret"
            if len(self._plain_names) < _NAMES_KEPT:
                self._plain_names[name] = plain
        return "secret" if len(value) >= 4 and value in plain.encode() else plain

    def _find_and_learn(self, text: bytes, learn_before: int) -> list[Span]:
        for _count in range(_ROUNDS):
            spans = find_secrets(text, self._filter, self._known)
            if not self._learn_spans(span for span in spans if span.start < learn_before):
                break
        return spans

    def _learn_spans(self, spans: Iterable[Span]) -> bool:
        """Learn from spans what is worth looking for elsewhere; True when a value is new."""
        learned = False
        for span in spans:
            if span.learn:
                learned |= self.learn(span.value, span.name, certain=False)
        return learned


class _Learning:
    """Visits a document to learn from it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def secret(self, value: str, name: str) -> str:
        self._redactor.learn(value.encode("utf-8", "surrogatepass"), name)
        return value

    def text(self, value: str) -> str:
        self._redactor.learn_text([value.encode("utf-8", "surrogatepass")])
        return value


class _Redacting:
    """Visits a document to redact it."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def secret(self, value: str, name: str) -> str:
        self._redactor.count(name, "document")
        return self._redactor.replace_value(value.encode("utf-8", "surrogatepass"), name).decode()

    def text(self, value: str) -> str:
        return self._redactor.redact_text(value)
