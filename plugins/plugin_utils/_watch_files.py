# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a watch in the run: events, logs, the common deadline (private to the collection, controller only).

Every watch appends to its own files and reads those of its siblings; nobody writes to another one's. An event is one
line of JSON, written at once, so that a reader sees whole lines or waits for the rest.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import (
    read_json,
    safe_name,
    sync_directory,
)

WATCH, LOGS = "watch", "logs"
DEADLINE = "deadline"


def events_path(run: Path, host: str, rank: int) -> Path:
    """The events of a rank."""
    return run / WATCH / f"{safe_name(host)}-{rank}.jsonl"


def log_path(run: Path, host: str, rank: int) -> Path:
    """The log of a rank while it is watched; with ``.gz`` behind it afterwards."""
    return run / LOGS / f"{safe_name(host)}-{rank}.log"


class Events:
    """Appends events to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def append(self, event: dict[str, Any]) -> None:
        """Write one event."""
        text = json.dumps(event, sort_keys=True, ensure_ascii=False, separators=(",", ":")) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, text.encode("utf-8", "backslashreplace"))
        finally:
            os.close(descriptor)


class Tail:
    """The events that came since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        """New whole lines; one that is no event is left out."""
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self._offset)
                data = stream.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [event for event in map(_event, whole.splitlines()) if event]

    def age(self, now: float) -> float | None:
        """Seconds since something was written; None before anything was."""
        try:
            return now - self.path.stat().st_mtime
        except FileNotFoundError:
            return None


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    whole = isinstance(event, dict) and "kind" in event and isinstance(event.get("time"), (int, float))
    return event if whole else {}


class RankLogFile:
    """The redacted log of a rank, growing while it is watched, compressed in the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A watch that begins once more goes on with what an earlier one of this run has kept.
        packed = Path(f"{path}.gz")
        if packed.exists() and not path.exists():
            with gzip.open(packed, "rb") as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            path.chmod(0o600)

    def append(self, text: str) -> None:
        """Add lines."""
        if text:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "ab") as stream:
                stream.write(text.encode("utf-8", "surrogateescape"))

    def pack(self) -> Path:
        """Compress it; the plain file goes when the other one is whole."""
        packed = Path(f"{self.path}.gz")
        part = Path(f"{packed}.part")
        self.path.touch(0o600)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with (
            open(self.path, "rb") as source,
            os.fdopen(descriptor, "wb") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as target,
        ):
            shutil.copyfileobj(source, target)
        part.replace(packed)
        sync_directory(packed.parent)
        self.path.unlink()
        return packed


def shared_deadline(run: Path, seconds: float, now: float | None = None) -> tuple[float, bool]:
    """The moment (Unix time) by which the group must be ready, and whether it was set just now.

    The first watch of a run sets it, all others take it: the ranks wait for one another, so their time is one.
    """
    directory = run / WATCH
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / DEADLINE
    part = directory / f"{DEADLINE}.{os.getpid()}.part"
    moment = (time.time() if now is None else now) + seconds
    part.write_text(f"{moment:.3f}\n", "ascii")
    try:
        os.link(part, path)
    except FileExistsError:
        return _read_deadline(path), False
    finally:
        part.unlink(missing_ok=True)
    return moment, True


def _read_deadline(path: Path) -> float:
    try:
        return float(path.read_text("ascii"))
    except (OSError, ValueError) as error:
        raise BaselineError(f"expected a time in {path}, found: {error}; begin a new run") from error


def launch_ranks(run: Path) -> list[dict[str, Any]]:
    """The ranks of the run's launch; none where it has no launch."""
    path = run / "launch.json"
    if not path.exists():
        return []
    document = read_json(path)
    ranks = document.get("ranks") if isinstance(document, dict) else None
    return [rank for rank in ranks or [] if isinstance(rank, dict) and "host" in rank]
