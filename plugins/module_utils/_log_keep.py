# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode and keep one log (private to the collection)."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, Callable, Dict, Iterator

from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import JSON_FILE, MULTIPLEXED, LogOrigin
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor


@dataclass
class KeptLog:
    bytes_seen: int = 0
    bytes_kept: int = 0
    lines: int = 0

    def as_dict(self) -> Dict[str, Any]:
        return asdict(self)


def decoded(origin: LogOrigin) -> Iterator[bytes]:
    rest = b""
    if origin.form == JSON_FILE:
        for block in origin.blocks():
            *lines, rest = (rest + block).split(b"\n")
            yield b"".join(_entry(line) for line in lines)
        if rest:
            yield _entry(rest)
    elif origin.form == MULTIPLEXED:
        for block in origin.blocks():
            rest += block
            out = []
            while len(rest) >= 8:
                size = int.from_bytes(rest[4:8], "big")
                if len(rest) < 8 + size:
                    break
                name = b"stderr" if rest[0] == 2 else b"stdout"
                stamp, _s, text = rest[8 : 8 + size].partition(b" ")
                out.append(stamp + b" " + name + b" " + text)
                rest = rest[8 + size :]
            yield b"".join(out)
    else:
        yield from origin.blocks()


def _entry(line: bytes) -> bytes:
    try:
        entry = json.loads(line)
        return ("%s %s %s" % (entry["time"], entry["stream"], entry["log"])).encode("utf-8", "surrogatepass")
    except (ValueError, KeyError, TypeError):
        return line + b"\n"


def learn_log(origin: LogOrigin, redactor: Redactor) -> None:
    redactor.learn_text(decoded(origin))


def keep_log(origin: LogOrigin, target: BinaryIO, redactor: Redactor, limit: int, feed: Callable[[bytes], Any]) -> KeptLog:
    kept = KeptLog()
    stream = redactor.stream()
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)

    def put(block: bytes) -> None:
        feed(block)
        kept.bytes_kept += len(block)
        kept.lines += block.count(b"\n")
        target.write(packer.compress(block))

    for block in decoded(origin):
        kept.bytes_seen += len(block)
        put(stream.feed(block))
    put(stream.finish())
    target.write(packer.flush())
    target.flush()
    return kept
