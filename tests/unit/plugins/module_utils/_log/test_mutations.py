# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Worked logs cut, shuffled, thinned, wrapped and littered: never an exception, never sure and wrong."""

from __future__ import annotations

import json
import random
import re

import pytest

from . import worked

CASES = worked.load()
pytestmark = pytest.mark.skipif(not CASES, reason=worked.MISSING)

_PROCESS = re.compile(rb"\([A-Za-z]\w* pid=\d+")
_LITTER = (
    b'(APIServer pid=1) INFO:     10.0.0.5:41234 - "GET /health HTTP/1.1" 200 OK',
    b"(Worker pid=9999) INFO 08-09 10:00:00 [cuda.py:480] Using FLASH_ATTN attention backend out of potential ones",
    b"(APIServer pid=1) WARNING 08-09 10:00:00 [system_utils.py:299] Found ulimit of 20000 and failed to increase",
    b"nanobind: leaked 4 instances!",
    b"\x00\xff\xfe binary \x80 text",
    b"",
    b"error: failed to be an error",
    b"2026-08-09 10:00:00,123 - INFO - autotuner.py:1 - flashinfer.jit: tuning",
)


def _lines(text: bytes) -> list[bytes]:
    return text.split(b"\n")


def cut_head(lines: list[bytes], dice: random.Random) -> list[bytes]:
    return lines[dice.randrange(len(lines)) :]


def cut_tail(lines: list[bytes], dice: random.Random) -> list[bytes]:
    kept = lines[: dice.randrange(len(lines))]
    if kept:
        kept[-1] = kept[-1][: dice.randrange(len(kept[-1]) + 1)]
    return kept


def thin(lines: list[bytes], dice: random.Random) -> list[bytes]:
    share = dice.choice((0.02, 0.1, 0.4))
    return [line for line in lines if dice.random() > share]


def interleave(lines: list[bytes], dice: random.Random) -> list[bytes]:
    """Another order of the processes' lines; every process keeps its own order."""
    queues: dict[bytes, list[bytes]] = {}
    for line in lines:
        match = _PROCESS.match(line)
        queues.setdefault(match.group(0) if match else b"", []).append(line)
    order = [name for name, queue in queues.items() for _line in queue]
    for _swap in range(len(order)):
        place = dice.randrange(max(1, len(order) - 1))
        order[place : place + 2] = reversed(order[place : place + 2])
    return [queues[name].pop(0) for name in order]


def litter(lines: list[bytes], dice: random.Random) -> list[bytes]:
    found = list(lines)
    for _line in range(max(3, len(lines) // 10)):
        found.insert(dice.randrange(len(found) + 1), dice.choice(_LITTER))
    return found


def wrap_compose(lines: list[bytes], _dice: random.Random) -> list[bytes]:
    return [b"vllm-1  | " + line for line in lines]


def wrap_cri(lines: list[bytes], _dice: random.Random) -> list[bytes]:
    return [b"2026-08-09T10:00:00.%09dZ stderr F " % number + line for number, line in enumerate(lines)]


def wrap_docker(lines: list[bytes], _dice: random.Random) -> list[bytes]:
    return [
        json.dumps(
            {
                "log": line.decode("utf-8", "replace") + "\n",
                "stream": "stderr",
                "time": f"2026-08-09T10:00:00.{number:09}Z",
            }
        ).encode()
        for number, line in enumerate(lines)
    ]


def unprefix(lines: list[bytes], _dice: random.Random) -> list[bytes]:
    """As 0.32 writes them: a prefix only where a log record follows."""
    return [re.sub(rb"^(\([A-Za-z]\w* pid=\d+\) )+(?!\w+ \d\d-\d\d )", b"", line) for line in lines]


DESTROYING = (cut_head, cut_tail, thin, interleave, litter)
REWRITING = (wrap_compose, wrap_cri, wrap_docker, unprefix)


def _already_wrapped(case: worked.Case) -> bool:
    return any(text.startswith(b'{"') for text in case.texts) or any(
        source.kind == "kernel" for source in case.sources
    )


@pytest.mark.parametrize("mutate", DESTROYING, ids=lambda mutate: mutate.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_never_sure_and_wrong(case: worked.Case, mutate) -> None:
    for seed in range(6):
        dice = random.Random(f"{case.name} {seed}")
        texts = [b"\n".join(mutate(_lines(text), dice)) for text in case.texts]
        verdict = case.judge(texts)
        if verdict["confidence"] == "high":
            claim = (verdict["stage"], verdict["failure_class"])
            assert verdict["stage"] in case.stages, claim
            assert verdict["failure_class"] in case.classes, claim


@pytest.mark.parametrize("mutate", REWRITING, ids=lambda mutate: mutate.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_another_wrapping_changes_nothing(case: worked.Case, mutate) -> None:
    if mutate is not unprefix and _already_wrapped(case):
        return  # a wrapping inside another is not what any runtime writes
    texts = [b"\n".join(mutate(_lines(text.rstrip(b"\n")), random.Random(0))) for text in case.texts]
    verdict = case.judge(texts)
    assert verdict["stage"] in case.stages
    assert verdict["failure_class"] in case.classes
    first = case.expect["first_error_line"]
    if first is not None and mutate is not unprefix:
        assert first <= verdict["line"] <= case.expect["exception_line"]
