# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files as a process or a container sees them, from outside and without exec (private).

A running container is read through /proc/PID/root, a stopped one through the layers of its storage, put
one over another as the overlay file system does
(https://docs.kernel.org/filesystems/overlayfs.html), with its mounts in their places. Links are followed by
our own hand: an absolute link of the container points into the container, not into this host.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    DENIED,
    ERROR,
    ProbeFailure,
    outcome_of,
)

_LINKS_AT_MOST = (
    40  # as many as the kernel follows, https://man7.org/linux/man-pages/man7/path_resolution.7.html
)
_OPAQUE = ("trusted.overlay.opaque", "user.overlay.opaque")


@dataclass(frozen=True)
class Found:
    """A path inside and where it lies on this host; a directory may have several places."""

    path: str
    places: List[str]
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.status.st_mode)


@dataclass(frozen=True)
class FileTree:
    """A file system seen from outside: ``layers`` from top to bottom, ``mounts`` as (inside, host) paths."""

    layers: List[str]
    mounts: List[Tuple[str, str]] = field(default_factory=list)
    label: str = ""

    def find(self, path: str, follow: bool = True) -> Found:
        """Resolve ``path``; raises ProbeFailure with absent or denied."""
        pending = _parts(path)
        stack: List[Tuple[str, List[str], os.stat_result]] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                del stack[-1:]
                continue
            inside = "/".join(["", *[name for name, _places, _status in stack], part])
            places, status = self._step(inside, part, stack[-1][1] if stack else self._root_places())
            if not stat.S_ISLNK(status.st_mode) or not (follow or pending):
                stack.append((part, places, status))
                continue
            links += 1
            if links > _LINKS_AT_MOST:
                raise ProbeFailure(ERROR, "%s: too many links%s" % (path, self._where()))
            target = os.readlink(places[0])
            if target.startswith("/"):
                stack.clear()
            pending += _parts(target)
        if not stack:
            places = self._root_places()
            return Found("/", places, self._stat_through_host(places[0], "/"))
        return Found("/".join(["", *[name for name, _places, _status in stack]]), *stack[-1][1:])

    def _root_places(self) -> List[str]:
        for inside, host in self.mounts:
            if inside == "/":
                return [host]
        return list(self.layers)

    def _step(self, inside: str, part: str, places: Sequence[str]) -> Tuple[List[str], os.stat_result]:
        """Go down one name, over all layers; the topmost decides what it is, directories are joined."""
        for mounted, host in self.mounts:
            if mounted == inside:
                return [host], self._stat_through_host(host, inside)
        found: List[str] = []
        first: Optional[os.stat_result] = None
        denied: Optional[OSError] = None
        for place in places:
            candidate = os.path.join(place, part)
            try:
                status = os.lstat(candidate)
            except OSError as error:
                if outcome_of(error) != ABSENT:
                    denied = denied or error
                continue
            if _is_whiteout(status) or (first is not None and not stat.S_ISDIR(status.st_mode)):
                break
            first = first or status
            found.append(candidate)
            if not stat.S_ISDIR(status.st_mode) or _is_opaque(candidate):
                break
        if first is None:
            if denied is not None:
                raise self._failure(denied, inside)
            if any(mounted.startswith(inside + "/") for mounted, _host in self.mounts):
                # Way to a mount that only a start would make, in a container that was never started.
                return [], os.stat("/")
            raise ProbeFailure(ABSENT, "%s: not there%s" % (inside, self._where()))
        return found, first

    def _stat_through_host(self, host: str, inside: str) -> os.stat_result:
        try:
            return os.stat(host)
        except OSError as error:
            raise self._failure(error, inside) from error

    def _failure(self, error: OSError, path: str) -> ProbeFailure:
        outcome = outcome_of(error)
        hint = "; needs root" if outcome == DENIED else ""
        return ProbeFailure(outcome, "%s: %s%s%s" % (path, error.strerror, self._where(), hint))

    def _where(self) -> str:
        return " in %s" % self.label if self.label else ""

    def read(self, path: str, limit: int = 1024 * 1024) -> bytes:
        """The first ``limit`` bytes of a regular file."""
        found = self.find(path)
        if not stat.S_ISREG(found.status.st_mode):
            raise ProbeFailure(ABSENT, "%s: not a regular file%s" % (path, self._where()))
        try:
            # The path is resolved already: a link here means that somebody changed it meanwhile. A named
            # pipe put there meanwhile must not block either.
            descriptor = os.open(found.places[0], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._failure(error, path) from error
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read(limit)

    def names(self, path: str) -> List[str]:
        """The names in a directory, over all layers, sorted."""
        return sorted(self._entries(self.find(path)))

    def _entries(self, found: Found) -> Dict[str, str]:
        if not found.is_directory:
            raise ProbeFailure(ABSENT, "%s: not a directory%s" % (found.path, self._where()))
        entries: Dict[str, str] = {}
        for place in found.places:
            try:
                with os.scandir(place) as listing:
                    for entry in listing:
                        entries.setdefault(entry.name, entry.path)
            except OSError as error:
                raise self._failure(error, found.path) from error
        return {name: place for name, place in entries.items() if not _is_whiteout_path(place)}

    def exists(self, path: str) -> bool:
        """Whether something is there; a refusal is raised, since it is no answer."""
        try:
            self.find(path)
        except ProbeFailure as failure:
            if failure.reading.outcome == ABSENT:
                return False
            raise
        return True

    def walk(self, path: str) -> Iterator[Tuple[str, os.stat_result]]:
        """Every file below a directory as (path inside, status); links are told and not followed."""
        waiting = [self.find(path)]
        while waiting:
            current = waiting.pop()
            for name, place in self._entries(current).items():
                inside = current.path.rstrip("/") + "/" + name
                try:
                    status = os.lstat(place)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(Found(inside, *self._step(inside, name, current.places)))
                        continue
                except (OSError, ProbeFailure):
                    continue  # removed while being listed
                yield inside, status


def _parts(path: str) -> List[str]:
    """The names of a path, the first one last."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_whiteout_path(place: str) -> bool:
    try:
        return _is_whiteout(os.lstat(place))
    except OSError:
        return True


def _is_opaque(place: str) -> bool:
    for name in _OPAQUE:
        try:
            if os.getxattr(place, name, follow_symlinks=False) == b"y":
                return True
        except OSError:
            continue
    return False


def process_tree(pid: int, proc: str = "/proc") -> FileTree:
    """The file system as a living process sees it, all its mounts included."""
    return FileTree(["%s/%d/root/" % (proc, pid)], label="the root of process %d" % pid)


def told_layers(inspect: Mapping[str, Any]) -> List[str]:
    """The layers that the Engine's storage driver tells, from top to bottom; none when it tells none."""
    data = (inspect.get("GraphDriver") or {}).get("Data") or {}
    if not data.get("UpperDir"):
        return []
    return [data["UpperDir"], *[layer for layer in str(data.get("LowerDir") or "").split(":") if layer]]


def storage_name(inspect: Mapping[str, Any]) -> str:
    """The storage driver of a container, or its snapshotter."""
    root = (inspect.get("Storage") or {}).get("RootFS") or {}
    driver = inspect.get("GraphDriver") or {}
    return str(driver.get("Name") or (root.get("Snapshot") or {}).get("Name") or "")


def stopped_tree(inspect: Mapping[str, Any], layers: List[str]) -> FileTree:
    """The file system of a container that does not run, with its mounts in their places."""
    mounts = [
        (str(mount["Destination"]).rstrip("/") or "/", str(mount["Source"]))
        for mount in inspect.get("Mounts") or []
        if mount.get("Source") and mount.get("Destination")
    ]
    return FileTree(layers, mounts, "the storage of container %s" % str(inspect.get("Id", ""))[:12])
