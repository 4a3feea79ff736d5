# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which names name a secret (private to the collection).

A name (of an environment variable, a flag, a JSON key, a header) is split into words, and the words decide.
Nothing here looks at values. Digits in a name never decide: lines that differ in digits alone must be judged
alike.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Optional

# A sure name: whatever stands under it is taken for a secret.
SURE = "sure"
# A weak name: it also names harmless things, so the value must look like a secret.
WEAK = "weak"

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DIGITS = str.maketrans("", "", "0123456789")
_BREAK = re.compile(r"[^A-Za-z]+")
_ENVIRONMENT = re.compile(r"[A-Z0-9_]*[A-Z][A-Z0-9_]*\Z")

_SURE_WORDS = frozenset(
    """
    password passwords passwd passwds passphrase passphrases passcode secret secrets credential
    credentials apikey apikeys accesskey secretkey privatekey authkey accountkey sharedaccesskey
    signingkey encryptionkey masterkey authtoken apitoken accesstoken bearertoken refreshtoken
    sessiontoken securitytoken identitytoken registrytoken hftoken clientsecret requirepass masterauth
    userpass sshpass authorization setcookie htpasswd userpwd accesskeyid secretaccesskey awsaccesskeyid
    userpassword rootpassword
    """.split()
)
_SURE_ENDINGS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
)
_WEAK_WORDS = frozenset("auth pwd jwt cookie cookies bearer".split())
# What stands before "key" when the key is a secret.
_KEY_QUALIFIERS = frozenset(
    """
    api access secret private auth account shared signing sign encryption decryption crypto session master
    license subscription deploy service storage ssh admin ngc wandb openai anthropic hf huggingface aws s
    gcp azure app application consumer write webhook hmac jwt root vault unseal recovery management ssl
    tls client server fernet bot project team user org
    """.split()
)
_HARMLESS_KEYS = frozenset(
    """
    public primary foreign cache partition sort routing map hash group row index join registry metric
    label object store dict lookup shortcut hot idempotency dedup block prompt attribute field pub
    """.split()
)
# What stands before "pass" when it is short for password; otherwise it is a compiler's or a forward pass.
_PASS_QUALIFIERS = frozenset(
    """
    db database user admin root redis mysql postgres pg smtp imap ldap mail email ssh proxy http ftp
    registry docker git login basic auth my mongo rabbitmq bind ipmi bmc
    """.split()
)
# What stands before "tokens" when these are secrets and not pieces of text.
_TOKENS_QUALIFIERS = frozenset("auth api access secret refresh bearer user hf personal registry".split())
# What stands before "token" when it is a piece of text: marks of a tokenizer, counts, times per token.
_TEXT_TOKENS = frozenset(
    """
    bos eos pad unk sep cls mask image img video audio speech stop special first per next last prev draft
    output input prompt new generated start end begin think thinking reasoning tool tools each added
    current media placeholder text num max min total sampled target accepted rejected bonus verified
    completion cached batch single one inter context decode decoder prefill expert experts moe top invalid
    unexpected control eot eom eoh fim prefix suffix middle forced add ignore skip is has with by use
    response content role turn function call vision patch latent mm multimodal blank newline separator
    delimiter continuation noise tokenizer
    """.split()
)
# Words behind the secret's own word that leave it a secret.
_TOLERATED = frozenset(
    """
    value values b base plain plaintext raw prod production dev staging test old new default secondary
    main rw ro read write key keys secret token password data
    """.split()
)
# Words behind it that make the name one of something about the secret.
_ABOUT = frozenset(
    """
    path paths file files filename dir directory name names type types url uri uris endpoint host port
    count counts limit len length size max min num number ttl expiry expires expiration expire timeout
    header headers enabled enable disabled provider providers mode policy algorithm alg algo issuer
    version format arn ref reference field prefix suffix label index class store backend manager mount
    namespace scope scopes realm method strategy validator hash rotation interval latency rate usage
    budget plugin config error errors required server service domain status time times module helper
    command cmd ids idx per plus jar policies engine middleware
    """.split()
)
# "token_id", "token_ids": the line filter leaves such lines aside by the same pattern.
_TOKEN_INDEX = re.compile(r"[a-f]*i[a-f]*s?[a-f]*\Z")
_LOCATIONS = frozenset("path paths file files filename dir directory".split())


