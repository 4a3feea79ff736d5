# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile and kernel caches of an engine: where they are, how large, how old, on which mount (private).

Places as of vLLM 0.32.0 (vllm/envs.py, vllm/utils/deep_gemm.py), torch 2.13 (_inductor/runtime), Triton
(triton/knobs.py), FlashInfer (https://docs.flashinfer.ai), DeepGEMM (https://github.com/deepseek-ai/DeepGEMM)
and CUDA (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html).
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure, Reading

_FILES_AT_MOST = 50000
_SECONDS_AT_MOST = 8.0


def cache_places(environment: Mapping[str, str], home: str, user: str) -> List[Tuple[str, str, str]]:
    """The caches as (name, path, what decided the path)."""
    places = [
        (
            "triton",
            *_first(
                environment,
                home,
                ("TRITON_CACHE_DIR", ""),
                ("TRITON_HOME", "/.triton/cache"),
                "~/.triton/cache",
            ),
        ),
        ("inductor", *_inductor(environment, user)),
        ("vllm", *_vllm_root(environment, home)),
        (
            "flashinfer",
            *_first(
                environment, home, ("FLASHINFER_WORKSPACE_BASE", "/.cache/flashinfer"), "~/.cache/flashinfer"
            ),
        ),
        ("deepgemm", *_deepgemm(environment, home)),
        ("cuda", *_first(environment, home, ("CUDA_CACHE_PATH", ""), "~/.nv/ComputeCache")),
        ("tilelang", *_first(environment, home, ("TILELANG_CACHE_DIR", ""), "~/.tilelang/cache")),
    ]
    return [(name, os.path.normpath(path), source) for name, path, source in places]


def _first(environment: Mapping[str, str], home: str, *choices: Any) -> Tuple[str, str]:
    """The first variable that is set, with what follows it; the last choice is the default below the home."""
    for variable, suffix in choices[:-1]:
        if environment.get(variable):
            return _expand(environment[variable], home) + suffix, variable
    return _expand(choices[-1], home), "default"


def _expand(path: str, home: str) -> str:
    return home + path[1:] if path.startswith("~") else path


def _vllm_root(environment: Mapping[str, str], home: str) -> Tuple[str, str]:
    choices = (("VLLM_CACHE_ROOT", ""), ("XDG_CACHE_HOME", "/vllm"), "~/.cache/vllm")
    return _first(environment, home, *choices)


def _deepgemm(environment: Mapping[str, str], home: str) -> Tuple[str, str]:
    if environment.get("DG_JIT_CACHE_DIR"):
        return _expand(environment["DG_JIT_CACHE_DIR"], home), "DG_JIT_CACHE_DIR"
    # vLLM sets the variable in its own process before it loads DeepGEMM, to a place below its own cache.
    path, source = _vllm_root(environment, home)
    return path + "/deep_gemm", source


def _inductor(environment: Mapping[str, str], user: str) -> Tuple[str, str]:
    if environment.get("TORCHINDUCTOR_CACHE_DIR"):
        return environment["TORCHINDUCTOR_CACHE_DIR"], "TORCHINDUCTOR_CACHE_DIR"
    directory = environment.get("TMPDIR") or "/tmp"
    return "%s/torchinductor_%s" % (directory, re.sub(r'[\\/:*?"<>|]', "_", user)), "default"


def measure_cache(tree: FileTree, path: str) -> Reading:
    """Size, number of files and times of a cache; a walk that is cut says so in ``complete``."""
    end = time.monotonic() + _SECONDS_AT_MOST
    found = tree.find(path)
    value: Dict[str, Any] = {"path": found.path, "files": 0, "bytes": 0, "newest": None, "oldest": None}
    value["complete"] = True
    for _inside, status in tree.walk(found.path):
        value["files"] += 1
        value["bytes"] += status.st_size
        value["newest"] = max(value["newest"] or 0.0, status.st_mtime)
        value["oldest"] = min(value["oldest"] or status.st_mtime, status.st_mtime)
        if value["files"] >= _FILES_AT_MOST or time.monotonic() >= end:
            value["complete"] = False
            break
    return Reading(value, source=found.path)


def home_of(tree: FileTree, environment: Mapping[str, str], user: str) -> Tuple[str, str]:
    """(home directory, user name) of a start: HOME, else the entry of /etc/passwd, else root's.

    ``user`` is what the container or process was started as: a name, a number, ``name:group``, or empty.
    """
    wanted = user.partition(":")[0] or "0"
    name, home = ("root", "/root") if wanted in ("0", "root") else (wanted, "/")
    for line in _passwd(tree):
        fields = line.split(":")
        if len(fields) >= 6 and wanted in (fields[0], fields[2]):
            name, home = fields[0], fields[5]
            break
    return environment.get("HOME") or home, environment.get("USER") or environment.get("LOGNAME") or name


def _passwd(tree: FileTree) -> List[str]:
    try:
        return tree.read("/etc/passwd", 1024 * 1024).decode("utf-8", "replace").splitlines()
    except ProbeFailure:
        return []
