# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""New lines of a rank's log without its secrets (private to the collection).

What redaction learned is kept from poll to poll in the rank's state directory (0700), which goes with the rank,
and nowhere else: a value that a line gave away is removed from all lines after it, too.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any, Dict, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils import _watch_log
from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import LogOrigin
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import SKIPPED, ProbeFailure, Reading
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import parse_arguments
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank


def read_log(
    rank: Rank,
    inspect: Optional[Mapping[str, Any]],
    socket: str,
    cursor: Mapping[str, Any],
    final: bool,
    key: bytes,
    secrets: Mapping[str, str],
) -> Reading:
    """The text that came since the cursor; ``final`` takes an unfinished last line as well."""
    if rank.container and inspect is None:
        raise ProbeFailure(SKIPPED, "the Engine did not tell where the log of %s is" % rank.describe())
    origin = LogOrigin.of_file(rank.log) if inspect is None else LogOrigin.of_container(inspect, socket)
    gain = _watch_log.follow(origin, cursor, final)
    redactor = Redactor(key)
    vocabulary = Vocabulary(rank)
    redactor.learn_known(vocabulary.load())
    _learn_start(redactor, rank, inspect)
    redactor.learn_environment(dict(secrets))
    for name, value in secrets.items():
        redactor.learn(value.encode("utf-8", "surrogatepass"), name)
    before = redactor.generation
    text, unfinished = redactor.redact_bytes(gain.text), redactor.redact_bytes(gain.unfinished)
    if redactor.generation != before:
        vocabulary.save(redactor.known())
    return Reading(
        {
            "text": text.decode("utf-8", "replace"),
            "unfinished": unfinished.decode("utf-8", "replace"),
            "cursor": gain.cursor,
            "more": gain.more,
            "gap": gain.gap,
            "size": gain.size,
        },
        source=origin.describe(),
    )


def _learn_start(redactor: Redactor, rank: Rank, inspect: Optional[Mapping[str, Any]]) -> None:
    """Secrets in how the rank was started."""
    if inspect is not None:
        config = inspect.get("Config") or {}
        redactor.learn_environment(list(config.get("Env") or []))
        redactor.learn_argv([*(config.get("Entrypoint") or []), *(config.get("Cmd") or [])])
        return
    for name, learn in (("environ", redactor.learn_environment), ("cmdline", redactor.learn_argv)):
        try:
            with open("/proc/%d/%s" % (rank.pid, name), "rb") as stream:
                learn(parse_arguments(stream.read(4 * 1024 * 1024)))
        except OSError:
            continue  # over already: what was learned before stands in the vocabulary


class Vocabulary:
    """Values that the redactor has learned of a rank, between two polls."""

    def __init__(self, rank: Rank) -> None:
        name = "watch-%d.json" % rank.number
        self._path = os.path.join(rank.state_directory, name) if rank.state_directory else ""

    def load(self) -> Dict[bytes, str]:
        """The values; none where nothing could be kept."""
        if not self._path:
            return {}
        try:
            with open(self._path, "rb") as stream:
                return {base64.b64decode(value, validate=True): str(name) for value, name in json.load(stream)}
        except (OSError, ValueError, TypeError, binascii.Error):
            return {}

    def save(self, known: Mapping[bytes, str]) -> None:
        """Keep the values, for root's or the login's eyes only."""
        if not self._path:
            return
        text = json.dumps([[base64.b64encode(value).decode(), name] for value, name in known.items()])
        part = self._path + ".part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(text)
            os.replace(part, self._path)
        except OSError:
            return  # the state directory is gone: the rank is being stopped
