# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container that behaves as a host: run things on it."""

from __future__ import annotations

import io
import shlex
import subprocess
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from .docker_cli import DockerError, docker


@dataclass
class Result:
    """What a command on a host ended with."""

    rc: int
    out: str
    err: str


@dataclass
class Machine:
    """One host. Its number counts from 1; address and network belong to its lab."""

    container: str
    number: int
    address: str
    network: str

    @property
    def name(self) -> str:
        """Name in the inventory, and the host's own."""
        return f"n{self.number}"

    def run(
        self,
        argv: list[str],
        *,
        user: str = "root",
        stdin: bytes = b"",
        check: bool = True,
        timeout: float = 120,
    ) -> Result:
        """Run a command on the host, beside Ansible and ssh."""
        command = ["docker", "exec", "-i", "-u", user, self.container, *argv]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
        out, err = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
        if check and done.returncode:
            what = shlex.join(argv)[:120]
            raise DockerError(f"{what} on {self.name} ended with {done.returncode}: {(err or out).strip()}")
        return Result(done.returncode, out, err)

    def sh(self, script: str, *, check: bool = True) -> Result:
        """Run a shell script on the host."""
        return self.run(["sh", "-s"], stdin=script.encode(), check=check)

    def put(self, path: str, content: str | bytes, *, mode: int = 0o644) -> None:
        """Write a file on the host."""
        data = content.encode() if isinstance(content, str) else content
        self.run(["tar", "-x", "-C", "/", "-f", "-"], stdin=archive({path: data}, mode=mode))

    def docker(self, *args: str, check: bool = True, timeout: float = 120) -> Result:
        """The host's own docker."""
        return self.run(["docker", *args], check=check, timeout=timeout)

    def load_image(self, image: str) -> None:
        """Bring an image of the machine's docker into the host's docker, unless it is there already."""
        wanted = docker("image", "inspect", "-f", "{{.Id}}", image).strip()
        if self.docker("image", "inspect", "-f", "{{.Id}}", image, check=False).out.strip() == wanted:
            return
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            load = ["docker", "exec", "-i", self.container, "docker", "load", "-q"]
            subprocess.run(load, stdin=saved.stdout, check=True, capture_output=True)

    def wait(self) -> None:
        """Until sshd, and dockerd where the host has one, answer."""
        has_docker = self.run(["printenv", "LAB_DOCKER"], check=False).out.strip() != "no"
        ready = "ss -Hltn sport = :22 | grep -q ." + (
            " && docker version >/dev/null 2>&1" if has_docker else ""
        )
        wait_for(lambda: not self.sh(ready, check=False).rc, f"{self.name} to be up")


def wait_for(true: Callable[[], bool], what: str, *, seconds: float = 30) -> None:
    """Ask again until it is true; the error says what did not come."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)


def archive(files: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    """A tar stream of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode, member.mtime = len(data), mode, int(time.time())
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
