# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read sealed records (private to the collection, controller only)."""

from __future__ import annotations

import gzip
import json
import tarfile
import zlib
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

# facts.json of a host with many containers is some hundred kilobytes.
DOCUMENT_LIMIT_BYTES = 64 * 1024 * 1024


def read_document(record: Path, member: str) -> Any:
    """A JSON member of a record; those that stand first in it are read without unpacking the rest."""
    try:
        with gzip.open(record) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for info in archive:
                if info.name != member:
                    continue
                if info.size > DOCUMENT_LIMIT_BYTES:
                    raise BaselineError(f"{record}: expected {member} below 64 MiB, found {info.size} bytes")
                stream = archive.extractfile(info)
                if stream is not None:
                    return json.loads(stream.read())
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError) as error:
        raise BaselineError(
            f"{record}: expected a sealed record, found: {error}; check it with SHA256SUMS"
        ) from error
    raise BaselineError(
        f"{record}: expected the member {member}, found none; this is not a record of a freeze"
    )
