# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name what runs a process: a container engine, Kubernetes, Slurm, systemd, a terminal (private; pure).

Several answers can be true at once (enroot inside a Slurm job; Docker inside a Slurm job), so all are
returned, the innermost first. Evidence is the process's cgroup, its environment, its ancestors and its root.
Cgroup names: https://systemd.io/CGROUP_DELEGATION, https://kubernetes.io/docs/concepts/architecture/cgroups,
https://slurm.schedmd.com/cgroups.html; enroot and its Slurm plugin: https://github.com/NVIDIA/enroot,
https://github.com/NVIDIA/pyxis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Sequence

_ID = r"(?P<id>[0-9a-f]{64})"

# Order matters: a Kubernetes pod's path also has the container engine's part.
_CGROUPS = (
    ("containerd (Kubernetes)", re.compile(r"kubepods.*?(?:cri-containerd[-:])" + _ID)),
    ("CRI-O (Kubernetes)", re.compile(r"kubepods.*?crio-" + _ID)),
    ("Docker (Kubernetes)", re.compile(r"kubepods.*?docker-" + _ID)),
    ("containerd (Kubernetes)", re.compile(r"kubepods.*/" + _ID)),
    ("Docker", re.compile(r".*(?:/docker[-/])" + _ID)),
    ("Podman", re.compile(r".*libpod-(?:payload-)?" + _ID)),
    ("containerd (nerdctl)", re.compile(r".*nerdctl-" + _ID)),
    ("containerd", re.compile(r".*/" + _ID)),
    ("LXC", re.compile(r".*/lxc(?:\.payload)?[./](?P<id>[^/]+)")),
)
_POD = re.compile(r"pod(?P<pod>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_SLURM = re.compile(r"/(?:slurm[^/]*/)?(?:uid_\d+/)?job_(?P<job>\d+)(?:/step_(?P<step>[^/]+))?")
_SERVICE = re.compile(r"/(?P<unit>[^/]+\.service)(?:/|$)")
_SCOPE = re.compile(r"/(?P<unit>(?:session-[^/]+|[^/]+)\.scope)(?:/|$)")
_TERMINALS = {
    "tmux: server": "tmux",
    "tmux": "tmux",
    "screen": "screen",
    "SCREEN": "screen",
    "zellij": "zellij",
}


@dataclass(frozen=True)
class Runtime:
    """One thing that runs a process: its name, its own identifier, and what told so."""

    name: str
    identifier: str = ""
    evidence: str = ""
    details: Dict[str, str] = field(default_factory=dict)


def name_runtimes(
    cgroup: str, environment: Mapping[str, str], ancestors: Sequence[str], root_mount: str = ""
) -> List[Runtime]:
    """All runtimes of a process, the innermost first; "bare" when there is no sign of any.

    ``cgroup`` is the text of /proc/PID/cgroup, ``ancestors`` the command names from parent to init, and
    ``root_mount`` the line of /proc/PID/mountinfo that mounts "/".
    """
    paths = [line.split(":", 2)[2] for line in cgroup.splitlines() if line.count(":") >= 2]
    found = _of_cgroup(paths) + _of_root(environment, root_mount)
    found += _of_slurm(paths, environment) + _of_terminal(environment, ancestors)
    if not any(runtime.evidence.startswith("cgroup ") for runtime in found):
        # A unit or session above a container or job is only where its daemon lives.
        found += _of_systemd(paths)
    return found or [Runtime("bare", evidence="no sign of a container, a scheduler, a unit or a terminal")]


def container_ids(cgroup: str) -> List[str]:
    """The identifiers of containers that a cgroup text names, the innermost first."""
    return re.findall(r"[0-9a-f]{64}", cgroup)[::-1]


def _of_cgroup(paths: Sequence[str]) -> List[Runtime]:
    for path in sorted(set(paths), key=len, reverse=True):
        for name, pattern in _CGROUPS:
            match = pattern.match(path) or pattern.search(path)
            if match:
                pod = _POD.search(path)
                details = {"pod_uid": pod.group("pod").replace("_", "-")} if pod else {}
                return [Runtime(name, match.group("id"), "cgroup " + path, details)]
    return []


def _of_root(environment: Mapping[str, str], root_mount: str) -> List[Runtime]:
    """Runtimes that keep the caller's cgroup and are seen by their root file system or their variables."""
    for name, variable in (("Apptainer", "APPTAINER_CONTAINER"), ("Singularity", "SINGULARITY_CONTAINER")):
        if environment.get(variable):
            return [Runtime(name, environment[variable], "variable " + variable)]
    if re.search(r"/enroot/|pyxis_", root_mount):
        match = re.search(r"/(?P<name>pyxis_[^/,:\s]+)", root_mount)
        match = match or re.search(r"/enroot/(?:\S*/)?(?P<name>[^/,:\s]+)", root_mount)
        return [Runtime("enroot", match.group("name") if match else "", "root mount " + root_mount)]
    names = sorted(name for name in environment if name.startswith(("PYXIS_", "ENROOT_")))
    return [Runtime("enroot", "", "variables " + ", ".join(names[:4]))] if names else []


def _of_slurm(paths: Sequence[str], environment: Mapping[str, str]) -> List[Runtime]:
    for path in paths:
        match = _SLURM.search(path)
        if match:
            details = {"step": match.group("step") or ""}
            return [Runtime("Slurm", match.group("job"), "cgroup " + path, details)]
    job = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID")
    if job:
        # The variables of a job also live on in a shell that was started from it and left it.
        details = {"step": environment.get("SLURM_STEP_ID", "")}
        return [Runtime("Slurm", job, "variable SLURM_JOB_ID", details)]
    return []


def _of_terminal(environment: Mapping[str, str], ancestors: Sequence[str]) -> List[Runtime]:
    for command in ancestors:
        if command in _TERMINALS:
            name = _TERMINALS[command]
            session = environment.get("TMUX" if name == "tmux" else "STY", "")
            return [Runtime(name, session, "ancestor %s" % command)]
    for variable, name in (("TMUX", "tmux"), ("STY", "screen")):
        if environment.get(variable):
            return [Runtime(name, environment[variable], "variable %s, but no such ancestor" % variable)]
    return []


def _of_systemd(paths: Sequence[str]) -> List[Runtime]:
    for path in paths:
        services = [unit for unit in _SERVICE.findall(path) if not re.match(r"^user@\d+\.service$", unit)]
        if services:
            return [Runtime("systemd unit", services[-1], "cgroup " + path)]
    for path in paths:
        scopes = _SCOPE.findall(path)
        if scopes:
            name = "login session" if scopes[-1].startswith("session-") else "systemd scope"
            return [Runtime(name, scopes[-1], "cgroup " + path)]
    return []
