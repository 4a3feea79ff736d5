# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which containers and processes of a host are an engine's (private to the collection; pure).

Everything here follows from the answers to the first questions (_engine_probes.probes), so it can be found
again from a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ansible_collections.gpufleet.baseline.plugins.module_utils._containers import Choice, choose
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import (
    find_engine,
    looks_like_engine,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, OK, TIMEOUT, Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import (
    ProcessLine,
    ancestors,
    descendants,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import container_ids

PROCESSES_AT_MOST = 160


@dataclass(frozen=True)
class EngineProcess:
    """One process to read. A ``leader`` starts an engine outside of a known container."""

    line: ProcessLine
    container: str = ""
    leader: bool = False
    ancestors: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Discovery:
    """What there is to look at, and in words what was wanted and is not there."""

    socket: str = ""
    podman: bool = False
    silent: str = ""  # the first question that the Engine left unanswered
    info: Mapping[str, Any] = field(default_factory=dict)
    inspects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    containers: List[Choice] = field(default_factory=list)
    processes: List[EngineProcess] = field(default_factory=list)
    mountinfo: str = ""
    notes: List[str] = field(default_factory=list)


def discovery(answers: Mapping[str, Probe], options: Mapping[str, Any]) -> Discovery:
    """Choose from the answers to the first questions."""
    listed = _value(answers, "docker.containers") or {}
    info = _value(answers, "docker.info") or {}
    inspects: Dict[str, Any] = dict(listed.get("inspects") or {})
    lines = [ProcessLine(**line) for line in _value(answers, "engine.processes") or []]
    owners = _owners(lines, inspects)
    engines = {line.pid for line in lines if looks_like_engine(line.argv)}
    with_engine = {owners[pid] for pid in engines if owners.get(pid)}
    wanted = [str(name) for name in options.get("containers") or []]
    chosen, missing = choose(list(inspects.values()), wanted, info, with_engine)
    notes = _not_whole(answers, listed)
    notes += [_not_there(name, answers.get("docker.containers")) for name in missing]
    processes = _processes(lines, owners, chosen, engines, options, notes)
    notes += _nothing(answers, chosen, processes, wanted)
    version = _value(answers, "docker.version") or {}
    return Discovery(
        socket=str(version.get("socket") or ""),
        podman="Podman" in str((version.get("version") or {}).get("Components")),
        silent=next((name for name, answer in answers.items() if _is_silence(name, answer)), ""),
        info=info,
        inspects=inspects,
        containers=chosen,
        processes=processes,
        mountinfo=str(_value(answers, "engine.mounts") or ""),
        notes=notes,
    )


def _is_silence(name: str, answer: Probe) -> bool:
    return name.startswith("docker.") and answer.outcome == TIMEOUT


def _not_whole(answers: Mapping[str, Probe], listed: Mapping[str, Any]) -> List[str]:
    """In words, where the lists that everything follows from have gaps."""
    notes = []
    for name, what in (("docker.containers", "containers"), ("engine.processes", "processes")):
        answer = answers.get(name)
        if answer is not None and answer.outcome != OK and answer.value is not None:
            notes.append("the list of %s is not whole: %s, %s" % (what, answer.outcome, answer.message))
    for identifier, (outcome, message) in sorted((listed.get("failed") or {}).items()):
        notes.append("container %s was not read: %s, %s" % (identifier[:12], outcome, message))
    return notes


def _value(answers: Mapping[str, Probe], name: str) -> Any:
    answer = answers.get(name)
    return None if answer is None else answer.value


def _owners(lines: Sequence[ProcessLine], inspects: Mapping[str, Any]) -> Dict[int, str]:
    """The container of each process, by its cgroup, else by its process namespace."""
    by_pid = {line.pid: line for line in lines}
    namespaces = {}
    own = by_pid[1].pid_namespace if 1 in by_pid else ""
    for identifier, inspect in inspects.items():
        first = by_pid.get((inspect.get("State") or {}).get("Pid") or 0)
        if first is not None and first.pid_namespace and first.pid_namespace != own:
            namespaces[first.pid_namespace] = identifier
    owners = {}
    for line in lines:
        named = next((name for name in container_ids(line.cgroup) if name in inspects), "")
        owners[line.pid] = named or namespaces.get(line.pid_namespace, "")
    return owners


def _processes(
    lines: Sequence[ProcessLine],
    owners: Mapping[int, str],
    chosen: Sequence[Choice],
    engines: Set[int],
    options: Mapping[str, Any],
    notes: List[str],
) -> List[EngineProcess]:
    known = {choice.identifier for choice in chosen}
    there = {line.pid for line in lines}
    wanted = [int(pid) for pid in options.get("processes") or []]
    notes += ["process %d is not on this host" % pid for pid in wanted if pid not in there]
    outside = {pid for pid in engines if not owners.get(pid)} if not wanted else set(wanted) & there
    if options.get("containers") and not wanted:
        outside = set()  # the user named what to look at
    roots = _topmost(lines, outside)
    picked = set(descendants(lines, sorted(outside))) | {
        pid for pid, owner in owners.items() if owner in known
    }
    found = []
    for line in lines:
        if line.pid in picked:
            above = [process.command for process in ancestors(lines, line.pid)]
            leader = line.pid in roots
            found.append(EngineProcess(line, owners.get(line.pid, ""), leader, above))
    if len(found) > PROCESSES_AT_MOST:
        notes.append("%d processes belong to engines, %d of them are read" % (len(found), PROCESSES_AT_MOST))
        found = sorted(found, key=lambda process: not process.leader)[:PROCESSES_AT_MOST]
    return found


def _topmost(lines: Sequence[ProcessLine], pids: Set[int]) -> Set[int]:
    """Of engine processes outside of containers, those that say how the engine was started.

    The one with vLLM's own command line; a shell or launcher above it repeats the same words and is not it.
    """
    by_pid = {line.pid: line for line in lines}
    starting = {pid for pid in pids if find_engine(by_pid[pid].argv) is not None}
    inner = {pid for pid in starting if not _has_starting_child(lines, pid, starting)}
    covered = set(descendants(lines, sorted(inner)))
    # A renamed worker whose parent is gone has no command line above it: it stands for itself.
    orphans = {pid for pid in pids - starting if pid not in covered}
    below = {pid for pid in orphans if any(line.pid in orphans for line in ancestors(lines, pid))}
    return inner | (orphans - below)


def _has_starting_child(lines: Sequence[ProcessLine], pid: int, starting: Set[int]) -> bool:
    return any(line.parent == pid and line.pid in starting for line in lines)


def _nothing(
    answers: Mapping[str, Probe],
    chosen: Sequence[Choice],
    processes: Sequence[EngineProcess],
    wanted: Sequence[str],
) -> List[str]:
    """In words, when there is nothing to look at; the host is frozen all the same."""
    listed = answers.get("docker.containers")
    unknown = listed is not None and listed.value is None and listed.outcome not in (OK, ABSENT)
    if unknown and processes and not wanted:
        return ["containers are not known: %s" % _why(listed)]
    if chosen or processes or wanted:
        return []
    if listed is not None and listed.outcome == OK:
        count = len((listed.value or {}).get("list") or [])
        return ["none of %d containers and no process looks like vLLM or asks for GPUs" % count]
    why = _why(listed)
    return ["no process looks like vLLM; containers are not known: %s" % why]


def _not_there(name: str, listed: Optional[Probe]) -> str:
    if listed is not None and listed.outcome in (OK, ABSENT):
        return "container %s is not on this host" % name
    return "container %s is not known: %s" % (name, _why(listed))


def _why(answer: Optional[Probe]) -> str:
    return "the Engine was not asked" if answer is None else "%s, %s" % (answer.outcome, answer.message)
