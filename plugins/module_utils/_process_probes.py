# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All questions about one process of an engine (private to the collection)."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List

from ansible_collections.gpufleet.baseline.plugins.module_utils._command import run_command
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import FileTree, process_tree
from ansible_collections.gpufleet.baseline.plugins.module_utils._devices import visible_devices
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery, EngineProcess
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import find_engine
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    Emit,
    ProbeSpec,
    Reading,
    command_reading,
    read_file,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import (
    parse_arguments,
    parse_maps,
    parse_status,
    read_process,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import name_runtimes
from ansible_collections.gpufleet.baseline.plugins.module_utils._start_probes import Start, file_probes

_DEADLINE = 10.0
_MAPS_LIMIT = 16 * 1024 * 1024


def one_process(process: EngineProcess, found: Discovery, member: str) -> List[ProbeSpec]:
    """Every question about one process; names begin with ``process.<pid>``."""
    pid = process.line.pid
    prefix = "process.%d" % pid

    def facts(emit: Emit) -> Reading:
        return _as_document(_same(process, read_process(pid, emit)))

    def maps(emit: Emit) -> Reading:
        reading = read_file("/proc/%d/maps" % pid, _MAPS_LIMIT)
        reading.value = parse_maps(reading.value)
        return reading

    def start() -> Start:
        return start_of(pid)

    def tree() -> FileTree:
        return process_tree(pid)

    specs = [
        ProbeSpec(prefix + ".facts", facts, _DEADLINE, member=member + "/process.json"),
        ProbeSpec(prefix + ".maps", maps, _DEADLINE, member=member + "/maps.txt"),
    ]
    if process.leader:
        # An engine in a container is asked these questions once, as the container's.
        specs.append(ProbeSpec(prefix + ".devices", lambda emit: visible_devices(pid), _DEADLINE))
        specs += file_probes(prefix, member, find_engine(process.line.argv), start, tree)
        specs += _unit_probes(process, prefix, member)
    return specs


def _same(process: EngineProcess, reading: Reading) -> Reading:
    """The number may have gone to another process since the list was made; its start time tells."""
    if reading.value["start_ticks"] != process.line.start_ticks:
        return Reading(
            outcome="absent", message="process %d ended while it was being read" % process.line.pid
        )
    return reading


def _as_document(reading: Reading) -> Reading:
    reading.raw = (json.dumps(reading.value, indent=1, sort_keys=True) + "\n").encode()
    return reading


def start_of(pid: int) -> Start:
    """How a process was started, from /proc, as far as its files need it."""
    environment = environment_of(parse_arguments(read_file("/proc/%d/environ" % pid).raw))
    argv = parse_arguments(read_file("/proc/%d/cmdline" % pid).raw)
    status = parse_status(str(read_file("/proc/%d/status" % pid).value))
    user = status.get("Uid", "0").split()[0]
    return Start(argv, environment, user, os.readlink("/proc/%d/cwd" % pid))


def _unit_probes(process: EngineProcess, prefix: str, member: str) -> List[ProbeSpec]:
    """The unit's files, when systemd runs the process."""
    runtimes = name_runtimes(process.line.cgroup, {}, process.ancestors)
    units = [runtime.identifier for runtime in runtimes if runtime.name == "systemd unit"]
    if not units:
        return []

    def run(emit: Emit) -> Reading:
        result = run_command(["systemctl", "cat", "--no-pager", units[0]], _DEADLINE)
        reading = command_reading(result)
        reading.value = {"unit": units[0], "files": unit_files(str(reading.value))}
        return reading

    return [ProbeSpec(prefix + ".unit", run, _DEADLINE + 2.0, member=member + "/unit.txt")]


def unit_files(text: str) -> List[Dict[str, Any]]:
    """The files that ``systemctl cat`` printed, each after a line with its path, and when they changed."""
    found = []
    for path in re.findall(r"^# (/\S+)$", text, re.MULTILINE):
        try:
            changed = os.stat(path).st_mtime
        except OSError:
            changed = None
        found.append({"path": path, "changed": changed})
    return found
