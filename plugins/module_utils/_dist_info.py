# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of Python distributions, read from files and without running anything (private to the collection).

Formats: https://packaging.python.org/en/latest/specifications/core-metadata/ and
https://packaging.python.org/en/latest/specifications/direct-url/. The several CUDA versions of an image are
separate facts under separate names, since none of them stands for another.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, ProbeFailure

# Where Debian, upstream Python, conda and the usual images keep their libraries.
_PREFIXES = ("/usr/local", "/usr", "/opt/venv", "/opt/conda", "/venv", "/app/.venv", "/workspace/.venv")
_LIBRARY_NAMES = ("lib", "lib64", "local/lib")
_PACKAGE_DIRECTORIES = ("site-packages", "dist-packages")
_METADATA_LIMIT = 64 * 1024
_PYTHON_MINORS = (12, 13, 11, 10, 14, 9)
_LINE_LIMIT = 500
_VERSION_FILES = (("vllm", "vllm/_version.py"), ("torch", "torch/version.py"))
_ASSIGNMENT = re.compile(
    r"^(?P<names>\w+(?:\s*:\s*[^=]+?)?(?:\s*=\s*\w+)*)\s*=\s*(?P<value>'[^']*'|\"[^\"]*\"|None)\s*$"
)

# Distributions that a comparison asks for by name; NVIDIA's carry the CUDA major version in some releases.
NAMED = (
    "vllm",
    "torch",
    "flashinfer-python",
    "triton",
    "ray",
    "transformers",
    "deep-gemm",
    "flash-attn",
    "nixl",
)
NAMED_PATTERNS = {
    "nccl": re.compile(r"^nvidia-nccl(-cu\d+)?$"),
    "cuda_runtime": re.compile(r"^nvidia-cuda-runtime(-cu\d+)?$"),
    "cuda_nvcc": re.compile(r"^nvidia-cuda-nvcc(-cu\d+)?$"),
    "cuda_nvrtc": re.compile(r"^nvidia-cuda-nvrtc(-cu\d+)?$"),
    "cudnn": re.compile(r"^nvidia-cudnn(-cu\d+)?$"),
    "cublas": re.compile(r"^nvidia-cublas(-cu\d+)?$"),
    "nvshmem": re.compile(r"^nvidia-nvshmem(-cu\d+)?$"),
    "cutlass_dsl": re.compile(r"^nvidia-cutlass-dsl$"),
}


def normal_name(name: str) -> str:
    """A distribution's name in the form that comparisons use."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_prefixes(environment: Mapping[str, str], argv: Sequence[str] = ()) -> List[str]:
    """Installation prefixes to look into, those of the started program and its environment first."""
    found = [environment.get("VIRTUAL_ENV", ""), environment.get("CONDA_PREFIX", "")]
    for word in argv[:2]:
        if word.startswith("/") and os.path.basename(os.path.dirname(word)) == "bin":
            found.append(os.path.dirname(os.path.dirname(word)))
    for directory in environment.get("PATH", "").split(":"):
        if directory.startswith("/") and os.path.basename(directory) == "bin":
            found.append(os.path.dirname(directory))
    unique = dict.fromkeys(prefix.rstrip("/") or "/" for prefix in [*found, *_PREFIXES] if prefix)
    return list(unique)


def package_directories(
    tree: FileTree, environment: Mapping[str, str], argv: Sequence[str] = ()
) -> List[str]:
    """Every site-packages and dist-packages of the file system that a start would look into."""
    found: Dict[str, None] = {}
    for entry in environment.get("PYTHONPATH", "").split(":"):
        if entry.startswith("/") and tree.exists(entry):
            found[tree.find(entry).path] = None
    for prefix in python_prefixes(environment, argv):
        for library in _LIBRARY_NAMES:
            for path in _below(tree, os.path.join(prefix, library)):
                found[path] = None
    return list(found)


def _below(tree: FileTree, library: str) -> Iterable[str]:
    for name in _names(tree, library):
        if re.match(r"^python3(\.\d+)?t?$", name):
            for packages in _PACKAGE_DIRECTORIES:
                path = os.path.join(library, name, packages)
                if tree.exists(path):
                    yield tree.find(path).path


def _names(tree: FileTree, path: str) -> List[str]:
    """Names in a directory; none when it is not there. A refusal is raised."""
    try:
        return tree.names(path)
    except ProbeFailure as failure:
        if failure.reading.outcome == ABSENT:
            return []
        raise


def read_versions(tree: FileTree, environment: Mapping[str, str], argv: Sequence[str] = ()) -> Dict[str, Any]:
    """All distributions, and the version files of vLLM and torch; a refusal is raised."""
    directories = package_directories(tree, environment, argv)
    distributions = []
    for directory in directories:
        distributions += [
            _distribution(tree, directory, name) for name in _names(tree, directory) if _is_record(name)
        ]
    files: Dict[str, Any] = {}
    for directory in directories:
        for key, name in _VERSION_FILES:
            if key not in files:
                values = _version_file(tree, os.path.join(directory, name))
                if values is not None:
                    files[key] = values
    return {"directories": directories, "distributions": distributions, "version_files": files}


def _is_record(name: str) -> bool:
    return name.endswith((".dist-info", ".egg-info", ".egg-link"))


def _distribution(tree: FileTree, directory: str, name: str) -> Dict[str, Any]:
    """One distribution. When its metadata can't be read, name and version come from the directory's name."""
    path = os.path.join(directory, name)
    record = {"name": "", "version": "", "path": path, "origin": {}, "message": ""}
    # An .egg-info is a directory, or a file of its own with the same content.
    for candidate in (path + "/METADATA", path + "/PKG-INFO", path):
        try:
            headers = metadata_headers(tree.read(candidate, _METADATA_LIMIT))
        except ProbeFailure as failure:
            record["message"] = failure.reading.message
            continue
        record.update(name=headers.get("name", ""), version=headers.get("version", ""), message="")
        break
    if not record["name"]:
        stem = name.rsplit(".", 1)[0].split("-")
        record.update(
            name=stem[0],
            version=stem[1] if len(stem) > 1 else "",
            message="no metadata; from the file's name",
        )
    record["origin"] = _origin(tree, path)
    return record


def version_paths(environment: Mapping[str, str], argv: Sequence[str] = ()) -> List[Tuple[str, str]]:
    """The version files by name and path, where directories can't be listed: the likely places, in order."""
    found = []
    for prefix in python_prefixes(environment, argv)[:4]:
        for minor in _PYTHON_MINORS:
            for packages in _PACKAGE_DIRECTORIES:
                directory = "%s/lib/python3.%d/%s" % (prefix, minor, packages)
                found += [(key, "%s/%s" % (directory, name)) for key, name in _VERSION_FILES]
    return found


