# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host itself: system, boot, time, memory, mounts, space and limits (private to the collection).

Only files and system calls that answer at once; the one that a dead network file system holds up, the space
of a path, is asked for each path alone.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import time
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import read_line
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ERROR, ProbeFailure
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import utc

# File systems whose server may be away: they are listed, their space is not asked for by default.
NETWORK_TYPES = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "lustre",
    "gpfs",
    "ceph",
    "fuse",
    "glusterfs",
    "beegfs",
    "weka",
)

# Kernel settings that decide about large processes and their network.
SETTINGS = (
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/nr_hugepages",
    "proc/sys/vm/swappiness",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/shmmax",
    "proc/sys/kernel/shmall",
    "proc/sys/kernel/threads-max",
    "proc/sys/kernel/pid_max",
    "proc/sys/kernel/dmesg_restrict",
    "proc/sys/kernel/yama/ptrace_scope",
    "proc/sys/fs/file-max",
    "proc/sys/net/core/rmem_max",
    "proc/sys/net/core/wmem_max",
    "proc/sys/net/core/somaxconn",
    "proc/sys/net/ipv4/ip_local_port_range",
    "proc/sys/net/ipv4/ip_forward",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/module/pcie_aspm/parameters/policy",
)

# https://man7.org/linux/man-pages/man2/adjtimex.2.html
_STA_UNSYNC = 0x0040
_CLOCK_STATES = (
    "ok",
    "leap second insertion",
    "leap second deletion",
    "leap second",
    "leap second over",
    "error",
)


def read_system() -> Dict[str, Any]:
    """Names and versions of the system."""
    name = os.uname()
    return {
        "hostname": name.nodename,
        "kernel": name.release,
        "kernel_build": name.version,
        "architecture": name.machine,
        "user": os.geteuid(),
        "container": read_container(),
    }


def read_container(root: str = "/") -> Optional[str]:
    """The container that we ourselves run in, if any: its view of the host is a narrow one."""
    if os.path.exists(os.path.join(root, ".dockerenv")):
        return "docker"
    if os.path.exists(os.path.join(root, "run/.containerenv")):
        return "podman"
    return read_line(os.path.join(root, "run/systemd/container")) or None


def parse_os_release(text: str) -> Dict[str, str]:
    """The fields of /etc/os-release (https://www.freedesktop.org/software/systemd/man/latest/os-release.html)."""
    fields = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and re.match(r"^[A-Z][A-Z0-9_]*$", key):
            fields[key] = value.strip().strip("\"'")
    return fields


def read_boot(root: str = "/") -> Dict[str, Any]:
    """This boot: its id and when it began."""
    return {
        "id": read_line(os.path.join(root, "proc/sys/kernel/random/boot_id")),
        "began": utc(boot_time(root)),
        "command_line": read_line(os.path.join(root, "proc/cmdline"), 8192),
    }


def boot_time(root: str = "/") -> Optional[float]:
    """Seconds since 1970 at which the kernel started."""
    try:
        with open(os.path.join(root, "proc/stat"), encoding="ascii", errors="replace") as stream:
            return next((float(line.split()[1]) for line in stream if line.startswith("btime ")), None)
    except (OSError, ValueError, IndexError):
        return None


def read_time(root: str = "/") -> Dict[str, Any]:
    """The host's clock: time, zone, and what the kernel knows about its own accuracy."""
    now = time.time()
    local = time.localtime(now)
    return {
        "now": now,
        "utc": utc(now),
        "zone": local.tm_zone,
        "zone_name": zone_name(root),
        "offset_seconds": local.tm_gmtoff,
        "kernel": read_clock_state(),
    }


def zone_name(root: str = "/") -> Optional[str]:
    """Europe/Berlin and the like, from where /etc/localtime points."""
    try:
        target = os.readlink(os.path.join(root, "etc/localtime"))
    except OSError:
        return read_line(os.path.join(root, "etc/timezone"))
    return target.partition("zoneinfo/")[2] or None


def read_clock_state() -> Dict[str, Any]:
    """Whether anything keeps the clock in step, and its largest error; asked with no change in mind."""
    buffer = ctypes.create_string_buffer(512)  # zero in every field: read only
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(buffer)
    if state < 0:
        raise ProbeFailure(ERROR, "adjtimex: %s" % os.strerror(ctypes.get_errno()), "adjtimex")
    return parse_timex(buffer.raw, state)


def parse_timex(content: bytes, state: int) -> Dict[str, Any]:
    """The kernel's structure, whose native alignment is the same on all 64-bit machines."""
    _modes, _offset, _frequency, largest, estimated, status = struct.unpack_from("@Illlli", content)
    return {
        "state": _CLOCK_STATES[state] if 0 <= state < len(_CLOCK_STATES) else str(state),
        "synchronized": not status & _STA_UNSYNC,
        "largest_error_seconds": largest / 1e6,
        "estimated_error_seconds": estimated / 1e6,
    }


