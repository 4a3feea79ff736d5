# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of questions about a host and its GPUs (private to the collection).

All calls of nvidia-smi are one group, so that one that hangs is the only one that is waited for. Sources that
are files stand alone: they answer also when the driver does not.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, List, Mapping, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import (
    _change_logs,
    _command,
    _driver,
    _fabric_quick,
    _gpu_devices,
    _gpu_holders,
    _host,
    _journal,
    _kernel_log,
    _listening,
    _nvml,
    _packages,
    _services,
    _smi,
    _smi_run,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    ERROR,
    OK,
    Emit,
    ProbeFailure,
    ProbeSpec,
    Reading,
    command_probe,
    command_reading,
    file_probe,
    read_file,
)

# Slow is not dead: a driver that starts eight GPUs without persistence mode may take half a minute.
DEFAULTS: Mapping[str, Any] = {
    "smi_deadline": 60.0,
    "nvml_deadline": 60.0,
    "deadline": 30.0,
    "history_days": 30,
    "services": (),
    "paths": (),
}

# Where space runs out first on a host that serves models.
PATHS = ("/", "/dev/shm", "/tmp", "/var/log", "/var/lib/docker", "/var/lib/containerd", "/root/.cache")

LOG_LIMIT = 8 * 1024 * 1024


def option(options: Mapping[str, Any], name: str) -> Any:
    """An option's value, its default when it is not given."""
    value = options.get(name)
    return DEFAULTS[name] if value is None else value


def probes(options: Mapping[str, Any]) -> List[ProbeSpec]:
    """Every question, in the order in which they are best asked."""
    return [
        *_smi_probes(float(option(options, "smi_deadline"))),
        _nvml_probe(float(option(options, "nvml_deadline"))),
        *_device_probes(),
        *_driver_probes(float(option(options, "deadline"))),
        *_fabric_probes(float(option(options, "deadline"))),
        *_kernel_probes(float(option(options, "deadline")), int(option(options, "history_days"))),
        *_host_probes([*PATHS, *option(options, "paths")]),
        *_package_probes(float(option(options, "deadline"))),
        *_service_probes(float(option(options, "deadline")), option(options, "services")),
        *_change_probes(float(option(options, "deadline")), int(option(options, "history_days"))),
    ]


def value_probe(
    name: str,
    read: Callable[[], Any],
    member: str = "",
    deadline: float = 10.0,
    source: str = "",
    group: str = "",
) -> ProbeSpec:
    """A probe whose function gives a plain value; the evidence is that value as JSON."""

    def run(emit: Emit) -> Reading:
        value = read()
        raw = json.dumps(value, indent=1, sort_keys=True).encode() if member else b""
        return Reading(value, raw, source=source)

    return ProbeSpec(name, run, deadline, group, member)


def parsed_file(name: str, path: str, parse: Callable[[str], Any], member: str = "") -> ProbeSpec:
    """A probe of one file whose value is what ``parse`` reads in it."""

    def run(emit: Emit) -> Reading:
        reading = read_file(path)
        reading.value = parse(reading.value)
        return reading

    return ProbeSpec(name, run, 10.0, member=member)


def _smi_probes(deadline: float) -> List[ProbeSpec]:
    probe, count = _smi_run.smi_probe, _smi_run.count_gpus
    return [
        probe("gpu.smi.list", ["-L"], "gpu/nvidia-smi-L.txt", deadline, _smi.parse_list, count),
        probe("gpu.smi.query", ["-q"], "gpu/nvidia-smi-q.txt", deadline, _smi.parse_query, count),
        probe("gpu.smi.xml", ["-q", "-x"], "gpu/nvidia-smi-q.xml", deadline, _smi.parse_xml, count),
        probe("gpu.smi.plain", [], "gpu/nvidia-smi.txt", deadline, _smi.parse_plain, count),
        probe("gpu.smi.topology", ["topo", "-m"], "gpu/nvidia-smi-topo.txt", deadline, str),
        probe("gpu.smi.nvlink", ["nvlink", "-s"], "gpu/nvidia-smi-nvlink.txt", deadline, str),
    ]


def _nvml_probe(deadline: float) -> ProbeSpec:
    def run(emit: Emit) -> Reading:
        _smi_run.refuse_if_it_would_change_the_host()
        return _nvml.read(emit, _driver.LIBRARY_DIRECTORIES)

    return ProbeSpec("gpu.nvml", run, deadline, "nvml", "gpu/nvml.json")


def _device_probes() -> List[ProbeSpec]:
    def proc_gpus(emit: Emit) -> Reading:
        def reading(gpus: Sequence[Mapping[str, Any]]) -> Reading:
            text = "".join("# %s\n%s\n" % (gpu["pci_address"], gpu["text"]) for gpu in gpus)
            return Reading(list(gpus), text.encode(), source="/proc/driver/nvidia/gpus")

        return reading(_gpu_devices.read_proc_gpus(lambda gpus: emit(reading(gpus))))

    return [
        value_probe("gpu.pci", _gpu_devices.read_pci, "gpu/pci.json", source="/sys/bus/pci/devices"),
        ProbeSpec("gpu.proc.gpus", proc_gpus, 10.0, member="gpu/proc-gpus.txt"),
        value_probe(
            "gpu.device_nodes", _gpu_devices.read_device_nodes, "gpu/device-nodes.json", source="/dev"
        ),
        ProbeSpec("gpu.holders", _gpu_holders.read_holders, 30.0),
    ]


