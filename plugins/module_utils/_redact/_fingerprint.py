# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keyed digests of secrets, to test another host's record for them (private to the collection).

A digest can be found again only where the tester can cut out the same bytes. So what is digested is not the
value but its longest run of letters, digits, ``_`` and ``-``: a reader who cuts a text into such runs meets
it wherever the value stands between other characters, in quotes, behind ``=``, in a URL. The same is done for
the value's base64 and URL forms. A value of letters and digits alone is also met where ``_`` or ``-`` stand
round it. A value without a run of eight cannot be tested, and its entry says so. Digests are HMAC-SHA256
under the key of the reproduction.
"""

from __future__ import annotations

import base64
import hmac
import re
from typing import Any, Iterator
from urllib.parse import quote

RUN_AT_LEAST = 8
RUN = re.compile(rb"[A-Za-z0-9_\-]{8,}")
INNER_RUN = re.compile(rb"[A-Za-z0-9]{8,}")


def digest(key: bytes, run: bytes) -> str:
    """The digest of one run."""
    return hmac.digest(key, b"gpufleet.baseline run\0" + run, "sha256").hex()


def fingerprints(key: bytes, name: str, value: bytes) -> Iterator[dict[str, Any]]:
    """What is told of one value: name, form, length and digest of the run of each form."""
    seen: set[bytes] = set()
    for form, text in _forms(value):
        run = longest_run(text)
        if not run and form == "raw":
            yield {"name": name, "form": "untestable", "length": 0, "digest": ""}
        if run and run not in seen:
            seen.add(run)
            yield {"name": name, "form": form, "length": len(run), "digest": digest(key, run)}


def longest_run(value: bytes) -> bytes:
    """The longest run of a value, the last of equally long ones; empty when it has none of eight."""
    best = b""
    for run in RUN.findall(value):
        if len(run) >= len(best):
            best = run
    return best


def _forms(value: bytes) -> Iterator[tuple[str, bytes]]:
    yield "raw", value
    encoded = base64.b64encode(value).rstrip(b"=")
    yield "base64", encoded
    yield "base64", encoded.replace(b"+", b"-").replace(b"/", b"_")
    yield "URL", quote(value, safe="").encode()
