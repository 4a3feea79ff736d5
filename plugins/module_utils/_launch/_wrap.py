# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A command for a shell on short lines, that is still one command when it is pasted (private; pure)."""

from __future__ import annotations

import shlex
from typing import List, Sequence

COLUMNS = 100
# A line that goes on ends in a blank and a backslash.
_TAIL = 2
_INDENT = "  "


def wrapped(texts: Sequence[str], columns: int = COLUMNS) -> str:
    """Texts that are ready for a shell, as one command on lines of at most so many columns.

    A flag stays with its value where both fit. A word that is longer than a line goes on at the very beginning of
    the next one, where the shell puts its parts together again.
    """
    room = columns - _TAIL
    lines: List[str] = []
    line = ""
    for item in _items([token for text in texts for token in tokens(text)]):
        text = " ".join(item)
        if line and len(line) + 1 + len(text) <= room:
            line += " " + text
        elif not line and not lines and len(text) <= room:
            line = text
        elif len(_INDENT) + len(text) <= room:
            lines += [line + " \\"] if line else []
            line = _INDENT + text
        else:
            lines += [line + " \\"] if line else []
            *done, line = _long(item, room)
            lines += done
    return "\n".join([*lines, line])


def tokens(text: str) -> List[str]:
    """The words of a text as they are written there, with their quotes."""
    found: List[str] = []
    start, quote = 0, ""
    for at, sign in enumerate(text):
        if quote:
            # Only in $'...' can the quote itself be escaped.
            if sign == quote[-1] and not (quote == "$'" and _is_escaped(text, at)):
                quote = ""
        elif sign in "'\"":
            quote = "$'" if text[:at].endswith("$") and sign == "'" else sign
        elif sign == " ":
            found.append(text[start:at])
            start = at + 1
    return [word for word in [*found, text[start:]] if word]


def _is_escaped(text: str, at: int) -> bool:
    before = text[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _items(words: Sequence[str]) -> List[List[str]]:
    """Each flag with what follows it."""
    items: List[List[str]] = []
    for word in words:
        if items and items[-1][0].startswith("-") and len(items[-1]) == 1 and not word.startswith("-"):
            items[-1].append(word)
        else:
            items.append([word])
    return items


def _long(item: Sequence[str], room: int) -> List[str]:
    """An item that is longer than a line: each word on its own, and those that are still too long in parts."""
    lines: List[str] = []
    for number, word in enumerate(item):
        if number:
            lines[-1] += " \\"
        if len(_INDENT) + len(word) <= room or '"$' in word or word.startswith("$'"):
            lines.append(_INDENT + word)
            continue
        *parts, last = _parts(shlex.split(word)[0], room - len(_INDENT))
        lines += [(_INDENT if not at else "") + part + "\\" for at, part in enumerate(parts)]
        lines.append(last)
    return lines


def _parts(word: str, room: int) -> List[str]:
    parts: List[str] = []
    part = ""
    for sign in word:
        if part and len(shlex.quote(part + sign)) > room:
            parts.append(shlex.quote(part))
            part = ""
        part += sign
    return [*parts, shlex.quote(part)]