def _driver_probes(deadline: float) -> List[ProbeSpec]:
    def libraries(emit: Emit) -> Reading:
        result = _command.run_command(["ldconfig", "-p"], deadline)
        cache = _driver.parse_ldconfig(result.text, os.uname().machine) if result.outcome == OK else []
        reading = command_reading(result)
        reading.value = _driver.find_libraries(cache)
        return reading

    def on_disk(emit: Emit) -> Reading:
        reading = command_reading(_command.run_command(["modinfo", "nvidia"], deadline))
        if reading.outcome == ERROR and "not found" in reading.message:
            reading.outcome = ABSENT
        reading.value = _driver.parse_modinfo(reading.value) if reading.outcome == OK else None
        return reading

    version = "/proc/driver/nvidia/version"
    return [
        parsed_file("gpu.driver.loaded", version, _driver.parse_proc_version, "gpu/proc-version.txt"),
        file_probe("gpu.driver.parameters", "/proc/driver/nvidia/params", "gpu/proc-params.txt"),
        file_probe("gpu.driver.registry", "/proc/driver/nvidia/registry", "gpu/proc-registry.txt"),
        value_probe("gpu.driver.modules", _driver.read_modules, source="/sys/module"),
        ProbeSpec("gpu.driver.on_disk", on_disk, deadline + 2.0, member="gpu/modinfo-nvidia.txt"),
        ProbeSpec("gpu.driver.libraries", libraries, deadline + 2.0, member="gpu/ldconfig.txt"),
        value_probe("gpu.driver.firmware", _driver.read_firmware, source="/lib/firmware/nvidia"),
        value_probe("gpu.driver.dkms", _driver.read_dkms, source="/var/lib/dkms/nvidia"),
        value_probe("gpu.driver.toolkits", _driver.read_toolkits, source="/usr/local/cuda*"),
    ]


def _fabric_probes(deadline: float) -> List[ProbeSpec]:
    command = ["nvidia-imex-ctl", "-N", "-j"]
    return [
        value_probe(
            "fabric.infiniband",
            _fabric_quick.read_infiniband,
            "gpu/infiniband.json",
            source="/sys/class/infiniband",
        ),
        value_probe(
            "fabric.imex.config", _fabric_quick.read_imex, "gpu/imex.json", source="/etc/nvidia-imex"
        ),
        command_probe(
            "fabric.imex.status",
            command,
            "gpu/nvidia-imex-ctl.json",
            deadline,
            parse=_fabric_quick.parse_imex_status,
        ),
    ]


def _kernel_probes(deadline: float, days: int) -> List[ProbeSpec]:
    def reader(source: str) -> Callable[[str], Any]:
        def read(text: str) -> Any:
            booted, now = _host.boot_time(), time.time()
            events = _kernel_log.parse(text, source, booted, now)
            return {"events": events, "begins": _kernel_log.begins(text, booted, now)}

        return read

    def log_file(emit: Emit) -> Reading:
        for path in ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog"):
            if os.path.exists(path):
                reading = _change_logs.read_rotated(path + "*", LOG_LIMIT)
                text = "".join(line for line in reading.value.splitlines(True) if " kernel: " in line)
                return Reading(
                    reader(path)(text), text.encode(), OK, reading.message, path, reading.cut_bytes
                )
        raise ProbeFailure(ABSENT, "there is no kernel log file in /var/log", "/var/log")

    journal = ["-o", "short-iso-precise", "--since", "-%dd" % days, "_TRANSPORT=kernel"]
    return [
        command_probe("kernel.dmesg", ["dmesg"], "host/dmesg.txt", deadline, "", LOG_LIMIT, reader("dmesg")),
        _journal.journal_probe(
            "kernel.journal", journal, "host/journal-kernel.txt", deadline, reader("journal"), LOG_LIMIT
        ),
        ProbeSpec("kernel.log_file", log_file, deadline, member="host/kern.log"),
    ]


