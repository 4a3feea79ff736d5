# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which model lies on the disk: path, revision, hashes of its small files, its shards (private).

Shards are never read. In the cache of the Hugging Face hub their identity is free: a file of a snapshot is a
link to a blob named by its sha256 (https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree, Found
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import EngineCommand
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    OK,
    ProbeFailure,
    Reading,
)

_SHARD = re.compile(r"\.(safetensors|bin|pt|pth|gguf)$")
_SMALL = re.compile(r"\.(json|jinja|txt|model|tiktoken|py|yaml)$")
_SMALL_LIMIT = 64 * 1024 * 1024
_FILES_AT_MOST = 5000
_REVISION = re.compile(r"^[0-9a-f]{40}$")


def wanted_models(command: EngineCommand) -> List[Tuple[str, str]]:
    """The models and files that a command line names, as (role, name); each is looked up by itself."""
    wanted = [("model", command.model)]
    for option in ("config", "tokenizer", "hf-config-path", "chat-template", "speculative-config.model"):
        wanted.append((option.partition(".")[0].replace("-", "_"), command.options.get(option) or ""))
    speculative = command.options.get("speculative-config")
    if speculative:
        try:
            wanted.append(("speculative_config", str(json.loads(speculative).get("model") or "")))
        except (ValueError, AttributeError):
            pass  # vLLM itself refuses such a value; the command line is in the record as it is
    unique: Dict[str, str] = {}
    for role, name in wanted:
        if name:
            unique.setdefault(name, role)
    return [(role, name) for name, role in unique.items()]


def model_identity(
    tree: FileTree,
    name: str,
    environment: Mapping[str, str],
    home: str,
    working_directory: str,
    options: Mapping[str, Any],
) -> Reading:
    """What lies where a start would look for ``name``; the reading's source is the path."""
    revision = str(options.get("revision") or "")
    for path, source in _candidates(tree, name, environment, home, working_directory, options, revision):
        try:
            found = tree.find(path)
        except ProbeFailure as failure:
            if failure.reading.outcome == ABSENT:
                continue
            raise
        value = _directory(tree, found) if found.is_directory else _file(tree, found)
        value.update(name=name, path=found.path, found_by=source, revision=_revision_of(found.path))
        return Reading(value, outcome=OK, source=found.path)
    raise ProbeFailure(
        ABSENT, "%s: neither a path nor in the hub's cache (%s)" % (name, hub_cache(environment, home))
    )


def hub_cache(environment: Mapping[str, str], home: str) -> str:
    """The hub's cache directory, by the variables of huggingface_hub/constants.py."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return environment[variable]
    if environment.get("HF_HOME"):
        return os.path.join(environment["HF_HOME"], "hub")
    return os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface", "hub"
    )


def _candidates(
    tree: FileTree,
    name: str,
    environment: Mapping[str, str],
    home: str,
    working_directory: str,
    options: Mapping[str, Any],
    revision: str,
) -> List[Tuple[str, str]]:
    path = home + name[1:] if name.startswith("~/") else name
    found = [(path if path.startswith("/") else os.path.join(working_directory or "/", path), "path")]
    if re.match(r"^[\w.-]+/[\w.-]+$", name):
        for cache in [str(options.get("download-dir") or ""), hub_cache(environment, home)]:
            if cache:
                repository = os.path.join(cache, "models--" + name.replace("/", "--"))
                snapshot = _snapshot(tree, repository, revision or "main")
                if snapshot:
                    found.append((snapshot, "snapshot in the hub's cache"))
    return found


def _snapshot(tree: FileTree, repository: str, revision: str) -> str:
    """The snapshot directory of a revision; without its reference, the only snapshot there is."""
    if not _REVISION.match(revision):
        try:
            revision = (
                tree.read("%s/refs/%s" % (repository, revision), 100).decode("ascii", "replace").strip()
            )
        except ProbeFailure:
            pass
    if _REVISION.match(revision):
        return "%s/snapshots/%s" % (repository, revision)
    try:
        snapshots = tree.names(repository + "/snapshots")
    except ProbeFailure:
        return ""
    return "%s/snapshots/%s" % (repository, snapshots[0]) if len(snapshots) == 1 else ""


def _revision_of(path: str) -> Optional[str]:
    parts = path.split("/")
    if "snapshots" in parts:
        following = parts[parts.index("snapshots") + 1 :]
        return following[0] if following and _REVISION.match(following[0]) else None
    return None


def _file(tree: FileTree, found: Found) -> Dict[str, Any]:
    if found.status.st_size > _SMALL_LIMIT:
        return {
            "kind": "file",
            "bytes": found.status.st_size,
            "sha256": None,
            "why": "not read: over the limit",
        }
    return {"kind": "file", "bytes": found.status.st_size, "sha256": _sha256(tree, found.path)}


def _directory(tree: FileTree, found: Found) -> Dict[str, Any]:
    files: Dict[str, Any] = {}
    shards: Dict[str, Any] = {}
    unread: List[str] = []
    names = tree.names(found.path)
    for name in names[:_FILES_AT_MOST]:
        path = found.path.rstrip("/") + "/" + name
        try:
            entry = tree.find(path)
        except ProbeFailure as failure:
            # A link into a blob that is not there is the typical broken download.
            unread.append(failure.reading.message)
            continue
        if not stat.S_ISREG(entry.status.st_mode):
            continue
        if _SHARD.search(name):
            shards[name] = {"bytes": entry.status.st_size, "blob": _blob(entry.path)}
        elif _SMALL.search(name) and entry.status.st_size <= _SMALL_LIMIT:
            files[name] = {"bytes": entry.status.st_size, "sha256": _sha256(tree, entry.path)}
    value: Dict[str, Any] = {"kind": "directory", "files": files, "shards": shards, "unread": unread}
    value["shard_count"], value["shard_bytes"] = len(shards), sum(shard["bytes"] for shard in shards.values())
    value["index"] = _index(tree, found.path, names, shards)
    value["names_cut"] = max(len(names) - _FILES_AT_MOST, 0)
    return value


def _blob(path: str) -> Optional[str]:
    """The sha256 that the hub's cache names a blob by; None for a file that is not in such a cache."""
    name = os.path.basename(path)
    return name if re.match(r"^[0-9a-f]{64}$", name) and "/blobs/" in path else None


def _sha256(tree: FileTree, path: str) -> str:
    return hashlib.sha256(tree.read(path, _SMALL_LIMIT)).hexdigest()


def _index(
    tree: FileTree, directory: str, names: List[str], shards: Mapping[str, Any]
) -> Optional[Dict[str, Any]]:
    """The shard index against what is there (https://huggingface.co/docs/transformers/big_models)."""
    indexes = [name for name in names if name.endswith((".safetensors.index.json", ".bin.index.json"))]
    if not indexes:
        return None
    name = sorted(indexes, key=lambda item: not item.startswith("model.safetensors"))[0]
    try:
        content = json.loads(tree.read(directory.rstrip("/") + "/" + name, _SMALL_LIMIT))
        wanted = sorted(set(content["weight_map"].values()))
        total = (content.get("metadata") or {}).get("total_size")
    except (ProbeFailure, ValueError, KeyError, AttributeError, TypeError) as error:
        return {"name": name, "why": "cannot be read: %s" % error}
    return {
        "name": name,
        "shards": len(wanted),
        "missing": [shard for shard in wanted if shard not in shards],
        "total_size": total,
    }
