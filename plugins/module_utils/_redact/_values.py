# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a value that stands under a secret's name looks like, and which values are worth looking for elsewhere
(private to the collection).
"""

from __future__ import annotations

import re
from typing import Optional
from urllib.parse import unquote_to_bytes

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._names import SURE, secret_kind
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import (
    STAND_IN,
    STAND_IN_START,
)

# Shorter values are removed where a key names them and nowhere else.
LEARN_FROM = 8
# Longer ones are removed where they stand; copies are not looked for.
LEARN_UP_TO = 4096

# Words that say that there is no value, what type it has, or that somebody has hidden it already. OpenAI
# clients send EMPTY where a server asks for no key
# (https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html).
_NO_VALUE = frozenset(
    b"""
    none null nil true false yes no on off 0 1 undefined unset empty default required optional unknown missing
    str string bytes int float bool boolean any object list dict type optional[str] secretstr redacted hidden
    masked nan n/a - -- ... =
    """.split()
)
_MASK = re.compile(rb"(?:[*xX.#_>\-]|\xe2\x80[\xa2\xa6])+\Z")
_REFERENCE = re.compile(
    rb"(?:\$\{[^{}]*\}|\$\([^()]*\)|\$[A-Za-z_][A-Za-z0-9_]*|\{\{.*\}\}"
    rb"|%\([a-z_]+\)s|%s|\{\w*\}|<[a-z][a-z _\-]*>"
    rb"|os\.(?:environ|getenv)\b.*|getenv\(.*|process\.env\..*)\Z"
)
_ATTRIBUTE = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_NUMBER = re.compile(rb"[+-]?[0-9][0-9_,.]*\Z")
_PATH = re.compile(rb"(?:~|\.{1,2})?/[^\s'\"=]*\Z|[A-Za-z]:\\")
_FILE = re.compile(rb"[\w./~\-]+\.(?:pem|key|crt|cer|json|ya?ml|txt|conf|cfg|ini|env|p12|jks)\Z")
_DATE = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,+Z-]*)?\Z")
_ADDRESS = re.compile(
    rb"(?:[a-z+]+://)?(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|localhost|[a-z0-9.\-]{1,253}\.[a-z]{2,63})(?::[0-9]+)?/?\Z"
)
_VARIABLE_NAME = re.compile(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")
_KEY_FILES = frozenset("ssl tls ssh private client server".split())
_COMMON_WORDS = frozenset(
    b"""
    password passw0rd changeme localhost disabled required optional username anonymous production development
    undefined kubernetes container inference external internal automatic auto-detect huggingface moonshotai
    generated available unavailable application authorization authentication credentials configured
    not-configured not-needed placeholder
    """.split()
)


def is_reference(value: bytes, name: str) -> bool:
    """Whether a value is the way to the secret and not the secret: a variable, an attribute."""
    if _REFERENCE.match(value):
        return True
    if value.upper() == name.upper().strip("-").replace("-", "_").encode() and (
        value.isupper() or b"_" in value
    ):
        return True
    if _VARIABLE_NAME.match(value) and secret_kind(value.decode("ascii")) is not None:
        return True  # a list of names, such as HF_TOKEN beside API_KEY
    if not _ATTRIBUTE.match(value):
        return False
    last = value.rsplit(b".", 1)[-1].decode("ascii", "replace")
    return secret_kind(last) is not None


def is_value(value: bytes, name: str, kind: str, quoted: bool) -> bool:
    """Whether a value under a secret's name is taken for a secret."""
    bare = value.strip()
    if not bare or bare.lower() in _NO_VALUE or STAND_IN.fullmatch(bare) or _MASK.match(bare):
        return False
    if is_reference(bare, name):
        return False
    if kind == SURE:
        return True
    if _NUMBER.match(bare) and len(bare) < 16:
        return False
    return quoted or looks_random(bare) or (len(bare) >= 20 and b" " not in bare)


def looks_random(value: bytes) -> bool:
    """Whether a value mixes letters with digits or cases as generated values and few words do."""
    digits = any(48 <= byte <= 57 for byte in value)
    lower = any(97 <= byte <= 122 for byte in value)
    upper = any(65 <= byte <= 90 for byte in value[1:])
    return (lower or upper) and (digits or (lower and upper and not value.istitle()))


def worth_learning(value: bytes, certain: bool) -> bool:
    """Whether a value is looked for everywhere. ``certain``: a document, argv or environment told it."""
    if not LEARN_FROM <= len(value) <= LEARN_UP_TO or len(set(value)) < 4:
        return False
    lowered = value.lower()
    if lowered in _COMMON_WORDS or lowered in _NO_VALUE or STAND_IN_START.rstrip() in value:
        return False
    if _NUMBER.match(value):
        return certain and len(value) >= 12
    for harmless in (_DATE, _ADDRESS, _FILE):
        if harmless.match(value):
            return False
    if _PATH.match(value) and not (looks_random(value) and b"." not in value and b"_" not in value):
        return False
    if certain:
        return True
    return looks_random(value) and not _ATTRIBUTE.match(value) and b" " not in value


def is_path(value: bytes) -> bool:
    """Whether a value is a place in a file system."""
    return bool(_PATH.match(value) or _FILE.match(value)) or b"/" in value.strip(b"/")


def key_file(words: list[str]) -> bool:
    """Whether a name that ends in "key" is commonly that of a file: ``ssl_key``, ``--ssh-key``."""
    return len(words) > 1 and words[-1] == "key" and words[-2] in _KEY_FILES


def percent_decoded(value: bytes) -> bytes:
    """A piece of a URL without its percent escapes."""
    return unquote_to_bytes(value) if b"%" in value else value


def json_unescaped(value: bytes, quote: Optional[bytes]) -> bytes:
    """A quoted value without its backslash escapes; as it is when they are none that we know."""
    if b"\\" not in value or quote is None:
        return value
    return _ESCAPE.sub(_unescaped, value)


_ESCAPE = re.compile(rb"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_SHORT = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    if len(code) == 1:
        return _SHORT.get(code, code)
    if code[:1] == b"x":
        return bytes([int(code[1:], 16)])
    return chr(int(code[1:], 16)).encode("utf-8", "surrogatepass")
