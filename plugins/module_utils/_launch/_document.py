# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a JSON document part by part, each with its place (private to the collection; pure).

A part of another kind than expected is an error that names the document, the place and what was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, NoReturn, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


@dataclass(frozen=True)
class Part:
    """One mapping of a document, and where in the document it stands."""

    values: Dict[str, Any]
    document: str
    place: str = ""

    def known(self, names: Sequence[str]) -> None:
        """Refuse a key that has no meaning here: it would be dropped without a word."""
        strange = sorted(set(self.values) - set(names))
        if strange:
            self.wrong(f"no key but {', '.join(names)}", strange[0], "")

    def text(self, key: str, default: Optional[str] = None) -> str:
        """A text."""
        value = self._value(key, default)
        if not isinstance(value, str):
            self.wrong("a text", value, key)
        return value

    def choice(self, key: str, choices: Sequence[str], default: Optional[str] = None) -> str:
        """A text out of a few."""
        value = self.text(key, default)
        if value not in choices:
            self.wrong(f"one of {', '.join(choices)}", value, key)
        return value

    def number(self, key: str, default: Optional[int] = None, least: int = 0) -> int:
        """A whole number."""
        value = self._value(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.wrong(f"a whole number from {least}", value, key)
        return value

    def number_or_none(self, key: str, least: int = 0) -> Optional[int]:
        """A whole number, or None where there is none."""
        return None if self.values.get(key) is None else self.number(key, least=least)

    def flag(self, key: str, default: Optional[bool] = None) -> bool:
        """True or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            self.wrong("true or false", value, key)
        return value

    def texts(self, key: str, default: Optional[Sequence[str]] = None) -> List[str]:
        """A list of texts."""
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            self.wrong("a list of texts", value, key)
        return list(value)

    def mapping(self, key: str, default: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """A mapping with text keys."""
        value = self._value(key, default)
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            self.wrong("a mapping", value, key)
        return dict(value)

    def part(self, key: str) -> Part:
        """A mapping as a part of its own."""
        return Part(self.mapping(key), self.document, self._at(key))

    def part_or_none(self, key: str) -> Optional[Part]:
        """A mapping as a part of its own, or None where there is none."""
        return None if self.values.get(key) is None else self.part(key)

    def parts(self, key: str, default: Optional[Sequence[Any]] = None) -> List[Part]:
        """A list of mappings."""
        value = self._value(key, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, dict) for item in value):
            self.wrong("a list of mappings", value, key)
        return [Part(item, self.document, f"{self._at(key)}[{number}]") for number, item in enumerate(value)]

    def wrong(self, expected: str, found: Any, key: str) -> NoReturn:
        """Raise the error for a part that is not as expected."""
        kind = "nothing" if found is None else f"{type(found).__name__} {str(found)[:60]!r}"
        place = self._at(key) if key else self.place or "its top"
        raise BaselineError(f"{self.document}: expected {expected} at {place}, found {kind}")

    def _value(self, key: str, default: Any) -> Any:
        return self.values.get(key, default)

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key
