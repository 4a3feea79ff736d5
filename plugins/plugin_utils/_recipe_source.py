# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a recipe file from a path or URL, and says what was read (private to the collection, controller
only).

The only place of the recipe reader that touches the world. What is read is never trusted: it has a size
limit, and its sha256, its time and its commit (where that can be known) go into every document made from
it.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit

from ansible.module_utils.urls import ConnectionError as UrlConnectionError
from ansible.module_utils.urls import open_url
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

# The largest recipe of August 2026 is below 100 kB.
LIMIT_BYTES = 8 * 1024 * 1024
DEADLINE_SECONDS = 20
GIT_DEADLINE_SECONDS = 10

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_COMMIT = re.compile(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")


class RecipeUnreachable(BaselineError):
    """The recipe could not be asked for: no network, no name, no answer. A pin may stand in for it."""


@dataclass(frozen=True)
class Source:
    """One file as it was read."""

    location: str
    content: bytes = field(repr=False)
    read_at: str
    commit: str = ""
    commit_note: str = ""

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def as_dict(self) -> dict[str, str]:
        """What documents say of the file."""
        return {
            "location": shown(self.location),
            "sha256": self.sha256,
            "read_at": self.read_at,
            "commit": self.commit,
            "commit_note": self.commit_note,
        }


def is_url(location: str) -> bool:
    """Whether a location is fetched over the network."""
    return _scheme(location) in ("http", "https")


def shown(location: str) -> str:
    """A location without what may be a secret in it: user, password, query."""
    if not is_url(location):
        return location
    parts = urlsplit(location)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def read(location: str) -> Source:
    """Read a file from a path or URL; an error when it is missing, empty or too large."""
    if not location.strip():
        raise BaselineError(
            "expected the path or URL of a recipe, found an empty text; name the recipe to read"
        )
    scheme = _scheme(location)
    if scheme in ("http", "https"):
        return _checked(location, _fetch(location), *_commit_of_url(location))
    if scheme not in ("", "file"):
        raise BaselineError(
            f"expected a path or an http(s) URL, found the scheme {scheme} in {shown(location)}"
        )
    path = Path(unquote(urlsplit(location).path) if scheme else location).expanduser().absolute()
    return _checked(str(path), _read_file(path), *_commit_of_file(path))


def _scheme(location: str) -> str:
    found = _SCHEME.match(location)
    return found.group(1).lower() if found else ""


def _checked(location: str, content: bytes, commit: str, note: str) -> Source:
    if len(content) > LIMIT_BYTES:
        raise BaselineError(f"{shown(location)}: expected a recipe of at most 8 MiB, found more")
    if not content.strip():
        raise BaselineError(f"{shown(location)}: expected a recipe, found an empty file")
    moment = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Source(location, content, moment, commit, note)


def _read_file(path: Path) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise BaselineError(f"{path}: expected a recipe, found: {error.strerror}; check the path") from error


def _fetch(url: str) -> bytes:
    try:
        with open_url(url, timeout=DEADLINE_SECONDS, http_agent="gpufleet.baseline") as answer:
            content: bytes = answer.read(LIMIT_BYTES + 1)
            return content
    except HTTPError as error:
        message = f"{shown(url)}: expected a recipe, found HTTP status {error.code}"
        if error.code >= 500 or error.code == 429:
            raise RecipeUnreachable(f"{message}; try again later") from error
        raise BaselineError(f"{message}; check the URL") from error
    except (URLError, UrlConnectionError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise RecipeUnreachable(f"{shown(url)}: expected an answer, found: {reason}") from error


def _commit_of_url(url: str) -> tuple[str, str]:
    found = _COMMIT.search(urlsplit(url).path)
    if found:
        return found.group(), ""
    return "", "the URL names no commit; the sha256 tells one version from another"


def _commit_of_file(path: Path) -> tuple[str, str]:
    """The last commit that changed the file, where it lies in a git checkout and is as committed."""
    commit = _git(path, "log", "-1", "--format=%H", "--", path.name)
    if commit is None or not _COMMIT.fullmatch(commit):
        return (
            "",
            "the file is not in a git checkout that can be read; the sha256 tells one version from another",
        )
    changed = _git(path, "status", "--porcelain", "--", path.name)
    if changed is None or changed:
        return commit, "the file differs from this commit"
    return commit, ""


def _git(path: Path, *arguments: str) -> str | None:
    """Standard output of one git question about a file; None when it cannot be answered."""
    try:
        asked = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(path.parent), *arguments],
            capture_output=True,
            text=True,
            timeout=GIT_DEADLINE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
