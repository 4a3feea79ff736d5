# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HostConfig of a container as options of ``docker run`` (private to the collection; pure).

Options: https://docs.docker.com/reference/cli/docker/container/run/. Fields: HostConfig of
https://docs.docker.com/reference/api/engine/. An option that only repeats what the Engine does by itself is
left out; what no option can say is a note.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

_DEFAULT_SHM_BYTES = 64 * 1024 * 1024


@dataclass
class Options:
    """Options as (name, value) with None for a switch, notes, and files that an option reads."""

    items: List[Tuple[str, Any]] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)
    files: Dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: Any = None) -> None:
        """One option."""
        self.items.append((name, None if value is None else str(value)))


# Fields whose value is the option's value; zero, empty and null are the Engine's defaults.
_PLAIN = (
    ("VolumeDriver", "volume-driver"),
    ("CgroupParent", "cgroup-parent"),
    ("PidMode", "pid"),
    ("UTSMode", "uts"),
    ("UsernsMode", "userns"),
    ("OomScoreAdj", "oom-score-adj"),
    ("CpuShares", "cpu-shares"),
    ("Memory", "memory"),
    ("MemoryReservation", "memory-reservation"),
    ("MemorySwap", "memory-swap"),
    ("KernelMemory", "kernel-memory"),
    ("BlkioWeight", "blkio-weight"),
    ("CpuPeriod", "cpu-period"),
    ("CpuQuota", "cpu-quota"),
    ("CpuRealtimePeriod", "cpu-rt-period"),
    ("CpuRealtimeRuntime", "cpu-rt-runtime"),
    ("CpusetCpus", "cpuset-cpus"),
    ("CpusetMems", "cpuset-mems"),
    ("PidsLimit", "pids-limit"),
)
_SWITCHES = (
    ("Privileged", "privileged"),
    ("ReadonlyRootfs", "read-only"),
    ("AutoRemove", "rm"),
    ("PublishAllPorts", "publish-all"),
    ("OomKillDisable", "oom-kill-disable"),
    ("Init", "init"),
)
_LISTS = (
    ("Binds", "volume"),
    ("VolumesFrom", "volumes-from"),
    ("CapAdd", "cap-add"),
    ("CapDrop", "cap-drop"),
    ("Dns", "dns"),
    ("DnsOptions", "dns-option"),
    ("DnsSearch", "dns-search"),
    ("ExtraHosts", "add-host"),
    ("GroupAdd", "group-add"),
    ("DeviceCgroupRules", "device-cgroup-rule"),
)
_MAPPINGS = (("Sysctls", "sysctl"), ("StorageOpt", "storage-opt"), ("Annotations", "annotation"))
_DEVICE_RATES = (
    ("BlkioWeightDevice", "blkio-weight-device", "Weight"),
    ("BlkioDeviceReadBps", "device-read-bps", "Rate"),
    ("BlkioDeviceWriteBps", "device-write-bps", "Rate"),
    ("BlkioDeviceReadIOps", "device-read-iops", "Rate"),
    ("BlkioDeviceWriteIOps", "device-write-iops", "Rate"),
)


def host_options(host: Mapping[str, Any], info: Mapping[str, Any]) -> Options:
    """All of HostConfig but the network's part; ``info`` is the Engine's own description of its defaults."""
    options = Options()
    for name, option in _PLAIN:
        if host.get(name):
            options.add(option, host[name])
    for name, option in _SWITCHES:
        if host.get(name):
            options.add(option)
    for name, option in _LISTS:
        for value in host.get(name) or []:
            options.add(option, value)
    for name, option in _MAPPINGS:
        for key, value in sorted((host.get(name) or {}).items()):
            options.add(option, "%s=%s" % (key, value))
    for name, option, amount in _DEVICE_RATES:
        for device in host.get(name) or []:
            options.add(option, "%s:%s" % (device["Path"], device[amount]))
    for step in _STEPS:
        step(host, info, options)
    return options


def _of_defaults(host: Mapping[str, Any], info: Mapping[str, Any], options: Options) -> None:
    """Fields that are always filled: an option only where the value is not the Engine's default."""
    if host.get("Runtime") and host["Runtime"] != info.get("DefaultRuntime", "runc"):
        options.add("runtime", host["Runtime"])
    if host.get("IpcMode") not in (None, "", "private"):
        options.add("ipc", host["IpcMode"])
    if host.get("ShmSize") not in (None, 0, _DEFAULT_SHM_BYTES):
        options.add("shm-size", host["ShmSize"])
    default_cgroup = "host" if str(info.get("CgroupVersion", "")) == "1" else "private"
    if host.get("CgroupnsMode") and host["CgroupnsMode"] != default_cgroup:
        options.add("cgroupns", host["CgroupnsMode"])
    if host.get("NanoCpus"):
        options.add("cpus", ("%.9f" % (host["NanoCpus"] / 1e9)).rstrip("0").rstrip("."))
    if host.get("MemorySwappiness") not in (None, -1):
        options.add("memory-swappiness", host["MemorySwappiness"])
    restart = host.get("RestartPolicy") or {}
    if restart.get("Name") not in (None, "", "no"):
        count = restart.get("MaximumRetryCount")
        options.add("restart", "%s:%s" % (restart["Name"], count) if count else restart["Name"])


