# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the model's files (private to the collection, controller only; pure).

Files are compared by names, sizes, the hashes of index and configuration, and the ids under which a cache
stores its blobs. The files themselves are not read: that takes an hour for a large model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._engines import (
    NO_ENGINE,
    hosts_with_engines,
    over_engines,
    without_engine,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    REQUIRED,
    Answer,
    Case,
    Rule,
    equal_over,
    failed,
    not_applicable,
    passed,
    unmeasured,
)

GB = 1e9
DOWNLOAD = (
    "finish the download of the model on this host, or copy the directory from a host that has it whole"
)


def weights_present(case: Case, host: HostFacts) -> Answer:
    """Every file that the model's index names is there."""
    none = without_engine(case, host)
    if none is not None:
        return none
    wanted = "all files of the model's index"
    answers, told = [], []
    for engine in host.engines:
        if not engine.models:
            reason = Measured(None, "absent", "command line", "the command names no model")
            answers.append((engine, unmeasured("the model", reason)))
        for model in engine.models[:1]:
            answer = _whole(model)
            told.append(answer.found)
            if answer.verdict != "pass":
                answers.append((engine, answer))
    return over_engines(answers, passed("; ".join(dict.fromkeys(told)))).want(wanted)


def _whole(model: Measured) -> Answer:
    if model.outcome == "absent":
        return failed("not on the host", f"the model is not on this host: {model.message}", DOWNLOAD, model)
    if not model.ok or not isinstance(model.value, dict):
        return unmeasured("the model's files", model)
    value: dict[str, Any] = model.value
    found = f"{value.get('shard_count', 0)} files, {value.get('shard_bytes', 0) / GB:.1f} GB"
    broken = value.get("unread") or []
    if broken:
        return failed(found, f"{len(broken)} files cannot be opened: {broken[0]}", DOWNLOAD, model)
    index = value.get("index")
    if isinstance(index, dict) and index.get("why"):
        return failed(found, f"the index {index.get('name')} {index['why']}", DOWNLOAD, model)
    if isinstance(index, dict) and index.get("missing"):
        missing = index["missing"]
        reason = f"{len(missing)} of {index.get('shards')} files of the index are missing: {missing[0]}"
        return failed(found, reason, DOWNLOAD, model)
    if value.get("kind") == "directory" and not value.get("shard_count"):
        return failed(found, "the directory holds no weights", DOWNLOAD, model)
    return passed(found, model)


def weights_equal(case: Case) -> Answer:
    """All hosts have the same model."""
    wanted = "the same files on all hosts"
    read: dict[str, list[Mapping[str, Any]]] = {}
    found = hosts_with_engines(case)
    if found is None:
        return not_applicable(NO_ENGINE)
    hosts, unread = found
    for host in hosts:
        models = [engine.models[0] for engine in host.engines if engine.models]
        bad = [model for model in models if not model.ok]
        if bad or not models:
            unread[host.name] = bad[0] if bad else Measured(message="the command names no model")
        else:
            read[host.name] = [model.value for model in models]
    values = identities(read)
    return equal_over(case, "the model", values, unread, "copy the model from one host to the others").want(
        wanted
    )


def identities(models: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """A short name for each host's models: equal names are equal files, as far as that is known without
    reading them.
    """
    every = [model for found in models.values() for model in found]
    # A plain directory has no blob ids and no revision: these count where all hosts have them.
    blobs = all(entry.get("blob") for model in every for entry in _shards(model).values())
    revision = all(model.get("revision") for model in every)
    return {
        host: " | ".join(dict.fromkeys(_identity(model, blobs, revision) for model in found))
        for host, found in models.items()
    }


def _shards(model: Mapping[str, Any]) -> Mapping[str, Any]:
    return model.get("shards") or {}


def _identity(model: Mapping[str, Any], blobs: bool, revision: bool) -> str:
    shards = {
        name: [entry.get("bytes"), entry.get("blob") if blobs else None]
        for name, entry in _shards(model).items()
    }
    files = {name: entry.get("sha256") for name, entry in (model.get("files") or {}).items()}
    digest = hashlib.sha256(json.dumps([shards, files], sort_keys=True).encode()).hexdigest()[:10]
    told = f" revision {str(model['revision'])[:8]}" if revision else ""
    return f"{len(shards)} files {digest}{told}"


NOT_HASHED = "not asked for (gate_hash_paths)"


def hashes_stored(_case: Case, host: HostFacts) -> Answer:
    """Files that a cache names by their sha256 have that sha256."""
    if not host.hashes:
        return not_applicable(NOT_HASHED)
    wanted = "every hashed file whole"
    unread = next((fact for fact in host.hashes.values() if not fact.ok), None)
    if unread is not None:
        return unmeasured("the hashes of the model's files", unread).want(wanted)
    files = {
        f"{path}/{name}": entry for path, fact in host.hashes.items() for name, entry in fact.value.items()
    }
    damaged = [name for name, entry in files.items() if entry.get("blob") not in (None, entry["sha256"])]
    if damaged:
        reason = f"{len(damaged)} files are not what their name in the cache says: {damaged[0]}"
        return failed(f"{len(damaged)} of {len(files)} files damaged", reason, DOWNLOAD).want(wanted)
    return passed(f"{len(files)} files").want(wanted)


def hashes_equal(case: Case) -> Answer:
    """The files of the model are the same to the last byte."""
    if not any(host.hashes for host in case.measured):
        return not_applicable(NOT_HASHED)
    values: dict[str, str] = {}
    unread: dict[str, Measured] = {}
    for host in case.measured:
        bad = [fact for fact in host.hashes.values() if not fact.ok]
        if bad or not host.hashes:
            unread[host.name] = bad[0] if bad else Measured(message="nothing was hashed")
            continue
        files = {
            path: {name: entry["sha256"] for name, entry in fact.value.items()}
            for path, fact in host.hashes.items()
        }
        values[host.name] = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]
    remedy = "copy the model from one host to the others"
    return equal_over(case, "the model's content", values, unread, remedy).want("the same bytes on all hosts")


RULES = (
    Rule("weights.present", "weights whole", REQUIRED, host=weights_present, reads=("model",)),
    Rule("weights.hashes", "hashed files whole", REQUIRED, host=hashes_stored),
    Rule("weights.bytes", "same bytes on all hosts", REQUIRED, group=hashes_equal),
    Rule("weights.equal", "same weights on all hosts", REQUIRED, group=weights_equal, reads=("model",)),
)