def words_of(name: str) -> list[str]:
    """The words of a name in lower case: ``HF_TOKEN``, ``hf-token`` and ``hfToken`` are ``hf token``."""
    return [
        word.lower() for part in _BREAK.split(name.translate(_DIGITS)) for word in _CAMEL.split(part) if word
    ]


@lru_cache(maxsize=8192)
def secret_kind(name: str) -> Optional[str]:
    """``SURE``, ``WEAK`` or None for a name. A name longer than 128 characters names nothing."""
    if len(name) > 128 or name in ("PWD", "OLDPWD"):
        return None
    words = words_of(name)
    anywhere = bool(_ENVIRONMENT.match(name))
    kinds = {
        _kind_at(words, index, anywhere) for index in range(len(words)) if _stays(words, index, anywhere)
    }
    return SURE if SURE in kinds else (WEAK if WEAK in kinds else None)


@lru_cache(maxsize=8192)
def names_location(name: str) -> bool:
    """Whether a name is that of a secret's place (``HF_TOKEN_PATH``): no secret when it is a path."""
    words = words_of(name)
    return len(words) > 1 and words[-1] in _LOCATIONS and secret_kind(name[: _last_word_at(name)]) is not None


def about_secret(name: str) -> bool:
    """Whether a name tells something about a secret: its type, its place, when it ends."""
    words = words_of(name)
    return bool(words) and words[-1] in _ABOUT


def _last_word_at(name: str) -> int:
    """Where the last word starts; behind the name's end when digits stand in that word."""
    return name.lower().rfind(words_of(name)[-1]) % (len(name) + 1)


def _kind_at(words: list[str], index: int, environment: bool) -> Optional[str]:
    word = words[index]
    before = words[index - 1] if index else ""
    if word in _SURE_WORDS:
        return SURE
    if word in ("token", "tokens"):
        return _token_kind(word, before)
    if word in ("key", "keys"):
        return _key_kind(before, environment)
    if word == "pass":
        return SURE if before in _PASS_QUALIFIERS else (WEAK if environment and before else None)
    if word in ("id", "data") and before == "key":
        # access_key_id, client-key-data
        return SURE if index > 1 and _key_kind(words[index - 2], False) else None
    if word in _WEAK_WORDS:
        return WEAK
    return _joined_kind(word)


def _joined_kind(word: str) -> Optional[str]:
    """The kind of a word that is several words written as one: ``PGPASSWORD``, ``mytoken``."""
    if word.endswith(_SURE_ENDINGS):
        return SURE
    return WEAK if word.endswith("token") and word[:-5] not in _TEXT_TOKENS else None


def _token_kind(word: str, before: str) -> Optional[str]:
    if word == "tokens":
        return SURE if before in _TOKENS_QUALIFIERS else None
    if before in _TEXT_TOKENS:
        return None
    return SURE if before else WEAK


def _key_kind(before: str, environment: bool) -> Optional[str]:
    if before in _KEY_QUALIFIERS:
        return SURE
    return SURE if environment and before and before not in _HARMLESS_KEYS else None


def _stays(words: list[str], index: int, environment: bool) -> bool:
    """Whether the words behind a secret's own word leave it a secret."""
    rest = words[index + 1 :]
    if not rest:
        return True
    if words[index] == "token" and _TOKEN_INDEX.match(rest[0]):
        return False
    if rest[-1] in _ABOUT:
        return False
    return environment or all(word in _TOLERATED for word in rest)
