# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller writes into a run, without the group's secrets (private to the collection, controller only).

The operator's note may hold a value that a host keeps under a name. The controller never sees that value: it knows
the keyed digests that the hosts returned, cuts a text into the runs of characters that digests are made of, and puts
the stand-in of the records in the place of each run that some host knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._fingerprint import (
    INNER_RUN,
    RUN,
    digest,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._standin import (
    STAND_IN,
    stand_in,
    tag,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import Run, read_json


class GroupSecrets:
    """Redacts texts of the controller: by names and forms, and by the digests of every host."""

    def __init__(self, key: bytes, digests: Iterable[Mapping[str, Any]] = ()) -> None:
        self._key = key
        self._redactor = Redactor(key)
        self._names = {entry["digest"]: str(entry["name"]) for entry in digests if entry.get("digest")}

    def redact(self, document: Any) -> Any:
        """A text, or nested lists and mappings of texts, of the same shape."""
        return self._known_to_hosts(self._redactor.redact_value(document))

    def redact_text(self, text: str) -> str:
        """A text such as a JSON body; its keys are read as names."""
        redacted: str = self._known_to_hosts(self._redactor.redact_text(text))
        return redacted

    def _known_to_hosts(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._without_runs(value.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        if isinstance(value, Mapping):
            return {key: self._known_to_hosts(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._known_to_hosts(item) for item in value]
        return value

    def _without_runs(self, text: bytes) -> bytes:
        if not self._names:
            return text
        pieces, end = [], 0
        for made in STAND_IN.finditer(text):
            pieces += [RUN.sub(self._replaced, text[end : made.start()]), made.group()]
            end = made.end()
        return b"".join([*pieces, RUN.sub(self._replaced, text[end:])])

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        """The stand-in of a run that a host knows; else the run, without those within it."""
        whole = self._stand_in(match.group())
        return whole or INNER_RUN.sub(
            lambda inner: self._stand_in(inner.group()) or inner.group(), match.group()
        )

    def _stand_in(self, run: bytes) -> bytes:
        name = self._names.get(digest(self._key, run))
        return b"" if name is None else stand_in(name, tag(self._key, run))


def host_digests(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The keyed digests that each host of a run that is not closed yet returned, by inventory name."""
    found = {}
    for path in sorted(run.work_directory.glob("*.json")):
        document = read_json(path)
        found[str(document["host"])] = list(document.get("digests") or [])
    return found


def group_secrets(run: Run) -> GroupSecrets:
    """For the texts of a run, with all that its hosts have returned so far."""
    return GroupSecrets(run.key(), [entry for entries in host_digests(run).values() for entry in entries])
