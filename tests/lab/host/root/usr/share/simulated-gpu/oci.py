#!/usr/bin/python3 -IS
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the container toolkit does on a GPU host, for the lab's dockerd. One file under three names:

runc                           in front of the real one: drops what the lab may not grant (unlimited locked
                               memory, CAP_SYS_RESOURCE); docker inspect still shows what was asked for
nvidia-container-runtime       the runtime of --runtime nvidia: adds the hook, then goes on as runc
nvidia-container-runtime-hook  what --gpus calls before a container starts: brings devices and driver into it
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REAL_RUNC = "/usr/sbin/runc"
HOOK = "/usr/bin/nvidia-container-runtime-hook"
FOLDER = "/run/simulated-gpu"
LIBRARIES = ("libnvidia-ml", "libcuda")
NOT_GRANTED = {"CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_MODULE", "CAP_SYS_BOOT"}


def runc(argv: list[str], *, gpus: bool) -> None:
    """Edit what is about to be started, then become the real runc."""
    if "create" in argv or "run" in argv:
        path = os.path.join(option(argv, "--bundle", "-b") or ".", "config.json")
        with edited(path) as config:
            soften(config["process"])
            hooks = config.setdefault("hooks", {}).setdefault("prestart", [])
            if gpus and not any(hook["path"] == HOOK for hook in hooks):
                hooks.append({"path": HOOK, "args": [HOOK, "prestart"]})
    elif "exec" in argv and (path := option(argv, "--process", "-p")):
        with edited(path) as process:
            soften(process)
    os.execv(REAL_RUNC, ["runc", *argv])


def option(argv: list[str], *names: str) -> str:
    """The value of an option under any of its names, or nothing."""
    for position, word in enumerate(argv):
        name, _equals, value = word.partition("=")
        if name in names:
            return value or argv[position + 1]
    return ""


@contextmanager
def edited(path: str) -> Iterator[dict[str, Any]]:
    """A JSON file that is written back with its changes."""
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    yield document
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def soften(process: dict[str, Any]) -> None:
    process["rlimits"] = [
        limit for limit in process.get("rlimits") or [] if limit["type"] != "RLIMIT_MEMLOCK"
    ]
    for granted in (process.get("capabilities") or {}).values():
        granted[:] = [name for name in granted if name not in NOT_GRANTED]
    process["oomScoreAdj"] = max(process.get("oomScoreAdj") or 0, 0)


def hook() -> None:
    """Bring the driver's files and the device files of the granted GPUs into the container."""
    container = json.load(sys.stdin)
    folder = container.get("bundle") or container["bundlePath"]
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    environment = dict(entry.partition("=")[::2] for entry in config["process"].get("env", []))
    wanted = environment.get("NVIDIA_VISIBLE_DEVICES", "")
    with open(f"{FOLDER}/state", encoding="utf-8") as file:
        state = dict(line.rstrip("\n").split(" = ", 1) for line in file)
    if wanted in ("", "void", "none") or state.get("inject") == "no":
        return
    if "driver_version" not in state:
        sys.exit("nvidia-container-cli: initialization error: nvml error: driver not loaded")
    if state.get("library_version") != state["driver_version"]:
        sys.exit("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch")
    granted = choose(wanted, state)
    devices = [*(f"nvidia{n}" for n in granted), "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]
    channels = environment.get("NVIDIA_IMEX_CHANNELS", "").split(",")
    devices += [f"nvidia-caps-imex-channels/channel{n}" for n in channels if n]
    root = os.path.join(folder, config["root"]["path"])
    inject(container["pid"], root, devices, state["library_version"])
    with open(
        f"/proc/{container['pid']}/root{root}/etc/simulated-gpu.visible", "w", encoding="ascii"
    ) as file:
        file.write(" ".join(map(str, granted)))


def choose(wanted: str, state: dict[str, str]) -> list[int]:
    there = [n for n in range(64) if f"gpu.{n}.uuid" in state and f"gpu.{n}.missing" not in state]
    if wanted == "all":
        return there
    by_name = {state[f"gpu.{n}.uuid"]: n for n in there} | {str(index): n for index, n in enumerate(there)}
    for name in wanted.split(","):
        if name not in by_name:
            sys.exit(f"nvidia-container-cli: device error: {name}: unknown device")
    return [by_name[name] for name in wanted.split(",")]


def inject(pid: int, root: str, devices: list[str], version: str) -> None:
    """Device files and, bound read-only as the real toolkit does, the driver's files."""
    library = f"/usr/lib/{os.uname().machine}-linux-gnu"
    seen = f"/proc/{pid}/root{root}"
    for device in [f"{seen}/dev/{name}" for name in devices]:
        os.makedirs(os.path.dirname(device), exist_ok=True)
        if not os.path.exists(device):
            os.mknod(device, 0o20666, os.makedev(1, 3))
            os.chmod(device, 0o666)
    inside = ["nsenter", "-t", str(pid), "-m", "mount", "--bind", "-o", "ro"]
    libraries = [f"{library}/{name}.so.{version}" for name in LIBRARIES]
    for path in [*libraries, "/usr/bin/nvidia-smi", FOLDER, "/proc/driver"]:
        place(seen + path, directory=os.path.isdir(path))
        subprocess.run([*inside, path, root + path], check=True, stderr=subprocess.PIPE)
    for name in LIBRARIES:
        link = f"{seen}{library}/{name}.so.1"
        if not os.path.lexists(link):
            os.symlink(f"{name}.so.{version}", link)


def place(path: str, *, directory: bool) -> None:
    """Something to bind over."""
    if directory:
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii"):
            pass


if __name__ == "__main__":
    name = os.path.basename(sys.argv[0])
    if name == "nvidia-container-runtime-hook":
        if sys.argv[1:2] == ["prestart"]:
            hook()
    else:
        runc(sys.argv[1:], gpus=name == "nvidia-container-runtime")