def parse_chrony(text: str) -> Dict[str, str]:
    """The fields of ``chronyc -n tracking``."""
    pairs = (line.partition(" : ") for line in text.splitlines() if " : " in line)
    return {key.strip(): value.strip() for key, _colon, value in pairs}


def parse_meminfo(text: str) -> Dict[str, int]:
    """/proc/meminfo in bytes, the lines that tell how much there is and how much is left."""
    wanted = (
        "MemTotal",
        "MemAvailable",
        "SwapTotal",
        "SwapFree",
        "Shmem",
        "Mlocked",
        "HugePages_Total",
        "Committed_AS",
    )
    found = {}
    for line in text.splitlines():
        match = re.match(r"^(\w+):\s+(\d+)( kB)?$", line)
        if match and match.group(1) in wanted:
            found[match.group(1)] = int(match.group(2)) * (1024 if match.group(3) else 1)
    return found


def parse_cpuinfo(text: str) -> Dict[str, Any]:
    """How many processors and of which kind; arm64 names parts by number only."""
    count = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    names = ("model name", "CPU implementer", "CPU part", "Hardware")
    kinds = {}
    for name in names:
        match = re.search(r"^%s\s*:\s*(.+)$" % re.escape(name), text, re.MULTILINE)
        if match:
            kinds[name.lower().replace(" ", "_")] = match.group(1).strip()
    return {"count": count, **kinds}


def parse_mounts(text: str) -> List[Dict[str, str]]:
    """/proc/self/mounts without the kernel's own file systems."""
    kernel = (
        "proc",
        "sysfs",
        "cgroup",
        "cgroup2",
        "devpts",
        "mqueue",
        "securityfs",
        "debugfs",
        "tracefs",
        "bpf",
    )
    mounts = []
    for line in text.splitlines():
        parts = line.split(" ")
        if len(parts) >= 4 and parts[2] not in kernel:
            device, place, kind, options = (_unescaped(part) for part in parts[:4])
            mounts.append({"device": device, "path": place, "type": kind, "options": options})
    return mounts


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def is_network(kind: str) -> bool:
    """Whether a file system of this type has a server."""
    return kind in NETWORK_TYPES or kind.startswith("fuse.")


def read_space(path: str) -> Dict[str, Any]:
    """The space of the file system that holds a path, in bytes and inodes."""
    found = os.statvfs(path)
    return {
        "path": path,
        "total": found.f_frsize * found.f_blocks,
        "free": found.f_frsize * found.f_bavail,
        "inodes": found.f_files,
        "inodes_free": found.f_favail,
        "read_only": bool(found.f_flag & os.ST_RDONLY),
    }


def parse_limits(text: str) -> Dict[str, Tuple[str, str]]:
    """Soft and hard limits of a process, by name."""
    limits = {}
    for line in text.splitlines()[1:]:
        match = re.match(r"^(Max [a-z -]+?)\s{2,}(\S+)\s+(\S+)", line)
        if match:
            limits[match.group(1)] = (match.group(2), match.group(3))
    return limits


def read_limits(root: str = "/") -> Dict[str, Any]:
    """The limits of our own login, and of the container engine, whose containers inherit them."""
    found: Dict[str, Any] = {"login": _limits_of(os.path.join(root, "proc/self/limits"))}
    base = os.path.join(root, "proc")
    for name in os.listdir(base):
        if name.isdigit():
            command = read_line(os.path.join(base, name, "comm"))
            if command in ("dockerd", "containerd"):
                found[command] = _limits_of(os.path.join(base, name, "limits"))
    return found


def _limits_of(path: str) -> Dict[str, Tuple[str, str]]:
    wanted = ("Max locked memory", "Max open files", "Max processes", "Max stack size", "Max address space")
    limits = parse_limits(read_line(path, 65536) or "")
    return {name: limits[name] for name in wanted if name in limits}


def read_settings(root: str = "/") -> Dict[str, str]:
    """The kernel settings of SETTINGS that this kernel has."""
    found = {}
    for path in SETTINGS:
        value = read_line(os.path.join(root, path), 4096)
        if value is not None:
            found["/" + path] = value
    return found


def read_numa(root: str = "/") -> List[Dict[str, Any]]:
    """The memory nodes; on hosts with a coherent link a GPU's memory is one of them."""
    base = os.path.join(root, "sys/devices/system/node")
    nodes = []
    names = os.listdir(base) if os.path.isdir(base) else []
    for name in sorted(
        (name for name in names if re.match(r"^node\d+$", name)), key=lambda name: int(name[4:])
    ):
        total = re.search(r"MemTotal:\s+(\d+) kB", read_line(os.path.join(base, name, "meminfo"), 8192) or "")
        nodes.append(
            {
                "node": int(name[4:]),
                "cpus": read_line(os.path.join(base, name, "cpulist")),
                "memory": int(total.group(1)) * 1024 if total else None,
            }
        )
    return nodes
