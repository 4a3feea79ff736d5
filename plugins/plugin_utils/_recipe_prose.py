# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the limits that a recipe tells in sentences only (private to the collection, controller only).

Pure. The recipes name driver branch, CUDA build, image and GPU count in notes and guides, for example
https://github.com/vllm-
project/recipes/blob/8959cf64189c71d36e11c6a30335f923f261b1f7/models/moonshotai/Kimi-K3.yaml Every find
carries its place and its sentence, so that a person can check it. A sentence that only mentions a version
("on an r575 host, upgrade") is no limit; one that allows an alternative ("append -cu129 for 12.9 hosts") is
none either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

DRIVER, CUDA, IMAGE, GPUS = "driver_branch", "cuda", "image", "gpu_count"

# A full stop ends a sentence only before a blank and a capital, a quote or the end: "0.27.1" goes on.
_SENTENCE_END = re.compile(r"(?<=[.;!?])\s+(?=[A-Z\"`*(\[-]|$)|\n+")

_DRIVER_FLOORS = (
    re.compile(r"(?i)\br(\d{3})\s?(?:\+|or (?:newer|later|above|higher))"),
    re.compile(r"(?i)\bdriver(?: version| branch)?\s*(?:>=|≥|at least|from)\s*r?(\d{3})(?:\.\d+)*\b"),
    re.compile(
        r"(?i)\bdriver(?: version| branch)?:?\s*r?(\d{3})(?:\.\d+)*\s?(?:\+|or (?:newer|later|above|higher))"
    ),
    re.compile(r"(?i)\b(\d{3})(?:\.\d+)*\s?\+\s*(?:nvidia )?driver"),
)
_CUDA_FLOORS = (
    re.compile(r"\bCUDA (?P<major>\d{2})(?:\.(?P<minor>\d+))? \(cu(?P<build>\d{3})\) (?:build )?only"),
    re.compile(
        r"(?i)\b(?:only as|only the) (?:a )?cu(?P<build>\d{3})\b|\bcu(?P<build2>\d{3}) (?:build )?only\b"
    ),
    re.compile(
        r"(?i)\bCUDA\W{0,4}(?P<major>\d{2})(?:\.(?P<minor>\d+|x))?\s?(?:\+|or (?:newer|later|above|higher))"
    ),
    re.compile(r"(?i)\bCUDA (?:toolkit )?(?:>=|≥) ?(?P<major>\d{2})(?:\.(?P<minor>\d+))?"),
)
# What holds only for people who build it themselves is no limit of the image.
_CONDITION = re.compile(r"(?i)\bif (?:you )?build(?:ing)?\b")
_GPUS = re.compile(
    r"(?i)\b(?:at least|minimum(?: of)?|requires?(?: at least)?)\s+(\d{1,4})\s?[x\u00d7]\s?"
    r"((?:[A-Z]{1,3}\d{2,4}[A-Z]?)(?:/[A-Z]{1,3}\d{2,4}[A-Z]?)*)"
)
_IMAGE = re.compile(
    r"\bvllm/vllm-(?P<kind>openai|omni)(?P<brand>[-_](?:rocm|cpu|xpu|tpu)[\w-]*)?"
    r"(?P<tag>:\w[\w.-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)


@dataclass(frozen=True)
class Find:
    """A limit told in a sentence: which, its value, where, the sentence, and for which GPUs (empty: all)."""

    limit: str
    value: str
    where: str
    sentence: str
    gpus: tuple[str, ...] = ()


def find(texts: Iterable[tuple[str, str]]) -> list[Find]:
    """All limits in texts that are given with their places."""
    found: list[Find] = []
    for where, text in texts:
        for sentence in _sentences(text):
            for limit, value, gpus in _limits(sentence):
                found.append(Find(limit, value, where, sentence[:300], gpus))
    return found


def _sentences(text: str) -> Iterator[str]:
    for part in _SENTENCE_END.split(text):
        sentence = " ".join(part.split())
        if sentence:
            yield sentence


def _limits(sentence: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    branches = {int(hit.group(1)) for pattern in _DRIVER_FLOORS for hit in pattern.finditer(sentence)}
    for branch in sorted(branches):
        yield DRIVER, str(branch), ()
    # The first pattern is the most exact one; the others would find its parts again.
    for pattern in () if _CONDITION.search(sentence) else _CUDA_FLOORS:
        hits = [_cuda(hit.groupdict()) for hit in pattern.finditer(sentence)]
        if hits:
            yield CUDA, max(hits, key=_as_numbers), ()
            break
    for hit in _GPUS.finditer(sentence):
        yield GPUS, hit.group(1), tuple(name.lower() for name in hit.group(2).split("/"))
    for hit in _IMAGE.finditer(sentence):
        # Text that goes on after the name names a variable part or a file, not an image.
        if hit.group("tag") or hit.group("digest"):
            yield IMAGE, hit.group().rstrip("."), ()


def _cuda(groups: dict[str, str | None]) -> str:
    build = groups.get("build") or groups.get("build2")
    if build:
        return f"{build[:2]}.{build[2:]}"
    minor = groups.get("minor")
    return f"{groups['major']}.{minor if minor and minor.isdigit() else 0}"


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
