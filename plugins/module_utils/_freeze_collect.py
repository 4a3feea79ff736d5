# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that a freeze asks a host, in two rounds of probes (private to the collection).

The probes themselves are the tables of _gpu_probes and _engine_probes; here they are joined with the files that the
user names and with the lists of what was there before and after.
"""

from __future__ import annotations

import glob
import os
import stat
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Dict, List, Mapping

from ansible_collections.gpufleet.baseline.plugins.module_utils import (
    _before_after,
    _engine_probes,
    _gpu_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery, discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine, find_socket
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    ERROR,
    OK,
    SKIPPED,
    Emit,
    Probe,
    ProbeFailure,
    ProbeSpec,
    Reading,
    outcome_of,
    read_file,
    run_probes,
)

EXTRA_FILES_AT_MOST = 200
EXTRA_FILE_DEADLINE = 20.0
# Look like plain files, and what was read is gone for the next reader (proc_kmsg(5), the kernel's trace/ftrace.rst).
READING_CHANGES = (
    "/proc/kmsg",
    "/sys/kernel/tracing/trace_pipe",
    "/sys/kernel/debug/tracing/trace_pipe",
)


@dataclass
class Collected:
    """Answers by probe name, and what of containers and processes they are about."""

    answers: Dict[str, Probe] = field(default_factory=dict)
    found: Discovery = field(default_factory=Discovery)


def first_round(options: Mapping[str, Any]) -> List[ProbeSpec]:
    """What can be asked of any host: itself, its GPUs, its Docker Engine, which of the named files are there."""
    patterns = list(options.get("extra_files") or [])
    specs = [*_gpu_probes.probes(options), *_engine_probes.probes(options)]
    specs += [
        ProbeSpec("extra.match.%d" % number, partial(_match, pattern), EXTRA_FILE_DEADLINE)
        for number, pattern in enumerate(patterns)
    ]
    return specs


def second_round(
    found: Discovery, answers: Mapping[str, Probe], options: Mapping[str, Any]
) -> List[ProbeSpec]:
    """What follows from the first answers: every chosen container and process, every named file that is there."""
    specs = _engine_probes.container_probes(found, options) + _engine_probes.process_probes(found, options)
    paths = [
        path
        for name, probe in answers.items()
        if name.startswith("extra.match.")
        for path in probe.value or []
    ]
    chosen = list(dict.fromkeys(paths))
    for number, path in enumerate(chosen[:EXTRA_FILES_AT_MOST]):
        specs.append(
            ProbeSpec(
                "extra.file.%d" % number,
                partial(_extra_file, path),
                EXTRA_FILE_DEADLINE,
                member="extra" + path,
            )
        )
    if len(chosen) > EXTRA_FILES_AT_MOST:
        specs.append(ProbeSpec("extra.more", partial(_too_many, len(chosen)), EXTRA_FILE_DEADLINE))
    return specs


def _too_many(count: int, _emit: Emit) -> Reading:
    raise ProbeFailure(
        SKIPPED,
        "extra_files name %d files, the first %d were kept; name fewer" % (count, EXTRA_FILES_AT_MOST),
    )


def _extra_file(path: str, _emit: Emit) -> Reading:
    """A regular file that nobody misses what was read of; opening a device or emptying a pipe would change the host."""
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except OSError as error:
        raise ProbeFailure(outcome_of(error), "%s: %s" % (path, error.strerror), path) from error
    if kind == stat.S_IFDIR:
        raise ProbeFailure(ERROR, "%s is a directory; name its files, such as %s/*" % (path, path), path)
    if kind != stat.S_IFREG or os.path.realpath(path) in READING_CHANGES:
        raise ProbeFailure(SKIPPED, "%s is no plain file; reading it could change the host" % path, path)
    return read_file(path)


def _match(pattern: str, emit: Emit) -> Reading:
    """The files that a shell pattern names; an absolute path without a pattern names itself."""
    if not pattern.startswith("/"):
        raise ProbeFailure("error", "extra_files: expected an absolute path, found %r" % pattern, pattern)
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise ProbeFailure(ABSENT, "no file matches %s" % pattern, pattern)
    return Reading(paths, source=pattern)


def collect(options: Mapping[str, Any]) -> Collected:
    """Ask everything; the lists of what was there before come first."""
    answers = run_probes(_listings(options, "before") + first_round(options))
    found = discovery(answers, options)
    answers.update(run_probes(second_round(found, answers, options)))
    return Collected(answers, found)


def ask_after(options: Mapping[str, Any], before: Mapping[str, Probe]) -> Dict[str, Probe]:
    """The lists of what is there afterwards, where there is a first one to compare with."""
    return run_probes(
        [
            spec if first.outcome == OK else replace(spec, run=partial(_not_asked, first))
            for spec in _listings(options, "after")
            for first in [before[spec.name.replace("after.", "before.", 1)]]
        ]
    )


def _listings(options: Mapping[str, Any], when: str) -> List[ProbeSpec]:
    listing = partial(docker_listing, str(options.get("docker_socket") or ""))
    return _before_after.probes(listing, when, float(options.get("docker_deadline") or 30.0))


def _not_asked(first: Probe, _emit: Emit) -> Reading:
    raise ProbeFailure(
        SKIPPED, "not asked: the first look was %s, %s" % (first.outcome, first.message), first.source
    )


def docker_listing(socket: str, kind: str) -> Dict[str, str]:
    """Containers with their state, or images with their tags, by id."""
    with Engine(find_socket(socket, os.environ).path) as engine:
        if kind == "images":
            return {
                str(item["Id"]): ", ".join(sorted(item.get("RepoTags") or [])) for item in engine.images()
            }
        return {
            str(item["Id"]): "%s, created %s" % (item.get("State", ""), item.get("Created", ""))
            for item in engine.containers()
        }
