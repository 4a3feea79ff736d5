# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run directory on the controller (private to the collection, controller only).

A reproduction is one investigation, a run one attempt in it. A run is never overwritten: its number is taken by making
its directory, which succeeds for one caller only. Until a run is closed its state is ``collecting``; a run that was
interrupted keeps that state and is thereby seen to be unfinished.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

SCHEMA = "gpufleet.baseline/run/1"
COLLECTING, COMPLETE, PARTIAL, LEAK = "collecting", "complete", "partial", "leak"
KEY_FILE = ".redaction-key"
WORK_DIRECTORY = ".work"
CHECKSUMS = "SHA256SUMS"
BLOCK = 1024 * 1024

_RUN_NAME = re.compile(r"^run-(\d{3,})$")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")


@dataclass(frozen=True)
class Run:
    """One run: its directory, below that of its reproduction."""

    path: Path

    @property
    def name(self) -> str:
        """Such as run-001."""
        return self.path.name

    @property
    def reproduction(self) -> Path:
        """The directory of the investigation."""
        return self.path.parent

    def record(self, host: str) -> Path:
        """Where a host's sealed record belongs."""
        return self.path / "hosts" / (safe_name(host) + ".tar.gz")

    @property
    def work_directory(self) -> Path:
        """What the hosts' tasks leave for the closing of the run; removed then."""
        return self.path / WORK_DIRECTORY

    def work(self, host: str) -> Path:
        """What one host's tasks leave."""
        return self.work_directory / (safe_name(host) + ".json")

    def document(self) -> dict[str, Any]:
        """The content of run.json."""
        found: dict[str, Any] = read_json(self.path / "run.json")
        return found

    def key(self) -> bytes:
        """The key of this reproduction's stand-ins."""
        return read_key(self.reproduction)


def safe_name(host: str) -> str:
    """A file name for an inventory name: other bytes than letters, digits, ``_``, ``.`` and ``-`` as %XX."""
    name = "".join(
        character if _PLAIN.match(character) else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in host
    )
    return "%2E" + name[1:] if name.startswith(".") else name


def today() -> str:
    """The name of a reproduction that begins today (UTC)."""
    return "repro-" + datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")


def now() -> str:
    """The time (UTC) as it stands in documents."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def controller_identity(pid: int) -> str:
    """A controller process as ``pid started-tick``, so that a reused number is another one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return str(pid)
    return f"{pid} {stat.rpartition(') ')[2].split()[19]}"


def make_reproduction(reproduction: Path) -> None:
    """The directory of an investigation and its key, unless they are there already."""
    try:
        reproduction.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BaselineError(
            f"expected to make the reproduction directory {reproduction}, found: {error.strerror}; "
            "choose another place for the reproduction"
        ) from error
    make_key(reproduction)


def open_run(reproduction: Path, controller: str, begin: dict[str, Any]) -> Run:
    """The run of this controller process in a reproduction: the one it has open already, or a new one."""
    make_reproduction(reproduction)
    existing = runs(reproduction)
    for run in existing:
        if _opened_by(run, controller):
            return run
    number = max([int(run.name.partition("-")[2]) for run in existing], default=0)
    while True:
        number += 1
        path = reproduction / f"run-{number:03d}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue  # another controller took this number
        except OSError as error:
            raise BaselineError(f"expected to make {path}, found: {error.strerror}") from error
        break
    (path / "hosts").mkdir(mode=0o700)
    (path / WORK_DIRECTORY).mkdir(mode=0o700)
    document = {
        "schema": SCHEMA,
        "run": path.name,
        "reproduction": reproduction.name,
        "state": COLLECTING,
        "started": now(),
        "ended": "",
        "controller": {"process": controller},
        "hosts": {},
        **begin,
    }
    write_json(path / "run.json", document)
    return Run(path)


def finish(run: Run, kind: str, told: dict[str, Any]) -> None:
    """Close a run that was opened for this kind of work. Of another's run it is a part, and that one closes it."""
    document = run.document()
    if document.get("kind") == kind:
        document.update(told)
    else:
        document.setdefault("parts", {})[kind] = told
    write_json(run.path / "run.json", document)


def runs(reproduction: Path) -> list[Run]:
    """All runs of a reproduction, by number."""
    found = [Run(path) for path in reproduction.iterdir() if _RUN_NAME.match(path.name) and path.is_dir()]
    return sorted(found, key=lambda run: int(run.name.partition("-")[2]))


def _opened_by(run: Run, controller: str) -> bool:
    try:
        document = run.document()
    except BaselineError:
        return False  # another controller is just making it, or it was damaged; it is left as it is
    if not isinstance(document, dict) or not isinstance(document.get("controller"), dict):
        return False
    return document.get("state") == COLLECTING and document["controller"].get("process") == controller


def make_key(reproduction: Path) -> None:
    """Write the reproduction's key when it has none, readable by the owner alone."""
    path = reproduction / KEY_FILE
    part = reproduction / f"{KEY_FILE}.{secrets.token_hex(8)}"
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_hex(32) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.link(part, path)
    except FileExistsError:
        return
    except OSError as error:
        raise BaselineError(f"expected to write {path}, found: {error.strerror}") from error
    finally:
        # A read-only file system refuses this too, and the first refusal is the one to tell.
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def read_key(reproduction: Path) -> bytes:
    """The reproduction's key; an error when it is missing or damaged, never a new one."""
    path = reproduction / KEY_FILE
    try:
        text = path.read_text("ascii").strip()
        key = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise BaselineError(
            f"expected 64 hexadecimal digits in {path}, found: {error}; begin a new reproduction"
        ) from error
    if len(key) != 32:
        raise BaselineError(
            f"expected 64 hexadecimal digits in {path}, found {len(text)}; begin a new reproduction"
        )
    return key


def read_json(path: Path) -> Any:
    """A JSON document of a run."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BaselineError(f"expected a JSON document in {path}, found: {error}") from error


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document, whole or not at all."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    # Half a character, as in a file name that is no text, keeps the form it has in JSON.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file (0600), whole or not at all, also when the machine loses power."""
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename in a directory last."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: Path) -> str:
    """A file's sha256, in constant memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def verify_command(run: Run) -> str:
    """The command that checks the checksums of a run, ready to paste."""
    return f"cd {shlex.quote(str(run.path))} && sha256sum -c {CHECKSUMS}"


def write_checksums(run: Run, known: dict[Path, str]) -> None:
    """SHA256SUMS over every file of the run, in the form of coreutils; ``known`` spares reading large files again."""
    lines = []
    for path in sorted(run.path.rglob("*")):
        relative = path.relative_to(run.path)
        if path.is_file() and relative.name != CHECKSUMS and relative.parts[0] != WORK_DIRECTORY:
            lines.append(f"{known.get(path) or sha256_of(path)}  {relative}\n")
    write_bytes(run.path / CHECKSUMS, "".join(lines).encode())
