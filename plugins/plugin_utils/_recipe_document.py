# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe file as a document whose parts are asked for by path and type (private to the collection,
controller only).

Pure. A part of another type than expected is an error that names the file, the path and what was found
there.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

# The largest recipe of August 2026 has below 100 kB. A parser of YAML needs seconds for each megabyte.
YAML_LIMIT_BYTES = 1024 * 1024
# So many parts a document may have, each alias counted with all that it stands for.
MOST_PARTS = 200_000


class _Malformed(ValueError):
    """What a parser found."""


class _Loader(yaml.SafeLoader):
    """YAML in which a key given twice is an error: PyYAML would take the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a repeated key; those that a merge brings in may be repeated."""
        seen = set()
        for key, _value in node.value:
            if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise _Malformed(f"the key {key.value} twice (line {key.start_mark.line + 1})")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Document:
    """A parsed file: its root is a mapping."""

    location: str
    root: dict[str, Any]

    def get(self, *path: str) -> Any:
        """What stands at a path; None when a part of the path is not there."""
        value: Any = self.root
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def mapping(self, *path: str) -> dict[str, Any]:
        """A mapping with text keys; empty when it is not there."""
        value = self.get(*path)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            self.wrong("a mapping", value, *path)
        return value

    def text(self, *path: str) -> str:
        """A text, number or date as text; empty when it is not there."""
        value = self.get(*path)
        if value is None:
            return ""
        if isinstance(value, (datetime.date, datetime.datetime)):
            return value.isoformat()
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.wrong("a text", value, *path)
        return str(value)

    def number(self, *path: str) -> float | None:
        """A number that is not negative; None when it is not there."""
        value = self.get(*path)
        if value is None:
            return None
        # A comparison with NaN is false, so that NaN is refused too.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            self.wrong("a number", value, *path)
        return value

    def texts(self, *path: str) -> list[str]:
        """A list of texts; empty when it is not there."""
        value = self.get(*path)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, (str, int, float)) for item in value):
            self.wrong("a list of texts", value, *path)
        return [str(item) for item in value]

    def need_text(self, *path: str) -> str:
        """A text that must be there."""
        text = self.text(*path)
        if not text.strip():
            self.wrong("a text", self.get(*path), *path)
        return text

    def wrong(self, expected: str, found: Any, *path: str) -> NoReturn:
        """Raise the error for a part that is not as expected."""
        kind = "nothing" if found is None else f"{type(found).__name__} {str(found)[:60]!r}"
        raise BaselineError(f"{self.location}: expected {expected} at {'.'.join(path)}, found {kind}")


def parse(location: str, content: bytes) -> Document:
    """A YAML or JSON file as a document; an error when it is neither or its root is not a mapping."""
    try:
        text = content.decode("utf-8-sig")
        root = _json(text) if text.lstrip().startswith("{") else _yaml(text)
        _refuse_endless(root)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        found = " ".join(str(error).split())[:200] or type(error).__name__
        raise BaselineError(f"{location}: expected a recipe in YAML or JSON, found: {found}") from error
    if not isinstance(root, dict):
        raise BaselineError(
            f"{location}: expected a mapping at the top of a recipe, found {type(root).__name__}"
        )
    return Document(location, root)


def _yaml(text: str) -> Any:
    if len(text) > YAML_LIMIT_BYTES:
        raise _Malformed(f"more than {YAML_LIMIT_BYTES // 1024} KiB of YAML")
    return yaml.load(text, Loader=_Loader)


def _refuse_endless(root: Any) -> None:
    """Refuse a document whose aliases make few lines stand for endlessly many parts, or for themselves."""
    waiting, seen = [root], 0
    while waiting:
        part = waiting.pop()
        inner = (
            list(part.values())
            if isinstance(part, dict)
            else part
            if isinstance(part, (list, tuple, set))
            else ()
        )
        seen += len(inner)
        if seen > MOST_PARTS:
            raise _Malformed(f"more than {MOST_PARTS} parts, or aliases that stand for as many")
        waiting.extend(inner)


def _json(text: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            raise _Malformed(f"a key twice among {', '.join(key for key, _value in items)[:100]}")
        return found

    def constant(name: str) -> NoReturn:
        raise _Malformed(f"{name}, which is no number in JSON")

    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)


def prose(document: Document) -> Iterator[tuple[str, str]]:
    """The texts that people wrote for people in a recipe: path and text."""
    for kind in ("docker", "pip"):
        install = document.get("model", "install", kind)
        note = install.get("note") if isinstance(install, dict) else None
        if isinstance(note, str):
            yield f"model.install.{kind}.note", note
    for name, note in document.mapping("hardware_notes").items():
        body = note.get("body") if isinstance(note, dict) else None
        if isinstance(body, str):
            yield f"hardware_notes.{name}.body", body
    if document.get("guide") is not None:
        yield "guide", document.text("guide")