def _host_probes(paths: Sequence[str]) -> List[ProbeSpec]:
    def space(path: str) -> Callable[[], Any]:
        return lambda: _host.read_space(path)

    return [
        value_probe("host.system", _host.read_system, "host/system.json", source="uname"),
        parsed_file("host.os", "/etc/os-release", _host.parse_os_release, "host/os-release.txt"),
        value_probe("host.boot", _host.read_boot, "host/boot.json", source="/proc"),
        value_probe("host.time", _host.read_time, "host/time.json", source="the host's clock"),
        command_probe(
            "host.chrony", ["chronyc", "-n", "tracking"], "host/chrony.txt", 10.0, parse=_host.parse_chrony
        ),
        parsed_file("host.memory", "/proc/meminfo", _host.parse_meminfo, "host/meminfo.txt"),
        parsed_file("host.processors", "/proc/cpuinfo", _host.parse_cpuinfo),
        file_probe("host.load", "/proc/loadavg", "host/loadavg.txt"),
        value_probe("host.numa", _host.read_numa, "host/numa.json", source="/sys/devices/system/node"),
        parsed_file("host.mounts", "/proc/self/mounts", _host.parse_mounts, "host/mounts.txt"),
        value_probe("host.limits", _host.read_limits, "host/limits.json", source="/proc/PID/limits"),
        value_probe("host.settings", _host.read_settings, "host/settings.json", source="/proc/sys, /sys"),
        file_probe("host.modules", "/proc/modules", "host/modules.txt"),
        value_probe(
            "host.listening", _listening.read_listening, "host/listening.json", source="/proc/net/tcp"
        ),
        *[
            value_probe("host.space.%s" % path, space(path), source="statvfs %s" % path)
            for path in dict.fromkeys(paths)
        ],
    ]


def _package_probes(deadline: float) -> List[ProbeSpec]:
    def rpm(emit: Emit) -> Reading:
        if not any(os.path.isdir(path) and os.listdir(path) for path in _packages.RPM_DATABASES):
            raise ProbeFailure(ABSENT, "there is no rpm database", _packages.RPM_DATABASES[0])
        reading = command_reading(_command.run_command(list(_packages.RPM), deadline))
        reading.value = _packages.parse_rpm(reading.value) if reading.outcome == OK else None
        return reading

    return [
        command_probe(
            "packages.dpkg", _packages.DPKG, "host/packages-dpkg.txt", deadline, parse=_packages.parse_dpkg
        ),
        ProbeSpec("packages.rpm", rpm, deadline + 2.0, member="host/packages-rpm.txt"),
        file_probe("packages.reboot_required", "/var/run/reboot-required.pkgs", "host/reboot-required.txt"),
    ]


def _service_probes(deadline: float, more: Sequence[str]) -> List[ProbeSpec]:
    def units(emit: Emit) -> Reading:
        reading = command_reading(_command.run_command(_services.show_command(more), deadline))
        if reading.outcome == ERROR and not os.path.isdir("/run/systemd/system"):
            raise ProbeFailure(ABSENT, "the host was not started by systemd", "systemctl")
        reading.value = _services.parse_show(reading.value) if reading.outcome == OK else None
        return reading

    return [
        ProbeSpec("services.units", units, deadline + 2.0, "systemd", "host/services.txt"),
        value_probe("services.daemons", _services.find_daemons, "host/daemons.json", source="/proc/PID/comm"),
    ]


def _change_probes(deadline: float, days: int) -> List[ProbeSpec]:
    now = time.time()

    def parser(parse: Callable[[str], Any], newest_first: bool = False) -> Callable[[str], Any]:
        return _change_logs.log(parse, now, newest_first)

    def log(name: str, pattern: str, parse: Callable[[str], Any], member: str) -> ProbeSpec:
        def run(emit: Emit) -> Reading:
            reading = _change_logs.read_rotated(pattern)
            reading.value = parser(parse)(reading.value)
            return reading

        return ProbeSpec(name, run, deadline, member=member)

    def files() -> Any:
        return {"events": _change_logs.read_files(), "begins": None}

    rpm_log = _change_logs.rpm_log_parser(now)
    journal, boots = _journal.journal_probe, parser(_change_logs.parse_boots)
    starts, units = _unit_matches(days), parser(_change_logs.parse_unit_lines)
    last, wtmp = ["last", "-F", "-x", "reboot"], parser(_change_logs.last_parser(now), newest_first=True)
    return [
        log("changes.dpkg", "/var/log/dpkg.log*", _change_logs.parse_dpkg_log, "host/dpkg.log"),
        log(
            "changes.apt", "/var/log/apt/history.log*", _change_logs.parse_apt_history, "host/apt-history.log"
        ),
        log("changes.dnf", "/var/log/dnf.rpm.log*", rpm_log, "host/dnf-rpm.log"),
        log("changes.yum", "/var/log/yum.log*", rpm_log, "host/yum.log"),
        journal("changes.boots", ["--list-boots"], "host/boots.txt", deadline, boots),
        command_probe("changes.last", last, "host/last.txt", deadline, parse=wtmp),
        journal("changes.services", starts, "host/journal-services.txt", deadline, units),
        value_probe("changes.files", files, "host/changed-files.json", source="times of files"),
    ]


def _unit_matches(days: int) -> List[str]:
    """Arguments for what process 1 logged about our units, and for every reload of its configuration."""
    names = [name for name in _services.UNITS if not name.endswith((".timer", ".path"))]
    starts = [
        "-o",
        "short-iso-precise",
        "--since",
        "-%dd" % days,
        "_PID=1",
        *("UNIT=" + name for name in names),
    ]
    return [*starts, "+", "_PID=1", "MESSAGE=Reloading.", "MESSAGE=Reloading..."]
