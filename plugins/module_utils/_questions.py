# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The five questions that every frozen record opens with (private to the collection).

Pure: short facts go in, each question comes out answered or as ``not measured: why``. The questions are the method's:
which host and devices, which image and build, which command and environment, which stage failed first, what was
active at that moment.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Sequence

SCHEMA = "gpufleet.baseline/five-questions/1"
QUESTIONS = (
    "On which host and GPU devices did the process run?",
    "Which image digest and which build of vLLM?",
    "Which command and environment started it?",
    "Which stage failed first?",
    "Which request or start option was active at that moment?",
)
NOT_MEASURED = "not measured: "
# Control characters, line ends of Unicode, marks that turn the direction of writing, halves of characters.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
WIDTH = 100


@dataclass
class EngineAnswers:
    """One container or process: its name, and one line for each question that it can answer."""

    name: str
    devices: str = ""
    image: str = ""
    build: str = ""
    command: str = ""
    environment: str = ""
    failure: str = ""
    active: str = ""
    # Why an answer above is empty, by its field.
    why: Dict[str, str] = field(default_factory=dict)
    # Whether it failed or hangs.
    failed: bool = False
    # For the fleet's table: image, engine and failure in a few words.
    short: Dict[str, str] = field(default_factory=dict)


@dataclass
class HostAnswers:
    """The host itself, and everything that was frozen on it."""

    host: str
    identity: str
    devices: Sequence[str]
    driver: str
    short: Mapping[str, str]
    engines: Sequence[EngineAnswers]
    no_engine: str
    # What was looked for and not found beside the engines.
    notes: Sequence[str] = ()
    why: Mapping[str, str] = field(default_factory=dict)


def answer(host: HostAnswers) -> List[List[str]]:
    """The lines of each answer, in the order of the questions."""
    where = [host.identity, host.driver or "driver " + _or_why("", host.why.get("driver", ""))]
    where += list(host.devices) or [NOT_MEASURED + host.why.get("devices", "no source was asked")]
    where += ["%s: %s" % (engine.name, _field(engine, "devices")) for engine in host.engines]
    where += [NOT_MEASURED + note for note in host.notes if host.engines]
    lines = [where, [], [], [], []]
    for engine in host.engines:
        lines[1] += [
            "%s: %s" % (engine.name, _field(engine, "image")),
            "  " + (engine.build or "build " + _field(engine, "build")),
        ]
        lines[2] += [
            "%s: %s" % (engine.name, _field(engine, "command")),
            "  " + _field(engine, "environment"),
        ]
        lines[3].append("%s: %s" % (engine.name, _field(engine, "failure")))
        lines[4].append("%s: %s" % (engine.name, _field(engine, "active")))
    for number in range(1, 5):
        lines[number] = lines[number] or [NOT_MEASURED + host.no_engine]
    return [[printable(line) for line in group] for group in lines]


def printable(text: str) -> str:
    """A host's words for a terminal: what would move the cursor, turn the text or is no text stands as its escape."""
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def _or_why(value: str, why: str) -> str:
    return value or NOT_MEASURED + (why or "no source was asked")


def _field(engine: EngineAnswers, name: str) -> str:
    return _or_why(getattr(engine, name), engine.why.get(name, ""))


def render(heading: str, lines: Sequence[Sequence[str]]) -> str:
    """The text at the head of a record."""
    text = [heading, ""]
    for number, (question, answers) in enumerate(zip(QUESTIONS, lines), 1):
        text.append("%d. %s" % (number, question))
        for line in answers:
            indent = 3 + len(line) - len(line.lstrip())
            text += textwrap.wrap(
                line.strip(),
                WIDTH,
                initial_indent=" " * indent,
                subsequent_indent=" " * (indent + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
        text.append("")
    return "\n".join(text)


def document(host: HostAnswers, lines: Sequence[Sequence[str]]) -> Dict[str, Any]:
    """The answers as data; ``short``, ``active`` and ``not_measured`` are for the fleet's screen."""
    missing = ["%s: %s" % (name, why) for name, why in host.why.items()]
    for engine in host.engines:
        missing += ["%s of %s: %s" % (name, engine.name, why) for name, why in engine.why.items()]
    missing[:0] = ["engine: " + note for note in host.notes if host.engines]
    if not host.engines:
        missing.append("engine: " + host.no_engine)
    # On the screen what failed comes before what still runs; all of it stands among the answers.
    failed = [engine for engine in host.engines if engine.failed]
    active = ["%s: %s" % (engine.name, engine.active) for engine in failed or host.engines if engine.active]
    return {
        "schema": SCHEMA,
        "answers": [
            {"question": question, "answer": list(answers)} for question, answers in zip(QUESTIONS, lines)
        ],
        "short": {key: printable(value) for key, value in {**host.short, **_short(host.engines)}.items()},
        "active": printable("; ".join(active)),
        "not_measured": [printable(text) for text in missing],
    }


def _short(engines: Sequence[EngineAnswers]) -> Dict[str, str]:
    """The engines' short answers; different ones of one host stand side by side, those of failed engines first."""
    found: Dict[str, str] = {}
    ranked = sorted(engines, key=lambda engine: not engine.failed)
    for key in ("image", "engine", "failure"):
        values = list(dict.fromkeys(engine.short[key] for engine in ranked if engine.short.get(key)))
        found[key] = " | ".join(values) or ("none" if not engines else "not measured")
    return found