def _of_logging(host: Mapping[str, Any], info: Mapping[str, Any], options: Options) -> None:
    log = host.get("LogConfig") or {}
    if log.get("Type") and log["Type"] != info.get("LoggingDriver", "json-file"):
        options.add("log-driver", log["Type"])
    for key, value in sorted((log.get("Config") or {}).items()):
        options.add("log-opt", "%s=%s" % (key, value))


def _of_security(host: Mapping[str, Any], info: Mapping[str, Any], options: Options) -> None:
    for value in host.get("SecurityOpt") or []:
        if host.get("Privileged") and value == "label=disable":
            continue  # comes with --privileged by itself
        name, _equals, content = value.partition("=")
        if name == "seccomp" and content.lstrip().startswith("{"):
            # The client read a file and sent its content.
            options.files["seccomp-profile.json"] = content
            options.add("security-opt", "seccomp=seccomp-profile.json")
            options.notes.append("seccomp-profile.json must hold the profile that stands under files")
        else:
            options.add("security-opt", value)
    if host.get("MaskedPaths") == [] and not host.get("Privileged"):
        options.add("security-opt", "systempaths=unconfined")


def _of_limits(host: Mapping[str, Any], info: Mapping[str, Any], options: Options) -> None:
    for limit in host.get("Ulimits") or []:
        options.add("ulimit", "%s=%s:%s" % (limit["Name"], limit["Soft"], limit["Hard"]))
    for path, value in sorted((host.get("Tmpfs") or {}).items()):
        options.add("tmpfs", "%s:%s" % (path, value) if value else path)
    for link in host.get("Links") or []:
        source, _colon, alias = link.partition(":")
        options.add("link", "%s:%s" % (source.lstrip("/"), alias.rsplit("/", 1)[-1]))


def _of_devices(host: Mapping[str, Any], info: Mapping[str, Any], options: Options) -> None:
    for device in host.get("Devices") or []:
        inside = device.get("PathInContainer") or device["PathOnHost"]
        permissions = device.get("CgroupPermissions") or "rwm"
        value = device["PathOnHost"]
        if inside != value or permissions != "rwm":
            value = "%s:%s:%s" % (value, inside, permissions)
        options.add("device", value)
    for request in host.get("DeviceRequests") or []:
        _add_request(request, options)


def _add_request(request: Mapping[str, Any], options: Options) -> None:
    """One device request: CDI names are ``--device``, GPUs are ``--gpus``."""
    identifiers = request.get("DeviceIDs") or []
    if request.get("Driver") == "cdi":
        for identifier in identifiers:
            options.add("device", identifier)
        return
    sets = request.get("Capabilities") or []
    capabilities = list(sets[0]) if sets else []
    if len(sets) > 1 or "gpu" not in capabilities:
        options.notes.append("the device request with capabilities %s cannot be said with --gpus" % sets)
    fields = []
    if identifiers:
        fields.append("device=" + ",".join(identifiers))
    else:
        count = request.get("Count", 0)
        fields.append("all" if count == -1 else "count=%s" % count)
    if request.get("Driver"):
        fields.append("driver=" + request["Driver"])
    others = [name for name in capabilities if name != "gpu"]
    if others:
        fields.append("capabilities=" + ",".join(others))
    if request.get("Options"):
        pairs = sorted(request["Options"].items())
        fields.append("options=" + ",".join("%s=%s" % pair for pair in pairs))
    options.add("gpus", csv_line(fields))


def _of_mounts(host: Mapping[str, Any], info: Mapping[str, Any], options: Options) -> None:
    for mount in host.get("Mounts") or []:
        fields = ["type=" + mount.get("Type", "volume")]
        if mount.get("Source"):
            fields.append("source=" + mount["Source"])
        fields.append("target=" + mount.get("Target", ""))
        if mount.get("ReadOnly"):
            fields.append("readonly")
        if mount.get("Consistency") not in (None, "", "default"):
            fields.append("consistency=" + mount["Consistency"])
        options.add("mount", csv_line(fields + _mount_details(mount)))


def _mount_details(mount: Mapping[str, Any]) -> List[str]:
    bind = mount.get("BindOptions") or {}
    volume = mount.get("VolumeOptions") or {}
    driver = volume.get("DriverConfig") or {}
    tmpfs = mount.get("TmpfsOptions") or {}
    pairs: Sequence[Tuple[str, Any]] = (
        ("bind-propagation", bind.get("Propagation")),
        ("bind-recursive", "disabled" if bind.get("NonRecursive") else None),
        ("volume-nocopy", "true" if volume.get("NoCopy") else None),
        ("volume-subpath", volume.get("Subpath")),
        ("volume-driver", driver.get("Name")),
        ("tmpfs-size", tmpfs.get("SizeBytes")),
        ("tmpfs-mode", "%o" % tmpfs["Mode"] if tmpfs.get("Mode") else None),
    )
    details = ["%s=%s" % pair for pair in pairs if pair[1]]
    details += ["volume-label=%s=%s" % pair for pair in sorted((volume.get("Labels") or {}).items())]
    return details + ["volume-opt=%s=%s" % pair for pair in sorted((driver.get("Options") or {}).items())]


def csv_line(fields: Sequence[str]) -> str:
    """Fields as one CSV line, which is how the client splits the values of --mount and --gpus."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(fields)
    return buffer.getvalue()


_STEPS: Sequence[Callable[[Mapping[str, Any], Mapping[str, Any], Options], None]] = (
    _of_defaults,
    _of_logging,
    _of_security,
    _of_limits,
    _of_devices,
    _of_mounts,
)
