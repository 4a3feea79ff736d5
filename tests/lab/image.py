# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the lab is made of, built once: base image, simulated driver, image of a host.

Everything comes from the machine's own distribution (debootstrap, apt inside docker build) and the
official NVML header. The base has the machine's release, so that what its compiler makes runs there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .docker_cli import docker

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "lab"
BASE = "gpufleet-lab/base:latest"
NODE = "gpufleet-lab/node:latest"
LABEL = "gpufleet.lab.image=node"
HEADER = "nvidia-nvml-dev==13.5.37"


class CannotBuild(RuntimeError):
    """Something the lab is built from could not be made; the text says what and why."""


class ToolMissing(CannotBuild):
    """A program that the lab is built with is not installed; the text names it."""


@contextmanager
def exclusive() -> Iterator[None]:
    """One build at a time on this checkout."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure() -> None:
    """Build whatever is missing or older than its sources."""
    with exclusive():
        ensure_base()
        driver = build_driver()
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            context = Path(folder) / "host"
            shutil.copytree(HERE / "host", context)
            share = context / "root/usr/share/simulated-gpu"
            for path in [*driver.iterdir(), *(HERE / "driver/smi").iterdir()]:
                shutil.copy2(path, share)
            arguments = [f"--build-arg=BASE={BASE}", f"--label={LABEL}", "-q", "-t", NODE]
            arguments += [
                f"--build-arg={name}" for name in ("http_proxy", "https_proxy") if name in os.environ
            ]
            # Without BuildKit, which not every machine has.
            _run(
                ["docker", "build", *arguments, str(context)],
                environment={**os.environ, "DOCKER_BUILDKIT": "0"},
            )
        forget_older()


def forget_older() -> None:
    """Remove images of hosts that a newer build replaced and that nothing runs on any more."""
    docker("image", "prune", "--force", "--filter", f"label={LABEL}")


def ensure_base() -> None:
    """The distribution's smallest root as an image, with the machine's own package source."""
    if docker("image", "ls", "-q", BASE).strip():
        return
    if not shutil.which("debootstrap"):
        raise ToolMissing(
            "debootstrap, which makes the lab's base, is not installed: apt-get install debootstrap"
        )
    suite, mirror = _package_source()
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        root = Path(folder) / "root"
        _run(["debootstrap", "--variant=minbase", suite, str(root), *mirror])
        for pattern in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*_*"):
            for path in root.glob(pattern):
                path.unlink()
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                ["docker", "import", "-", BASE], stdin=tar.stdout, stdout=subprocess.DEVNULL, check=True
            )


def _package_source() -> tuple[str, list[str]]:
    """Release of this machine, and its apt's mirror; without one debootstrap takes its own."""
    text = Path("/etc/os-release").read_text()
    release = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    suite = release.get("VERSION_CODENAME", "stable").strip('"')
    form = "$(CREATED_BY) $(REPO_URI) $(CODENAME)"
    command = ["apt-get", "indextargets", "--format", form]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    mirrors = [line.split()[1] for line in listed.splitlines() if line.split()[::2] == ["Packages", suite]]
    return suite, mirrors[:1]


def build_driver() -> Path:
    """Compile the simulated libnvidia-ml, libcuda and nvidia-smi; returns the folder that holds them."""
    sources = sorted((HERE / "driver").glob("*.[ch]"))
    digest = hashlib.sha256(HEADER.encode() + b"".join(path.read_bytes() for path in sources)).hexdigest()[
        :16
    ]
    folder = CACHE / f"driver-{digest}"
    if folder.is_dir():
        return folder
    if not shutil.which("gcc"):
        raise ToolMissing(
            "gcc, which makes the simulated driver, is not installed: apt-get install gcc libc6-dev"
        )
    include = f"-I{_header()}"
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        out = Path(scratch) / "driver"
        out.mkdir()
        compile_ = [
            "gcc",
            "-std=c11",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-enum-int-mismatch",
            include,
        ]
        library = ["-shared", "-fPIC"]
        nvml, cuda, smi, sim = (
            str(HERE / "driver" / name) for name in ("nvml.c", "cuda.c", "smi.c", "sim.c")
        )
        _run(
            [
                *compile_,
                *library,
                "-Wl,-soname,libnvidia-ml.so.1",
                "-o",
                str(out / "libnvidia-ml.so"),
                nvml,
                sim,
            ]
        )
        _run([*compile_, *library, "-Wl,-soname,libcuda.so.1", "-o", str(out / "libcuda.so"), cuda, sim])
        _run([*compile_, "-o", str(out / "nvidia-smi"), smi, nvml, sim])
        out.rename(folder)
    for older in CACHE.glob("driver-*"):
        if older != folder:
            shutil.rmtree(older)
    return folder


def _header() -> Path:
    """Folder of the official nvml.h, fetched once."""
    header = CACHE / "nvml.h"
    if not header.exists():
        venv = HERE.parents[1] / ".venv/bin/python"
        python = str(venv) if venv.exists() else sys.executable
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            _run([python, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, HEADER])
            with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
                name = next(name for name in wheel.namelist() if name.endswith("/nvml.h"))
                header.write_bytes(wheel.read(name))
    return CACHE


def _run(command: list[str], *, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise CannotBuild(f"{' '.join(command[:4])} ended with {done.returncode}:\n{tail}")
