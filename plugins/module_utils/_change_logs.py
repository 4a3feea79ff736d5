# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the logs that tell of earlier changes: packages, boots, services, files (private to the collection).

Formats: https://man7.org/linux/man-pages/man1/dpkg.1.html (log), apt's history.log, dnf's rpm log,
https://man7.org/linux/man-pages/man1/journalctl.1.html, https://man7.org/linux/man-pages/man1/last.1.html
"""

from __future__ import annotations

import glob
import gzip
import os
import re
import zlib
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._changes import event
from ansible_collections.gpufleet.baseline.plugins.module_utils._packages import relevant
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    OK,
    ProbeFailure,
    Reading,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import from_iso, from_words

# Files whose time of change says when somebody last touched the set-up.
CONFIGURATION = (
    "etc/docker/daemon.json",
    "etc/containerd/config.toml",
    "etc/nvidia-container-runtime/config.toml",
    "etc/cdi/*",
    "var/run/cdi/*",
    "etc/nvidia-imex/*",
    "etc/modprobe.d/*nvidia*",
    "etc/modprobe.d/*nouveau*",
    "etc/modprobe.d/*mlx*",
    "etc/default/grub",
    "etc/sysctl.conf",
    "etc/sysctl.d/*",
    "etc/security/limits.conf",
    "etc/security/limits.d/*",
    "etc/ld.so.conf.d/*",
    "etc/systemd/system/*.service",
    "etc/systemd/system/*.service.d/*.conf",
    "etc/apt/apt.conf.d/*upgrades*",
    "var/run/reboot-required",
    "usr/share/nvidia/nvswitch/fabricmanager.cfg",
)

_DPKG = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (install|upgrade|remove|purge) ([^:\s]+)(?::\S+)? (\S+) (\S+)$"
)
_DNF = re.compile(
    r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)(?: \w+)? "
    r"(Install|Upgrade|Update|Downgrade|Erase|Remove|Reinstall)(?:e?d)?: (\S+)$"
)
_ANY_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[T ] ?\d\d:\d\d:\d\d(?:[+-]\d{4})?)"
    r"|((?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?: \d{4})?)"
)
_APT_PACKAGE = re.compile(r"([^\s,:]+)(?::\S+)? \(([^)]*)\)")
_BOOT = re.compile(r"^\s*(-?\d+)\s+([0-9a-f]{32})\s")
_BOOT_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\b")
_LAST = re.compile(
    r"^reboot\s+system boot\s+(\S+)\s+([A-Z][a-z]{2} [A-Z][a-z]{2}\s+\d+ \d\d:\d\d:\d\d \d{4})"
)
_UNIT_LINE = re.compile(
    r"^(\S+) \S+ systemd\[1\]: (Started|Stopped|Stopping|Reloading|Reloaded|Failed to start|"
    r"\S+: Failed with result|\S+: Main process exited)(.*)$"
)


def read_rotated(pattern: str, limit: int = 4 * 1024 * 1024) -> Reading:
    """A log with its rotated parts, oldest first, at most ``limit`` bytes of the newest text."""
    paths = sorted(glob.glob(pattern), key=lambda path: (os.stat(path).st_mtime, path), reverse=True)
    if not paths:
        raise ProbeFailure(ABSENT, "there is no %s" % pattern, pattern)
    parts: List[bytes] = []
    room, cut, broken = limit, 0, []
    for path in paths:
        content, problem = _content(path, limit)
        if problem:
            broken.append(problem)
        kept = content[-room:] if room else b""
        cut += len(content) - len(kept)
        room -= len(kept)
        parts.insert(0, kept)
    raw = b"".join(parts)
    return Reading(
        raw.decode("utf-8", "backslashreplace"), raw, OK, "; ".join(broken), pattern, cut_bytes=cut
    )


def _content(path: str, limit: int) -> Tuple[bytes, str]:
    """The end of a file, unpacked; a file that is broken gives what comes before the break."""
    if not path.endswith(".gz"):
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - limit))
            return stream.read(limit), ""
    tail = b""
    try:
        with gzip.open(path, "rb") as packed:
            for block in iter(lambda: packed.read(1024 * 1024), b""):
                tail = (tail + block)[-limit:]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return tail, "%s: %s" % (path, error)
    return tail, ""


def log(
    parse: Callable[[str], List[Dict[str, Any]]], now: float, newest_first: bool = False
) -> Callable[[str], Dict[str, Any]]:
    """The value of a log's probe: its events, and the time of its oldest line, before which it is silent."""

    def read(text: str) -> Dict[str, Any]:
        lines = text.splitlines()
        return {"events": parse(text), "begins": _begins(reversed(lines) if newest_first else lines, now)}

    return read