def metadata_headers(content: bytes) -> Dict[str, str]:
    """The headers of a METADATA or PKG-INFO file, by lower-case name; of repeated ones the first."""
    headers: Dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and not line[:1].isspace():
            headers.setdefault(name.strip().lower(), value.strip())
    return headers


def _origin(tree: FileTree, path: str) -> Dict[str, Any]:
    """Where a distribution came from, when from no index: a revision, a wheel, an editable directory."""
    try:
        content = json.loads(tree.read(path + "/direct_url.json", _METADATA_LIMIT))
    except (ProbeFailure, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _version_file(tree: FileTree, path: str) -> Optional[Dict[str, Any]]:
    try:
        values = assignments(tree.read(path, _METADATA_LIMIT))
    except ProbeFailure:
        return None
    values["path"] = path
    return values


def assignments(content: bytes) -> Dict[str, Any]:
    """The plain string assignments of a version file: ``a = b = '1'`` gives both names."""
    values: Dict[str, Any] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        match = _ASSIGNMENT.match(line[:_LINE_LIMIT])
        if match:
            value = None if match.group("value") == "None" else match.group("value")[1:-1]
            for name in match.group("names").split("="):
                values[name.split(":")[0].strip()] = value
    return values


def named_versions(versions: Mapping[str, Any]) -> Dict[str, Any]:
    """The versions that a comparison asks for by name. Two copies of one distribution are both told."""
    found: Dict[str, List[str]] = {}
    for record in versions["distributions"]:
        name = normal_name(record["name"])
        for key in [name for wanted in NAMED if name == wanted] + [
            key for key, pattern in NAMED_PATTERNS.items() if pattern.match(name)
        ]:
            found.setdefault(key.replace("-", "_"), []).append(record["version"])
    return {key: sorted(set(values)) for key, values in sorted(found.items())}


def cuda_versions(versions: Mapping[str, Any], environment: Mapping[str, str]) -> Dict[str, Any]:
    """The CUDA versions that a container's files and variables tell, each under its own name."""
    named = named_versions(versions)
    torch = versions["version_files"].get("torch", {})
    return {
        "image_cuda_version": environment.get("CUDA_VERSION"),
        "image_requires": environment.get("NVIDIA_REQUIRE_CUDA"),
        "torch_build": torch.get("cuda"),
        "torch_local_version": _local_part(named.get("torch")),
        "cudart_distribution": named.get("cuda_runtime"),
        "nvcc_distribution": named.get("cuda_nvcc"),
        "nvrtc_distribution": named.get("cuda_nvrtc"),
    }


def _local_part(found: Any) -> Optional[List[str]]:
    """What stands behind the plus sign of a version, such as cu130."""
    parts = [version.partition("+")[2] for version in found or []]
    return [part for part in parts if part] or None
