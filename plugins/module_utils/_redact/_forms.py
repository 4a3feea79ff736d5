# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that their own form gives away: tokens with a known beginning, keys in PEM, credentials in URLs and
behind an authentication scheme (private to the collection).

Beginnings of tokens after their makers' pages: Hugging Face
(https://huggingface.co/docs/hub/security-tokens), GitHub
(https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github),
GitLab (https://docs.gitlab.com/security/tokens/), AWS
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html), Slack
(https://docs.slack.dev/authentication/tokens), JWT (https://www.rfc-editor.org/rfc/rfc7519), NVIDIA
(https://docs.nvidia.com/ngc/latest/ngc-user-guide.html), Vault
(https://developer.hashicorp.com/vault/docs/concepts/tokens).
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Iterator, NamedTuple, Optional, Pattern

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import STAND_IN, Span
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._values import (
    is_reference,
    looks_random,
    percent_decoded,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._wrap import WRAP, after_wrap


class Form(NamedTuple):
    """A known form: its name, a literal that is always in it, and its pattern with the secret as group 1."""

    name: str
    literals: tuple[bytes, ...]
    pattern: Pattern[bytes]
    # The whole length, where all tokens of this form have the same: a shorter one at a line's end was
    # wrapped.
    length: int = 0


_B = rb"(?<![A-Za-z0-9])"
_W = rb"[A-Za-z0-9_\-]"


def _form(name: str, literals: str, pattern: bytes, length: int = 0) -> Form:
    return Form(name, tuple(literals.encode().split()), re.compile(_B + rb"(" + pattern + rb")"), length)


FORMS = (
    _form("HuggingFace-token", "hf_ api_org_", rb"(?:hf|api_org)_[A-Za-z0-9]{8,}", 37),
    _form("GitHub-token", "ghp_ gho_ ghu_ ghs_ ghr_", rb"gh[pousr]_[A-Za-z0-9]{16,}", 40),
    _form("GitHub-token", "github_pat_", rb"github_pat_[A-Za-z0-9_]{20,}"),
    _form(
        "GitLab-token",
        "glpat- gldt- glrt- glcbt- glptt- gloas-",
        rb"gl(?:pat|dt|rt|cbt|ptt|oas)-" + _W + rb"{12,}",
    ),
    _form("NVIDIA-key", "nvapi-", rb"nvapi-" + _W + rb"{12,}"),
    _form(
        "API-key",
        "sk- sk_live_ sk_test_ rk_live_ rk_test_",
        rb"(?:sk-|[sr]k_(?:live|test)_)" + _W + rb"{12,}",
    ),
    _form("AWS-access-key", "AKIA ASIA", rb"A[KS]IA[A-Z2-7]{16}(?![A-Za-z0-9])", 20),
    _form("Slack-token", "xox", rb"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}"),
    _form("JWT", "eyJ", rb"eyJ[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]{4,}"),
    _form("Google-key", "AIza", rb"AIza" + _W + rb"{30,}", 39),
    _form("Google-token", "ya29.", rb"ya29\." + _W + rb"{20,}"),
    _form("npm-token", "npm_", rb"npm_[A-Za-z0-9]{20,}", 40),
    _form("Docker-token", "dckr_pat_ dckr_oat_", rb"dckr_[po]at_" + _W + rb"{12,}"),
    _form("PyPI-token", "pypi-AgEI", rb"pypi-AgEI" + _W + rb"{20,}"),
    _form("Vault-token", "hvs. hvb. hvr.", rb"hv[sbr]\." + _W + rb"{20,}"),
    _form("WandB-key", "wandb_v", rb"wandb_v[0-9]_" + _W + rb"{20,}"),
    _form(
        "API-key", "gsk_ r8_ xai- pplx- tvly- lsv2_", rb"(?:gsk_|r8_|xai-|pplx-|tvly-|lsv2_)" + _W + rb"{16,}"
    ),
    _form("DigitalOcean-token", "dop_v1_ doo_v1_", rb"do[op]_v1_[a-f0-9]{32,}"),
    _form("SendGrid-key", "SG.", rb"SG\." + _W + rb"{16,}\." + _W + rb"{16,}"),
    _form("age-key", "AGE-SECRET-KEY-", rb"AGE-SECRET-KEY-[A-Z0-9]{20,}"),
)
# The secret that goes with an AWS key id, right behind it and without a name.
_AWS_SECRET = re.compile(rb"[\"'\s:,;/|=]{1,4}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])")
_WORDS_ONLY = re.compile(rb"[a-z_\-]+\Z")
_TOKEN_CHARACTERS = re.compile(rb"[A-Za-z0-9_\-]*")


def known_forms(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Tokens with a known beginning that start in ``[start, end)``."""
    for form in FORMS:
        for literal in form.literals:
            for match in _matches(form.pattern, text, literal, start, end):
                yield from _form_spans(text, form, match)


def _matches(
    pattern: Pattern[bytes], text: bytes, literal: bytes, start: int, end: int
) -> Iterator[re.Match[bytes]]:
    """Matches that begin with the literal in ``[start, end)`` and may reach behind it, none within another."""
    position = text.find(literal, start, end)
    while position >= 0:
        match = pattern.match(text, position)
        if match:
            yield match
        position = text.find(literal, max(position + 1, match.end() if match else 0), end)


def _form_spans(text: bytes, form: Form, match: re.Match[bytes]) -> Iterator[Span]:
    value, stop = match.group(1), match.end(1)
    tail = value.split(b"_", 1)[-1] if b"_" in value[:12] else value[3:]
    if _WORDS_ONLY.match(tail):
        # hf_transformers, sk-learn: a name in a program.
        return
    goes_on = after_wrap(text, stop) if form.length > len(value) else None
    if goes_on is not None:
        rest = _TOKEN_CHARACTERS.match(text, goes_on)
        if rest and len(rest.group()) == form.length - len(value):
            value, stop = value + rest.group(), rest.end()
    yield Span(match.start(1), stop, form.name, value, "known form")
    secret = _AWS_SECRET.match(text, stop) if form.name == "AWS-access-key" else None
    if secret:
        yield Span(secret.start(1), secret.end(1), "AWS-secret-key", secret.group(1), "known form")


# scheme://user:password@host; a password may hold "@" itself, so the last one before the host counts
# (https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1).
_URL = re.compile(rb"://([^\s/?#\"'<>`\\@:]{0,256})(?::([^\s/?#\"'<>`\\]{1,16384}))?@(?=[A-Za-z0-9\[_$%{])")


def url_credentials(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Passwords, and tokens in the place of a user, in URLs that start in ``[start, end)``."""
    for match in _matches(_URL, text, b"://", start, end):
        user, password = match.group(1), match.group(2)
        if password is not None:
            if not is_reference(password, "password"):
                yield Span(match.start(2), match.end(2), "URL-password", percent_decoded(password), "URL")
            if len(user) < 20:
                continue
        if (len(user) >= 20 or (len(user) >= 12 and looks_random(user))) and not is_reference(user, "user"):
            yield Span(match.start(1), match.end(1), "URL-user", percent_decoded(user), "URL")


# https://curl.se/docs/manpage.html#-u, as one line or as a list of arguments; health checks are written so.
_CURL_USER = re.compile(
    rb"""(?<![A-Za-z0-9])curl(?=[\s"'])[^\n]{0,400}?[\s"'](?:-[uU]|--(?:proxy-)?user)"""
    rb"""(?:["'],\s?|[ =]{0,2})(?:\\?["'])?[^\s:"'\\]{1,64}:(?!<redacted )([^\s"'\\]{1,256})"""
)
_SCHEME = re.compile(rb"(?<![A-Za-z0-9])(bearer|basic)(?:[ \t]{1,8}|%20|\+)(?:\\?[\"'])?", re.IGNORECASE)
_CREDENTIAL = re.compile(rb"[A-Za-z0-9._~+/\-]{6,}={0,2}")


def scheme_credentials(text: bytes, start: int, end: int) -> Iterator[Span]:
    """What stands behind ``Bearer`` and ``Basic`` (https://www.rfc-editor.org/rfc/rfc6750, rfc7617), and curl's -u."""
    for user in _CURL_USER.finditer(text, start, end):
        if not is_reference(user.group(1), "password"):
            yield Span(user.start(1), user.end(1), "password", user.group(1), "curl")
    for scheme in _SCHEME.finditer(text, start, end):
        found = _CREDENTIAL.match(text, scheme.end())
        if not found:
            continue
        value = found.group().rstrip(b".")
        stop = found.start() + len(value)
        if scheme.group(1).lower() == b"basic":
            if _user_and_password(value) is not None:
                yield Span(found.start(), stop, "Basic", value, "scheme")
        elif looks_random(value) or len(value) >= 20:
            yield Span(found.start(), stop, "Bearer", value, "scheme")


def _user_and_password(encoded: bytes) -> Optional[bytes]:
    try:
        decoded = base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
        decoded.decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return decoded if b":" in decoded else None


def password_within(encoded: bytes) -> Optional[bytes]:
    """The password of ``user:password`` in base64, as Basic and Docker's ``auth`` write it."""
    decoded = _user_and_password(encoded) if len(encoded) >= 8 else None
    return decoded.split(b":", 1)[1] if decoded else None


# Textual keys: https://www.rfc-editor.org/rfc/rfc7468; in one line the line ends are written as escapes.
PEM_START = b"-----BEGIN "
PEM_LABEL = re.compile(rb"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
PEM_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(rb"[A-Za-z0-9+/]{16,}={0,2}|(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n\\]*")
_PEM_LAST_LINE = re.compile(rb"[A-Za-z0-9+/]{2,}={0,2}(?![A-Za-z0-9])")
_PEM_REACH = 16384
_LINE_END = re.compile(rb"(?:\\+r)?\\+n|\s+")
_SPACES = re.compile(rb"\s*")
_PEM_IN_BASE64 = re.compile(
    rb"LS0tLS1CRUdJTi[A-Za-z0-9+/]{12,}={0,2}(?:(?:" + WRAP.pattern + rb")[A-Za-z0-9+/]{32,}={0,2})*"
    rb"(?:(?:" + WRAP.pattern + rb")[A-Za-z0-9+/]{1,76}={0,2}(?=\r?\n|\Z))?"
)


def pem_keys(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Private keys in PEM that start in ``[start, end)``; one without an end goes as far as its body does."""
    for match in _matches(PEM_LABEL, text, PEM_START, start, end):
        closing = PEM_END.search(text, match.end(), match.end() + _PEM_REACH)
        stop = closing.start() if closing else _pem_body_end(text, match.end())
        body = text[match.end() : stop]
        if body.strip() and not STAND_IN.fullmatch(body.strip()):
            yield Span(match.end(), stop, "private-key", _LINE_END.sub(b"", body), "PEM")


def _pem_body_end(text: bytes, position: int) -> int:
    while True:
        gap = WRAP.match(text, position) or _SPACES.match(text, position)
        inner = gap.end() if gap else position
        line = _PEM_LINE.match(text, inner)
        if not line:
            last = _PEM_LAST_LINE.match(text, inner)
            return last.end() if last else position
        position = line.end()


def pem_in_base64(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Private keys in PEM that were encoded once more, as Kubernetes does."""
    for match in _matches(_PEM_IN_BASE64, text, b"LS0tLS1CRUdJTi", start, end):
        head = match.group()[:64]
        if b"PRIVATE KEY" in base64.b64decode(head[: len(head) // 4 * 4]):
            yield Span(match.start(), match.end(), "private-key", match.group(), "PEM")
