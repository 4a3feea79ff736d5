# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of a stopped container in containerd's overlay snapshotter (private to the collection).

Docker with the containerd image store names a container's snapshot by the container's id
(https://github.com/moby/moby, daemon/containerd/image_snapshot.go); the snapshotter keeps names, parents and
directory numbers in a Bolt database (https://github.com/containerd/containerd, core/snapshots/storage).
"""

from __future__ import annotations

import os
from typing import Dict, List, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._bolt import BoltError, Bucket, open_bolt
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    ERROR,
    ProbeFailure,
    read_file,
)

# The system's containerd, and the one that a Docker daemon starts for itself below its own root.
CONTAINERD_ROOT = "/var/lib/containerd"
_OWN_CONTAINERD = "containerd/daemon"
_SNAPSHOTTER = "io.containerd.snapshotter.v1.%s"
_DATABASE_LIMIT = 128 * 1024 * 1024
_LAYERS_AT_MOST = 512


def find_layers(identifier: str, snapshotter: str, docker_root: str) -> List[str]:
    """The layers of a container from top to bottom; raises ProbeFailure when no snapshotter knows it."""
    tried = []
    for root in (CONTAINERD_ROOT, os.path.join(docker_root or "/var/lib/docker", _OWN_CONTAINERD)):
        directory = os.path.join(root, _SNAPSHOTTER % snapshotter)
        try:
            layers = layers_in(directory, identifier)
        except ProbeFailure as failure:
            if failure.reading.outcome != ABSENT:
                raise
            tried.append(failure.reading.message)
            continue
        if layers:
            return layers
        tried.append("%s does not know it" % directory)
    raise ProbeFailure(ABSENT, "no layers of container %s: %s" % (identifier[:12], "; ".join(tried)))


def layers_in(directory: str, identifier: str) -> List[str]:
    """The layers of a container in one snapshotter's directory; none when it does not know it."""
    database = os.path.join(directory, "metadata.db")
    content = read_file(database, _DATABASE_LIMIT).raw
    try:
        numbers = _chain(open_bolt(content), identifier)
    except BoltError as error:
        raise ProbeFailure(ERROR, "%s: %s" % (database, error), database) from error
    return [os.path.join(directory, "snapshots", str(number), "fs") for number in numbers]


def _chain(root: Bucket, identifier: str) -> List[int]:
    version = root.bucket(b"v1")
    snapshots = version.bucket(b"snapshots") if version is not None else None
    if snapshots is None:
        raise BoltError("has no snapshots of version 1")
    by_name: Dict[bytes, bytes] = {name: value for name, value, is_bucket in snapshots.items() if is_bucket}
    # A name is NAMESPACE/NUMBER/KEY.
    ending = b"/" + identifier.encode()
    name: Optional[bytes] = next((name for name in by_name if name.endswith(ending)), None)
    numbers: List[int] = []
    while name:
        if name not in by_name or len(numbers) >= _LAYERS_AT_MOST:
            raise BoltError("snapshot %s has no whole chain of parents" % identifier[:12])
        snapshot = snapshots.opened(by_name[name])
        numbers.append(_number(snapshot.get(b"id") or b""))
        name = snapshot.get(b"parent")
    return numbers


def _number(encoded: bytes) -> int:
    """A number of 7 bits a byte, the lowest first (https://protobuf.dev/programming-guides/encoding/#varints)."""
    value = 0
    for index, byte in enumerate(encoded):
        value |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return value
    raise BoltError("a snapshot has no directory")
