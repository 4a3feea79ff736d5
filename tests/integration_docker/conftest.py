# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Docker Engine, an image made of this machine's own files, containers removed afterwards."""

from __future__ import annotations

import io
import json
import secrets
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

PREFIX = "gpufleet-test-"
PROGRAMS = ("dash", "sleep", "cat", "env", "ls", "rm", "touch", "mkdir", "stat", "hostname", "head", "yes")
IMAGE_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "CUDA_VERSION": "13.0.2",
    "OF_THE_IMAGE": "one two",
}
DISTRIBUTIONS = {
    "vllm": "0.27.1",
    "torch": "2.13.0+cu130",
    "nvidia_nccl_cu13": "2.28.9",
    "flashinfer_python": "0.6.2",
    "nvidia_cuda_runtime": "13.0.96",
}
PACKAGES = "usr/local/lib/python3.12/dist-packages"


class Docker:
    """The docker client, and the names of what has to be removed."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def __call__(self, *args: str, stdin: bytes | None = None) -> str:
        done = subprocess.run(["docker", *args], input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, f"docker {args}: {done.stderr.decode()}"
        return done.stdout.decode().strip()

    def name(self, kind: str = "container") -> str:
        """A new name, removed with what bears it at the end of the test."""
        name = PREFIX + secrets.token_hex(4)
        self.made.append((kind, name))
        return name

    def inspect(self, name: str, kind: str = "container") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(kind, "inspect", name))[0]
        return found

    def remove(self, kind: str, name: str) -> None:
        forced = ["--force"] if kind in ("container", "image", "volume") else []
        volumes = ["--volumes"] if kind == "container" else []
        subprocess.run(["docker", kind, "rm", *forced, *volumes, name], capture_output=True, check=False)

    def clean(self) -> None:
        order = ("container", "network", "volume", "image")
        for kind, name in sorted(self.made, key=lambda made: order.index(made[0])):
            self.remove(kind, name)


def _daemon_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def session_docker() -> Iterator[Docker]:
    if not _daemon_answers():
        pytest.skip("no Docker Engine answers on this machine: tests with real containers are not run")
    docker = Docker()
    try:
        yield docker
    finally:
        docker.clean()


@pytest.fixture
def docker(session_docker: Docker) -> Iterator[Docker]:
    docker = Docker()
    try:
        yield docker
    finally:
        docker.clean()


@pytest.fixture(scope="session")
def image(session_docker: Docker) -> str:
    """An image with a few programs, a Python tree without Python, and settings of its own."""
    imported, built = session_docker.name("image"), session_docker.name("image")
    session_docker("import", "-", imported, stdin=_root_file_system())
    lines = [f"FROM {imported}", *[f'ENV {name}="{value}"' for name, value in IMAGE_ENVIRONMENT.items()]]
    lines += ['LABEL of.the.image="kept value"', "EXPOSE 8000", 'CMD ["sleep", "1000"]', "WORKDIR /tmp"]
    session_docker("build", "--tag", built, "-", stdin="\n".join(lines).encode())
    return built


def _root_file_system() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for directory in ("tmp", "root", "proc", "sys", "dev", "etc", "data"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            archive.addfile(entry)
        libraries: set[str] = set()
        for program in PROGRAMS:
            path = shutil.which(program)
            assert path is not None, f"{program} is needed on the machine of the test"
            archive.add(path, f"bin/{program}", filter=_real(archive))
            listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
            libraries |= {word for word in listed.split() if word.startswith("/")}
        for library in sorted(libraries):
            with open(library, "rb") as stream:
                _add(archive, library.lstrip("/"), stream.read(), 0o755)
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "dash"
        archive.addfile(link)
        _add(archive, "etc/passwd", b"root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/data/alice:/bin/sh\n")
        _add(archive, "etc/group", b"root:x:0:\nvideo:x:44:\nalice:x:1000:\n")
        for name, version in DISTRIBUTIONS.items():
            metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n\nText\n"
            _add(archive, f"{PACKAGES}/{name}-{version}.dist-info/METADATA", metadata.encode())
        torch = "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\ngit_version = 'abc'\n"
        _add(archive, f"{PACKAGES}/torch/version.py", torch.encode())
        _add(archive, f"{PACKAGES}/vllm/_version.py", b"__version__ = version = '0.27.1'\n")
    return buffer.getvalue()


def _real(archive: tarfile.TarFile) -> Any:
    archive.dereference = True
    return None


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
