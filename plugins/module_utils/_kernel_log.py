# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find in the kernel's log what concerns GPUs, memory and the bus (pure; private to the collection).

The same message may come from dmesg, the journal and a log file; ``merge`` counts it once. A line that tells
of one function that a driver does not support is marked harmless: alone it decides nothing.
Xid messages: https://docs.nvidia.com/deploy/xid-errors/
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._smi import pci_address
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import from_iso, from_words
from ansible_collections.gpufleet.baseline.plugins.module_utils._xid import XIDS

# The clocks of dmesg and of the journal drift apart while a host is up.
SAME_MESSAGE_SECONDS = 120.0

MOST_EVENTS = 400
_TEXT_LIMIT = 400

_DMESG = re.compile(r"^(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(?:\[[^\]]*\]\s)?(.*)$")
_ISO = re.compile(r"^(\d{4}-\d\d-\d\dT\S+) (\S+) kernel: (?:\[\s*[\d.]+\]\s)?(.*)$")
_BSD = re.compile(r"^([A-Z][a-z]{2}\s+\d{1,2} \d\d:\d\d:\d\d) (\S+) kernel: (?:\[\s*[\d.]+\]\s)?(.*)$")

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})[^)]*\): (\d+)(?:, (.*))?"
)
_SXID = re.compile(r"(nvidia-nvswitch\d+): SXid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)(?:, (.*))?")
_PID = re.compile(r"\bpid=(\d+)")
_NAME = re.compile(r"\bname=([^,]+)")
_ADDRESS = re.compile(r"\b([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?)\b")
_OOM = re.compile(r"(Memory cgroup out of memory|Out of memory): Kill(?:ed)? process (\d+) \((.*?)\)")
_OOM_TASK = re.compile(r"oom-kill:constraint=(\w+).*?task_memcg=([^,]*),task=([^,]*),pid=(\d+)")
_LOADING = re.compile(r"NVRM: loading NVIDIA UNIX (.*?Kernel Module)(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_MISMATCH = re.compile(r"NVRM: API mismatch: the client has (?:the )?version (\d+(?:\.\d+)+)")
_BLOCKED = re.compile(r"INFO: task (.+?):(\d+) blocked for more than (\d+) seconds")

# kind, what the line contains, whether it is harmless by itself; the first that fits is taken
_PLAIN: Sequence[Tuple[str, re.Pattern[str], bool]] = (
    ("gpu off the bus", re.compile(r"NVRM: .*fallen off the bus"), False),
    ("unsupported function", re.compile(r"(?:NVRM|nvidia).*not supported by the\b"), True),
    ("gpu did not start", re.compile(r"NVRM: .*(?:RmInitAdapter failed|rm_init_adapter failed)"), False),
    ("driver probe failed", re.compile(r"NVRM: The NVIDIA probe routine failed"), False),
    (
        "driver",
        re.compile(r"NVRM: (?:GPU|Assertion|RPC|GSP|nvAssert|No NVIDIA)"),
        False,
    ),
    ("nvlink", re.compile(r"(?:nvidia-nvlink|nvidia-nvswitch|nvidia_cspmu|knvlink).*", re.IGNORECASE), True),
    ("nouveau", re.compile(r"^nouveau \d"), True),
    ("pci error", re.compile(r"(?:PCIe Bus Error|AER: .*(?:Fatal|Uncorrect)|pcieport .*: DPC: )"), False),
    ("machine check", re.compile(r"(?:mce: \[Hardware Error\]|EDAC .* (?:CE|UE) |Machine check)"), False),
    ("network card", re.compile(r"mlx5_core .*(?:Link down|health|error|fail|reset)", re.IGNORECASE), False),
    ("segfault", re.compile(r"\S+\[\d+\]: segfault at "), False),
    ("module load", re.compile(r"^(?:nvidia-modeset: Loading|nvidia_uvm: Loaded|nvidia-uvm: Loaded)"), True),
    ("module unload", re.compile(r"(?:nvidia-uvm: Unloaded|nvidia-nvlink: Unregistered)"), True),
)

# Words without which no pattern above can fit: the log is long and nearly all of it is about something else.
_HINTS = (
    "NVRM",
    "nv",
    "NV",
    "oom",
    "emory",
    "PCIe",
    "AER",
    "DPC",
    "mce",
    "EDAC",
    "achine",
    "mlx5",
    "segfault",
    "nouveau",
    "blocked",
)


def parse(text: str, source: str, boot_time: Optional[float], now: float) -> List[Dict[str, Any]]:
    """The events in one log. ``boot_time`` dates the lines of dmesg, ``now`` those that lack a year."""
    events = []
    for line in text.splitlines():
        if not any(hint in line for hint in _HINTS):
            continue
        seconds, message = _dated(line, boot_time, now)
        event = classify(message) if message else None
        if event:
            events.append({**event, "time": seconds, "text": message[:_TEXT_LIMIT], "sources": [source]})
    return events


def begins(text: str, boot_time: Optional[float], now: float) -> Optional[float]:
    """The time of the log's first line: before it the log is silent."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _dated(first, boot_time, now)[0]


def _dated(line: str, boot_time: Optional[float], now: float) -> Tuple[Optional[float], str]:
    match = _DMESG.match(line)
    if match:
        return (None if boot_time is None else boot_time + float(match.group(1))), match.group(2)
    match = _ISO.match(line)
    if match:
        return from_iso(match.group(1)), match.group(3)
    match = _BSD.match(line)
    if match:
        return from_words(match.group(1), now), match.group(3)
    return None, ""


def classify(message: str) -> Optional[Dict[str, Any]]:
    """What a kernel message tells, None when it is of no interest here."""
    for read in (_xid, _sxid, _oom, _loading, _mismatch, _blocked, _plain):
        event = read(message)
        if event:
            return event
    return None


def _event(kind: str, **more: Any) -> Dict[str, Any]:
    empty = {
        "code": None,
        "pci_address": None,
        "pid": None,
        "process": None,
        "meaning": "",
        "harmless": False,
    }
    return {"kind": kind, **empty, **more}


def _xid(message: str) -> Optional[Dict[str, Any]]:
    match = _XID.search(message)
    if not match:
        return None
    code, rest = int(match.group(2)), match.group(3) or ""
    pid, name = _PID.search(rest), _NAME.search(rest)
    return _event(
        "xid",
        code=code,
        pci_address=pci_address(match.group(1)) + ".0",
        pid=int(pid.group(1)) if pid else None,
        process=name.group(1).strip() if name and "unknown" not in name.group(1) else None,
        meaning=XIDS.get(code, ""),
    )


def _sxid(message: str) -> Optional[Dict[str, Any]]:
    match = _SXID.search(message)
    if not match:
        return None
    meaning = "reported by %s" % match.group(1)
    return _event("sxid", code=int(match.group(3)), pci_address=pci_address(match.group(2)), meaning=meaning)


def _oom(message: str) -> Optional[Dict[str, Any]]:
    match = _OOM.search(message)
    if match:
        group = "of its cgroup" if match.group(1).startswith("Memory cgroup") else "of the host"
        meaning = "killed for lack of memory %s" % group
        return _event("oom kill", pid=int(match.group(2)), process=match.group(3), meaning=meaning)
    match = _OOM_TASK.search(message)
    if match:
        meaning = "%s in cgroup %s" % (match.group(1), match.group(2))
        return _event("oom reason", pid=int(match.group(4)), process=match.group(3), meaning=meaning)
    return None


def _loading(message: str) -> Optional[Dict[str, Any]]:
    match = _LOADING.search(message)
    return _event("driver load", meaning=match.group(2), harmless=True) if match else None


def _mismatch(message: str) -> Optional[Dict[str, Any]]:
    match = _MISMATCH.search(message)
    if not match:
        return None
    return _event("version mismatch", meaning="a process came with user libraries %s" % match.group(1))


def _blocked(message: str) -> Optional[Dict[str, Any]]:
    match = _BLOCKED.search(message)
    if not match:
        return None
    meaning = "in uninterruptible sleep for over %s s" % match.group(3)
    return _event("hung task", process=match.group(1), pid=int(match.group(2)), meaning=meaning)


def _plain(message: str) -> Optional[Dict[str, Any]]:
    for kind, pattern, harmless in _PLAIN:
        if pattern.search(message):
            found = _ADDRESS.search(message)
            address = pci_address(found.group(1)) if found else None
            return _event(kind, pci_address=address, harmless=harmless)
    return None


def merge(*logs: Iterable[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The events of several logs in their order in time, each message once with all its sources."""
    merged: List[Dict[str, Any]] = []
    by_text: Dict[str, List[Dict[str, Any]]] = {}
    for log in logs:
        taken: Set[int] = set()
        for event in log:
            known = by_text.setdefault(event["text"], [])
            free = [other for other in known if id(other) not in taken]
            twin = next((other for other in free if _same_time(other, event)), None)
            if twin is None:
                twin = dict(event, sources=list(event["sources"]))
                known.append(twin)
                merged.append(twin)
            else:
                twin["sources"] += [source for source in event["sources"] if source not in twin["sources"]]
                twin["time"] = event["time"] if twin["time"] is None else twin["time"]
            taken.add(id(twin))
    return sorted(merged, key=lambda event: (event["time"] is not None, event["time"] or 0.0))


def _same_time(one: Dict[str, Any], other: Dict[str, Any]) -> bool:
    if one["time"] is None or other["time"] is None:
        return True
    return bool(abs(one["time"] - other["time"]) <= SAME_MESSAGE_SECONDS)


def condense(events: Sequence[Dict[str, Any]], most: int = MOST_EVENTS) -> Tuple[List[Dict[str, Any]], int]:
    """At most ``most`` events, the earliest and the latest, and the number that was left out between them."""
    if len(events) <= most:
        return list(events), 0
    half = most // 2
    return [*events[:half], *events[len(events) - half :]], len(events) - 2 * half


def count(events: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """How often each kind and code came for each address, with the first and the last time."""
    groups: Dict[Tuple[Any, Any, Any], Dict[str, Any]] = {}
    for event in events:
        key = (event["kind"], event["code"], event["pci_address"])
        row = groups.setdefault(
            key,
            {
                **{name: event[name] for name in ("kind", "code", "pci_address", "harmless")},
                "meaning": event["meaning"] if event["code"] is not None else "",
                "count": 0,
                "first": event["time"],
                "last": event["time"],
            },
        )
        row["count"] += 1
        row["last"] = event["time"] if event["time"] is not None else row["last"]
    return list(groups.values())
