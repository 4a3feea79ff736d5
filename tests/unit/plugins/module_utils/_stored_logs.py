# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Logs as container runtimes store them, made for the tests, and what is kept of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log import (
    Limits,
    LogSummary,
    collect,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import (
    JSON_FILE,
    decoder_for,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_source import LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor

KEY = b"a key of a reproduction in tests"
TIME = "2026-08-09T10:00:%02d.123456789Z"
VALUE = "cNry7-Vq2LmT9xWz4"


WHOLE = Limits()


def record(message: str, stream: str = "stderr", second: int = 0, attrs: str = "") -> bytes:
    text = json.dumps(message, ensure_ascii=False)
    for character, escape in (("\x1b", "\\u001b"), ("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(character, escape)
    return f'{{"log":{text},"stream":"{stream}",{attrs}"time":"{TIME % (second % 60)}"}}\n'.encode()


def frame(message: bytes, stream: int = 2, second: int = 0) -> bytes:
    payload = (TIME % (second % 60)).encode() + b" " + message
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def kept(
    source: LogSource, limits: Limits = WHOLE, redactor: Redactor | None = None, **options: object
) -> tuple[bytes, LogSummary]:
    target = io.BytesIO()
    summary = collect(source, target, redactor or Redactor(KEY), limits, **options)  # type: ignore[arg-type]
    assert summary.sha256 == hashlib.sha256(target.getvalue()).hexdigest()
    assert summary.bytes_stored == len(target.getvalue())
    return gzip.decompress(target.getvalue()), summary


def of(data: bytes, form: str = JSON_FILE) -> LogSource:
    return LogSource.of_stream(io.BytesIO(data), form)


def of_known_size(data: bytes, form: str = JSON_FILE) -> LogSource:
    return LogSource(form, lambda: iter([data]), len(data))


def decoded(data: bytes, form: str = JSON_FILE, size: int = 1 << 20) -> bytes:
    decoder = decoder_for(form)
    text = b"".join(decoder.feed(data[start : start + size]) for start in range(0, len(data), size))
    return text + decoder.finish()
