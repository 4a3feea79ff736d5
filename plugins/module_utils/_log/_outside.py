# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known outside the engine's log: the kernel's words and the container's state (private to the
collection).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import List, Mapping, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import LAUNCHER, Block
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import Line
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import (
    Finding,
    classify,
    find_row,
)

_XID = re.compile(
    r"(?P<switch>S?)Xid \(PCI:[0-9a-fA-F:.]+\): (?P<number>\d+)"
    r"(?:, pid='?(?P<pid>[^,']+)'?, name=(?P<name>[^,\s]+))?"
)
_BEFORE, _AFTER = 120.0, 30.0
_HALF_HOUR = 1800.0

# Xids that a program's own mistake can cause: they count only when the named program may be the engine.
_PROGRAM_XIDS = ("13", "31", "43", "45")
_LASTING_XIDS = ("48", "63", "64", "74", "79", "94", "95", "119", "120", "136", "137", "140", "143")

# Failures that a kernel message may explain. What names its own cause stays what it is.
EXPLAINED = (
    "cuda-illegal-memory-access", "cuda-launch-failure", "gpu-ecc", "worker-died", "worker-failed",
    "process-crashed", "unclassified",
    "engine-dead", "engine-stalled-rpc-timeout", "engine-start-failed", "peer-lost", "nccl-unknown",
    "nccl-remote-peer", "watchdog",
    "driver-unknown-error", "hang", "killed", "host-oom-killed", "none", "shm-too-small",
    "nccl-collective-timeout",
)  # fmt: skip
_LOST_GPU = (
    "no-gpu-visible",
    "device-busy",
    "device-ordinal-invalid",
    "gpu-count-mismatch",
    "driver-unknown-error",
)


@dataclass
class KernelWord:
    """A line of the kernel that explains a failure."""

    log: Log
    block: Block
    finding: Finding
    failure_class: str
    time: Optional[float]
    sure: bool


def kernel_word(
    logs: List[Log], failure_class: str, when: Optional[float], since: Optional[float]
) -> Optional[KernelWord]:
    """The first kernel message that explains a failure of this class at this time."""
    found: List[Tuple[float, int, KernelWord]] = []
    for log in logs:
        for block in log.kernel_blocks():
            word = _explains(log, block, failure_class, when, since)
            if word is not None:
                found.append((word.time if word.time is not None else 0.0, block.first, word))
    return min(found, key=lambda one: (not one[2].sure, one[0], one[1]))[2] if found else None


def _explains(
    log: Log, block: Block, failure_class: str, when: Optional[float], since: Optional[float]
) -> Optional[KernelWord]:
    finding = classify(block)
    name = finding.failure_class
    lasting = False
    match = _XID.search(block.header)
    if name in ("gpu-xid", "gpu-sxid"):
        if match is None:
            name = "gpu-xid-79" if "fallen off the bus" in block.header else name
            lasting = True
        else:
            name = ("gpu-sxid-" if match["switch"] else "gpu-xid-") + match["number"]
            lasting = match["number"] in _LASTING_XIDS
            if match["number"] in _PROGRAM_XIDS and not _may_be_engine(match["name"]):
                return None
    elif (
        name == "host-oom-killed" and "task=" in block.header and not _may_be_engine(_task(block.header))
    ) or name not in ("host-oom-killed", "process-crashed"):
        return None
    moment = log.common(block.time if block.line.outer is not None else None)
    gone = failure_class in _LOST_GPU and lasting
    if failure_class not in EXPLAINED and not gone:
        return None
    near = _near(moment, when, since, gone or failure_class in ("hang", "none"))
    return None if near is None else KernelWord(log, block, finding, name, moment, near)


def _near(
    moment: Optional[float], when: Optional[float], since: Optional[float], any_earlier: bool
) -> Optional[bool]:
    """True when the times fit, False when they can't be compared or fit up to a time zone, None when they
    do not fit.
    """
    if moment is None or when is None:
        return False
    if -_BEFORE <= moment - when <= _AFTER:
        return True
    if any_earlier and moment <= when + _AFTER and (since is None or moment >= since - 86400.0):
        return since is not None and moment >= since
    shift = round((moment - when) / _HALF_HOUR) * _HALF_HOUR
    if shift and abs(shift) <= 14 * 3600 and -_BEFORE <= moment - shift - when <= _AFTER:
        return False
    return None


def _may_be_engine(name: Optional[str]) -> bool:
    if not name:
        return True
    lowered = name.lower()
    return lowered.startswith(("vllm", "python", "pt_", "ray", "enginecore", "<unknown>", "unknown"))


def _task(text: str) -> str:
    match = re.search(r"task=([^,\s]+)", text)
    return match.group(1) if match else ""


@dataclass
class ContainerEnd:
    """How the container is doing, from docker inspect."""

    running: Optional[bool]
    exit_code: Optional[int]
    oom_killed: bool
    error: str
    started_at: str
    finished_at: str

    @property
    def exited(self) -> bool:
        """Whether it has ended."""
        return self.running is False and self.exit_code is not None


def container_end(state: Optional[Mapping[str, object]]) -> Optional[ContainerEnd]:
    """The parts of a State that matter here; None when there is no State."""
    if not state:
        return None
    inner = state.get("State")
    if isinstance(inner, Mapping):
        state = inner
    running, code = state.get("Running"), state.get("ExitCode")
    status = str(state.get("Status") or "").lower()
    if not isinstance(running, bool):
        running = {"running": True, "paused": True, "restarting": False, "exited": False, "dead": False}.get(
            status
        )
    if status == "created":
        running = False
    return ContainerEnd(
        running,
        code if isinstance(code, int) and not isinstance(code, bool) else None,
        bool(state.get("OOMKilled")),
        str(state.get("Error") or ""),
        str(state.get("StartedAt") or ""),
        str(state.get("FinishedAt") or ""),
    )


def launch_error(end: ContainerEnd) -> Optional[Finding]:
    """The daemon's own reason for a container that never started."""
    if not end.error:
        return None
    row = find_row(LAUNCHER, "Error response from daemon: " + end.error)
    if row is None:
        return None
    return classify(
        Block(LAUNCHER, Line(0, "raw", ""), 0, 0, 0, header="Error response from daemon: " + end.error)
    )
