# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of libraries that travels with a task (private to the collection, controller only).

Built once for each version of meta/carried-requirements.txt from the releases named there, checked by
their sha256, and kept in the user's cache directory. The releases are taken from the directory named by
GPUFLEET_CARRIED_WHEELS when it is set (a controller without network), and by pip otherwise.
"""

from __future__ import annotations

import base64
import fcntl
import functools
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

LOCK_FILE = Path(__file__).resolve().parents[2] / "meta" / "carried-requirements.txt"
WHEELS_VARIABLE = "GPUFLEET_CARRIED_WHEELS"

# No TLS is used between our clients and a host's own sockets, and the real certifi unpacks a file.
CERTIFI_STUB = 'def where():\n    return ""\n\n\ndef contents():\n    return ""\n'

_REQUIREMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})$"
)


@dataclass(frozen=True)
class Requirement:
    """One pinned release; ``sha256`` is that of its wheel."""

    name: str
    version: str
    sha256: str

    @property
    def wheel_prefix(self) -> str:
        """How the wheel's file name begins (https://packaging.python.org/en/latest/specifications/binary-distribution-format/)."""
        return re.sub(r"[-_.]+", "_", self.name).lower() + "-" + self.version + "-"


def read_requirements(text: str) -> list[Requirement]:
    """The pinned releases of a lock file's text; any other line is an error."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _REQUIREMENT.match(line.strip())
        if match is None:
            raise BaselineError(
                f"carried requirements line {number}: expected NAME==VERSION --hash=sha256:..., found {line!r}"
            )
        found.append(Requirement(**match.groupdict()))
    return found


def build_archive(requirements: Iterable[Requirement], wheels: Path) -> bytes:
    """The zip archive of all Python files of the wheels in a directory, each wheel checked by its sha256."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        _add(archive, "certifi.py", CERTIFI_STUB.encode())
        for requirement in requirements:
            content = _read_wheel(requirement, wheels)
            with zipfile.ZipFile(io.BytesIO(content)) as wheel:
                for name in sorted(wheel.namelist()):
                    if name.endswith(".py") and ".dist-info/" not in name:
                        _add(archive, name, wheel.read(name))
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    # A fixed time makes equal inputs give equal archives.
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)


def _read_wheel(requirement: Requirement, wheels: Path) -> bytes:
    found = [path for path in wheels.glob("*.whl") if path.name.lower().startswith(requirement.wheel_prefix)]
    if not found:
        raise BaselineError(
            f"expected the wheel of {requirement.name} {requirement.version} in {wheels}, found none; "
            f"fetch it with: pip download --no-deps -d {wheels} {requirement.name}=={requirement.version}"
        )
    content = found[0].read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != requirement.sha256:
        raise BaselineError(
            f"{found[0]}: expected sha256 {requirement.sha256}, found {digest}; fetch the file again"
        )
    return content


def cache_directory() -> Path:
    """Where the built archive is kept: below XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpufleet-baseline"


def _download(wheels: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += [
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--python-version",
        "3.9",
        "--implementation",
        "py",
    ]
    command += ["--abi", "none", "--platform", "any", "--dest", str(wheels), "--requirement", str(LOCK_FILE)]
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise BaselineError(
            f"expected to download the libraries of {LOCK_FILE}, found: {detail[-1] if detail else error}; without "
            f"network, put their wheels into a directory and name it in the environment variable {WHEELS_VARIABLE}"
        ) from error


@functools.lru_cache(maxsize=1)
def carried_archive() -> str:
    """The archive as base64 text, from the cache or built now."""
    lock_text = LOCK_FILE.read_text("utf-8")
    requirements = read_requirements(lock_text)
    cache = cache_directory()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = cache / f"carried-{hashlib.sha256(lock_text.encode()).hexdigest()[:16]}.zip"
    # Several hosts of a play ask at once; the first one builds, the others wait.
    with open(cache / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _write(kept, _build(requirements))
    return base64.b64encode(kept.read_bytes()).decode("ascii")


def _build(requirements: list[Requirement]) -> bytes:
    given = os.environ.get(WHEELS_VARIABLE)
    if given:
        return build_archive(requirements, Path(given))
    with tempfile.TemporaryDirectory() as wheels:
        _download(Path(wheels))
        return build_archive(requirements, Path(wheels))


def _write(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