def _begins(lines: Iterable[str], now: float) -> Optional[float]:
    for line in lines:
        match = _ANY_TIME.search(line)
        if match:
            iso, words = match.groups()
            return from_iso(" ".join(iso.split())) if iso else from_words(words, now)
    return None


def parse_dpkg_log(text: str) -> List[Dict[str, Any]]:
    """Installs, upgrades and removals of the packages that matter here."""
    events = []
    for line in text.splitlines():
        match = _DPKG.match(line)
        if match and relevant([{"name": match.group(3), "version": ""}]):
            time, action, name, old, new = match.groups()
            what = "%s %s" % (action, name)
            versions = " -> ".join(version for version in (old, new) if version != "<none>")
            events.append(event(from_iso(time), "%s %s" % (what, versions), "package"))
    return events


def parse_apt_history(text: str) -> List[Dict[str, Any]]:
    """One event for each run of apt: the command, who asked for it, and the packages that matter."""
    events = []
    for block in text.split("\n\n"):
        pairs = (line.partition(": ") for line in block.splitlines() if ": " in line)
        fields = {key: value for key, _colon, value in pairs}
        if "Start-Date" in fields:
            time = from_iso(" ".join(fields["Start-Date"].split()))
            events.append(event(time, _apt_words(fields), "package run"))
    return events


def _apt_words(fields: Dict[str, str]) -> str:
    counts, named = [], []
    for action in ("Install", "Upgrade", "Downgrade", "Reinstall", "Remove", "Purge"):
        packages = _APT_PACKAGE.findall(fields.get(action, ""))
        if packages:
            counts.append("%s %d" % (action.lower(), len(packages)))
        named += [name for name, _versions in packages if relevant([{"name": name, "version": ""}])]
    words = "apt: " + fields.get("Commandline", "no command line")
    if fields.get("Requested-By"):
        words += " by %s" % fields["Requested-By"]
    words += " (%s)" % ", ".join(counts or ["no package"])
    if named:
        words += (
            ": " + ", ".join(named[:12]) + (" and %d more" % (len(named) - 12) if len(named) > 12 else "")
        )
    return words


def rpm_log_parser(now: float) -> Callable[[str], List[Dict[str, Any]]]:
    """A parser for dnf's rpm log and for yum's older log, whose lines lack the year."""

    def parse(text: str) -> List[Dict[str, Any]]:
        events = []
        for line in text.splitlines():
            match = _DNF.match(line)
            if match and relevant([{"name": match.group(3), "version": ""}]):
                time, action, package = match.groups()
                seconds = from_iso(time) if time[0].isdigit() else from_words(time, now)
                events.append(event(seconds, "%s %s" % (action.lower(), package), "package"))
        return events

    return parse


def rpm_events(packages: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """When each package that is installed now was installed, as the rpm database has it."""
    return [
        event(package["installed"], "installed %s %s" % (package["name"], package["version"]), "package")
        for package in relevant(packages)
        if package["installed"] is not None
    ]


def parse_boots(text: str) -> List[Dict[str, Any]]:
    """The boots that the journal knows, from ``journalctl --list-boots`` of any age."""
    events = []
    for line in text.splitlines():
        boot, time = _BOOT.match(line), _BOOT_TIME.search(line)
        if boot and time:
            events.append(event(from_iso(time.group(1)), "boot %s" % boot.group(2), "boot"))
    return events


def last_parser(now: float) -> Callable[[str], List[Dict[str, Any]]]:
    """A parser for ``last -F -x reboot``, which also knows boots that the journal has dropped."""

    def parse(text: str) -> List[Dict[str, Any]]:
        found = (_LAST.match(line) for line in text.splitlines())
        return [
            event(from_words(match.group(2), now), "boot of kernel %s" % match.group(1), "boot")
            for match in found
            if match
        ]

    return parse


def parse_unit_lines(text: str) -> List[Dict[str, Any]]:
    """Starts, stops, failures and reloads in the journal of process 1."""
    events = []
    for line in text.splitlines():
        match = _UNIT_LINE.match(line)
        if match:
            events.append(event(from_iso(match.group(1)), (match.group(2) + match.group(3))[:200], "service"))
    return events


def read_files(root: str = "/", patterns: Sequence[str] = CONFIGURATION) -> List[Dict[str, Any]]:
    """When the files of the set-up were last written."""
    events = []
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            try:
                status = os.stat(path)
            except OSError:  # gone meanwhile, or a link to nowhere
                continue
            shown = "/" + os.path.relpath(path, root)
            events.append(event(status.st_mtime, "%s was last written" % shown, "file"))
    return events
