# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls of the machine's own docker client."""

from __future__ import annotations

import subprocess


class DockerError(RuntimeError):
    """A docker command failed; the text is the command and what it said."""


def docker(*args: str, stdin: str | bytes | None = None, timeout: float = 600) -> str:
    """Run one docker command and return what it prints; anything but exit 0 is an error."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(["docker", *args], input=data, capture_output=True, timeout=timeout, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise DockerError(f"docker {' '.join(args[:6])} ended with {done.returncode}: {said}")
    return done.stdout.decode(errors="replace")


def names(kind: str, label: str) -> list[str]:
    """Names of the containers, networks or volumes that carry the label."""
    field = "{{.Names}}" if kind == "container" else "{{.Name}}"
    every = ["--all"] if kind == "container" else []
    return docker(kind, "ls", *every, "--filter", f"label={label}", "--format", field).split()
