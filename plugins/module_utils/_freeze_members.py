# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The members of a record while it is made: each one redacted, or left out and named (private to the collection)."""

from __future__ import annotations

import re
import zlib
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils import _seal
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._staging import Spool, Staging

BLOCK = 256 * 1024


class Members:
    """Collects members; what cannot be redacted or written stays out, and stands in the manifest with its reason."""

    def __init__(self, staging: Staging, redactor: Redactor) -> None:
        self._staging = staging
        self._redactor = redactor
        self._members: Dict[str, _seal.Member] = {}
        self._generations: Dict[str, int] = {}
        self.left_out: Dict[str, str] = {}

    def add_probes(self, answers: Mapping[str, Probe]) -> None:
        """The raw evidence of every probe that has a place for it."""
        for name, probe in answers.items():
            if probe.member and probe.raw:
                self._add(
                    probe.member, probe.raw, name, {"outcome": probe.outcome, "cut_bytes": probe.cut_bytes}
                )

    def add_files(self, files: Mapping[str, bytes], origin: str) -> None:
        """Texts of our own."""
        for path, content in files.items():
            self._add(path, content, origin, {})

    def add_json(self, path: str, document: Any, origin: str) -> None:
        """A document of our own; redacted by its keys, which know more than its text."""
        content = self._redacted(path, lambda: _seal.json_bytes(self._redactor.redact_value(document)))
        if content is not None:
            self._store(path, [content], origin, {})

    def add_redacted(self, path: str, content: Spool, origin: str, details: Mapping[str, Any]) -> None:
        """Content that was redacted already, such as a container's log."""
        path = self._free_path(path)
        self._generations[path] = self._redactor.generation
        self._members[path] = _seal.Member(path, content, origin, dict(details))

    def refresh(self) -> None:
        """Redact once more what was written before the last secret was learned."""
        for path, member in list(self._members.items()):
            if self._generations[path] != self._redactor.generation:
                self._again(path, member)

    def leave_out(self, found: Iterable[str]) -> None:
        """Take members out in which the second look found a secret."""
        for path in found:
            member = self._members.pop(path, None)
            if member is not None:
                member.content.close()
                self.left_out[path] = "a secret was found in it after sealing"

    def replace_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest over all other members."""
        old = self._members.pop(_seal.MANIFEST, None)
        if old is not None:
            old.content.close()
        members = _seal.manifest_members(list(self._members.values()))
        # Sizes, checksums and counts are ours and stay as they are; words of the host are redacted.
        document = {
            **self._redactor.redact_value(dict(manifest)),
            "members": members,
            "left_out": self.left_out,
        }
        document["coverage"] = manifest["coverage"]
        self._store(_seal.MANIFEST, [_seal.json_bytes(document)], "manifest", {})

    def all(self) -> List[_seal.Member]:
        """The members as they are now."""
        return list(self._members.values())

    def _add(self, path: str, content: bytes, origin: str, details: Mapping[str, Any]) -> None:
        redacted = self._redacted(path, lambda: self._redactor.redact_bytes(content))
        if redacted is not None:
            self._store(path, [redacted], origin, details)

    def _redacted(self, path: str, redact: Any) -> Optional[bytes]:
        """The redacted content; None when redaction failed, for then nothing of it may leave the host."""
        try:
            result: bytes = redact()
        # Whatever went wrong, a fault of ours included, the raw text must not be kept instead.
        except Exception as error:  # noqa: BLE001
            reason = "it could not be redacted (%s)" % type(error).__name__
            try:
                self.left_out[self._path(path)] = reason
            except Exception:  # noqa: BLE001 - not even its name
                self.left_out["unnamed"] = reason
            return None
        return result

    def _store(self, path: str, blocks: Iterable[bytes], origin: str, details: Mapping[str, Any]) -> None:
        path = self._free_path(path)
        spool = self._staging.spool()
        try:
            for block in blocks:
                for start in range(0, len(block), BLOCK):
                    spool.write(block[start : start + BLOCK])
        except OSError as error:
            spool.close()
            self.left_out[path] = "it could not be written: %s" % error.strerror
            return
        self._generations[path] = self._redactor.generation
        self._members[path] = _seal.Member(path, spool, origin, dict(details))

    def _again(self, path: str, member: _seal.Member) -> None:
        spool = self._staging.spool()
        stream = self._redactor.stream()
        packer = zlib.compressobj(1, zlib.DEFLATED, 31) if _seal.is_compressed(path) else None
        try:
            for block in _seal.unpacked(member.content.open(), packer is not None):
                ready = stream.feed(block)
                spool.write(packer.compress(ready) if packer else ready)
            rest = stream.finish()
            spool.write(packer.compress(rest) + packer.flush() if packer else rest)
        except OSError as error:
            spool.close()
            self.left_out[path] = "it could not be written again: %s" % error.strerror
            del self._members[path]
        else:
            member.content, spool = spool, member.content
            self._generations[path] = self._redactor.generation
        spool.close()

    def _path(self, path: str) -> str:
        """A path inside of the record, without secrets and without a way out of it."""
        parts = [part for part in self._redactor.redact_name(path).split("/") if part not in ("", ".", "..")]
        # Control characters, and bytes of a file name that are no text.
        return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", "_", "/".join(parts)) or "unnamed"

    def _free_path(self, path: str) -> str:
        path = free = self._path(path)
        number = 1
        while free in self._members:
            number += 1
            free = "%s.%d" % (path, number)
        return free
