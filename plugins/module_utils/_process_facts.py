# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One process of an engine as it stands in the document (private to the collection; pure)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import EngineProcess
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import process_title
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured, from_probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import (
    environment_of,
    ranks_of_title,
    scheduling_variables,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, OK, Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import log_kind, root_mount
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import name_runtimes

_STATUS = (
    "State",
    "Uid",
    "Gid",
    "Threads",
    "VmRSS",
    "VmLck",
    "VmPin",
    "NSpid",
    "CapEff",
    "Seccomp",
    "NoNewPrivs",
)
_LIMITS = ("Max locked memory", "Max open files", "Max processes", "Max stack size", "Max core file size")


def process_facts(process: EngineProcess, answers: Mapping[str, Probe]) -> Dict[str, Any]:
    """A process with its ranks, runtimes, libraries, devices and where its log goes."""
    prefix = "process.%d" % process.line.pid
    answer = answers.get(prefix + ".facts")
    read = (answer.value if answer is not None else None) or {}
    environment = environment_of(read.get("environ"))
    argv = read.get("argv") or process.line.argv
    title = process_title(argv, environment.get("VLLM_PROCESS_NAME_PREFIX", "VLLM"))
    runtimes = name_runtimes(
        str(read.get("cgroup") or process.line.cgroup),
        environment,
        process.ancestors,
        root_mount(str(read.get("mountinfo") or "")),
    )
    status = read.get("status") or {}
    limits = read.get("limits") or {}
    return {
        "pid": process.line.pid,
        "parent": process.line.parent,
        "command": process.line.command,
        "state": process.line.state,
        "container": process.container or None,
        "leader": process.leader,
        "title": title,
        "ranks": ranks_of_title(title),
        "runtimes": [vars(runtime) for runtime in runtimes],
        "read": from_probe(answer, lambda value: sorted(set(value) - {"refused"}), prefix + ".facts"),
        "refused": read.get("refused") or {},
        "started": read.get("started"),
        "argv": argv,
        "executable": read.get("exe"),
        "working_directory": read.get("cwd"),
        "environment": read.get("environ"),
        "variables": scheduling_variables(environment),
        "status": {name: status[name] for name in _STATUS if name in status},
        "limits": {name: limits[name] for name in _LIMITS if name in limits},
        "waits_in": read.get("wchan"),
        "cgroup": read.get("cgroup") or process.line.cgroup,
        "open_devices": (read.get("open") or {}).get("devices"),
        "log": _log(read),
        "maps": from_probe(answers.get(prefix + ".maps"), name=prefix + ".maps"),
    }


def _log(read: Mapping[str, Any]) -> List[Dict[str, str]]:
    """Where standard output and error go; a file there is the log of a plain process."""
    outputs = (read.get("open") or {}).get("outputs") or {}
    return [
        {"descriptor": number, "target": target, "kind": log_kind(target)}
        for number, target in sorted(outputs.items())
    ]


def loaded_libraries(pids: Sequence[int], answers: Mapping[str, Probe]) -> Measured:
    """Which copies of the driver's and CUDA's libraries a container's processes really use."""
    found: Dict[str, Dict[str, Any]] = {}
    missing: List[str] = []
    for pid in pids:
        answer = answers.get("process.%d.maps" % pid)
        if answer is None or answer.outcome != OK:
            missing.append("%d (%s)" % (pid, answer.outcome if answer is not None else "not asked"))
            continue
        for library in answer.value["libraries"]:
            found.setdefault(library["path"], {**library, "pids": []})["pids"].append(pid)
    value = [found[path] for path in sorted(found)]
    if not pids:
        return Measured(None, ABSENT, "/proc", "no process of it is alive")
    if missing and not value:
        return Measured(None, _worst(pids, answers), "/proc", "maps not read: %s" % ", ".join(missing))
    return Measured(value, OK, "/proc/PID/maps", "maps not read: %s" % ", ".join(missing) if missing else "")


def _worst(pids: Sequence[int], answers: Mapping[str, Probe]) -> str:
    outcomes = [
        answers["process.%d.maps" % pid].outcome for pid in pids if "process.%d.maps" % pid in answers
    ]
    return next((outcome for outcome in outcomes if outcome not in (OK, ABSENT)), ABSENT)
