# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of NVML calls: one row per fact, each giving a plain value (private to the collection).

A row is given the module of nvidia-ml-py and a device handle. It raises NVMLError when the driver has no
answer, AttributeError when the binding is too old to ask. Values are in bytes, watts, degrees Celsius, MHz.
Calls: https://docs.nvidia.com/deploy/nvml-api/index.html
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._nvml_codes import CODES
from ansible_collections.gpufleet.baseline.plugins.module_utils._smi import pci_address

Ask = Callable[[Any, Any], Any]

ARGUMENT_VERSION_MISMATCH, FUNCTION_NOT_FOUND = 25, 13

ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada lovelace",
    9: "hopper",
    10: "blackwell",
}
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
VIRTUALIZATION = {0: "none", 1: "pass-through", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
ADDRESSING = {0: "none", 1: "hmm", 2: "ats"}
RECOVERY = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain p2p",
    4: "drain and reset",
    5: "recover imex domain",
    6: "bus reset",
    7: "system reboot",
}
CLOCK_REASONS = {
    0x1: "idle",
    0x2: "applications clocks setting",
    0x4: "sw power cap",
    0x8: "hw slowdown",
    0x10: "sync boost",
    0x20: "sw thermal slowdown",
    0x40: "hw thermal slowdown",
    0x80: "hw power brake slowdown",
    0x100: "display clock setting",
}
FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}
FABRIC_HEALTH = {0: "not supported", 1: "healthy", 2: "unhealthy", 3: "limited capacity"}
# name: first bit, width; a two-bit field says 1 for true and 2 for false
FABRIC_HEALTH_FIELDS = {
    "degraded_bandwidth": (0, 2),
    "route_recovery": (2, 2),
    "route_unhealthy": (4, 2),
    "access_timeout_recovery": (6, 2),
    "incorrect_configuration": (8, 4),
    "partition_assigned": (12, 2),
}
TRUE_FALSE = {0: None, 1: True, 2: False}


@dataclass(frozen=True)
class Call:
    """One fact and the call that gives it."""

    fact: str
    ask: Ask


def words(table: Mapping[int, str], value: int) -> str:
    """A number of an enumeration in words; one that is newer than the table stays a number."""
    return table.get(value, "unknown (%d)" % value)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def cuda_version(value: int) -> str:
    """13020 as 13.2."""
    return "%d.%d" % (value // 1000, value % 1000 // 10)


def _driver_branch(nvml: Any, _handle: Any) -> str:
    return _text(nvml.nvmlSystemGetDriverBranch().branch)


SYSTEM: Sequence[Call] = (
    Call("driver", lambda n, _h: _text(n.nvmlSystemGetDriverVersion())),
    Call("driver_branch", _driver_branch),
    Call("nvml", lambda n, _h: _text(n.nvmlSystemGetNVMLVersion())),
    # Asks the libcuda that the loader finds first, so that a compatibility library changes the answer.
    Call("cuda_driver", lambda n, _h: cuda_version(n.nvmlSystemGetCudaDriverVersion_v2())),
)


def _pci(nvml: Any, handle: Any) -> Dict[str, Any]:
    info = nvml.nvmlDeviceGetPciInfo(handle)
    return {
        "address": pci_address(_text(info.busId)),
        "device_id": "0x%08x" % info.pciDeviceId,
        "subsystem_id": "0x%08x" % info.pciSubSystemId,
    }


def _memory(nvml: Any, handle: Any) -> Dict[str, Any]:
    """Memory in bytes. The first version of the call counts what the driver reserves as used."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError, TypeError) as error:
        if getattr(error, "value", FUNCTION_NOT_FOUND) not in (ARGUMENT_VERSION_MISMATCH, FUNCTION_NOT_FOUND):
            raise
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return {"total": memory.total, "used": memory.used, "free": memory.free, "reserved": None}
    return {"total": memory.total, "used": memory.used, "free": memory.free, "reserved": memory.reserved}


def _pair(values: Sequence[int]) -> Dict[str, bool]:
    return {"current": bool(values[0]), "pending": bool(values[1])}


def _remapped_rows(nvml: Any, handle: Any) -> Dict[str, Any]:
    correctable, uncorrectable, pending, failure = nvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failure": bool(failure),
    }


def _repair(nvml: Any, handle: Any) -> Dict[str, bool]:
    channel, tpc = nvml.nvmlDeviceGetRepairStatus(handle)
    return {"channel_pending": bool(channel), "tpc_pending": bool(tpc)}


def _ecc_errors(counter: str) -> Ask:
    def ask(nvml: Any, handle: Any) -> Dict[str, int]:
        scope = getattr(nvml, "NVML_%s_ECC" % counter)
        corrected, uncorrected = (
            nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        )
        return {
            "correctable": nvml.nvmlDeviceGetTotalEccErrors(handle, corrected, scope),
            "uncorrectable": nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, scope),
        }

    return ask


def _platform(nvml: Any, handle: Any) -> Dict[str, Any]:
    info = nvml.c_nvmlPlatformInfo_v2_t()
    nvml.nvmlDeviceGetPlatformInfo(handle, ctypes.byref(info))
    return platform_facts(ctypes.string_at(ctypes.addressof(info), ctypes.sizeof(info)))


def platform_facts(content: bytes) -> Dict[str, Any]:
    """The fields of the platform structure; read as bytes, since the binding takes them all for text."""
    _version, guid, chassis, *numbers = struct.unpack_from("=I16s16s5B", content)
    names = ("slot", "tray", "host_id", "peer_type", "module_id")
    return {
        "chassis_serial": chassis.split(b"\0")[0].decode("utf-8", "replace"),
        "ib_guid": guid.hex(),
        **dict(zip(names, numbers)),
    }


def health(mask: int) -> Dict[str, Any]:
    """The fields of a fabric health mask; None where the fabric does not tell."""
    fields: Dict[str, Any] = {}
    for name, (shift, width) in FABRIC_HEALTH_FIELDS.items():
        value = mask >> shift & ((1 << width) - 1)
        fields[name] = value if width > 2 else TRUE_FALSE.get(value)
    return fields


def _fabric(nvml: Any, handle: Any) -> Dict[str, Any]:
    """The fabric's state; newer questions first, since an older driver refuses them by name."""
    questions = (
        ("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    )
    for structure, function in questions:
        info = getattr(nvml, structure)()
        try:
            getattr(nvml, function)(handle, ctypes.byref(info))
        except nvml.NVMLError as error:
            last = structure == questions[-1][0]
            if last or error.value not in (ARGUMENT_VERSION_MISMATCH, FUNCTION_NOT_FOUND):
                raise
            continue
        return fabric_facts(info)
    raise AttributeError("nvmlDeviceGetGpuFabricInfo")


def fabric_facts(info: Any) -> Dict[str, Any]:
    """A fabric structure of any version as a dictionary."""
    cluster = bytes(info.clusterUuid).hex()
    mask = getattr(info, "healthMask", None)
    summary = getattr(info, "healthSummary", None)
    groups = (cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:])
    return {
        "state": words(FABRIC_STATES, info.state),
        "status": "success" if info.status == 0 else CODES.get(info.status, (str(info.status),))[0].lower(),
        "status_code": info.status,
        "cluster_uuid": "-".join(groups),
        "clique_id": info.cliqueId,
        "health": None if summary is None else words(FABRIC_HEALTH, summary),
        "health_mask": mask,
        "health_fields": None if mask is None else health(mask),
    }


def _field(identifier: int, then: Callable[[int], Any] = int) -> Ask:
    """A fact that has a field number and no function of its own."""

    def ask(nvml: Any, handle: Any) -> Any:
        field = nvml.nvmlDeviceGetFieldValues(handle, [identifier])[0]
        if field.nvmlReturn != 0:
            raise nvml.NVMLError(field.nvmlReturn)
        members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
        return then(getattr(field.value, members[field.valueType]))

    return ask


def _processes(function: str) -> Ask:
    def ask(nvml: Any, handle: Any) -> List[Dict[str, Any]]:
        return [
            {
                "pid": process.pid,
                # None where the driver does not tell it, for instance without root in some containers
                "memory_used": process.usedGpuMemory,
                "gpu_instance": _instance(getattr(process, "gpuInstanceId", None)),
            }
            for process in getattr(nvml, function)(handle)
        ]

    return ask


def _instance(value: Optional[int]) -> Optional[int]:
    return None if value in (None, 0xFFFFFFFF) else value


def _clock(domain: str) -> Ask:
    return lambda n, h: n.nvmlDeviceGetClockInfo(h, getattr(n, "NVML_CLOCK_%s" % domain))


def _capability(nvml: Any, handle: Any) -> str:
    return "%d.%d" % tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))


def clock_reasons(mask: int) -> List[str]:
    """The reasons in a mask of clock event reasons; bits newer than the table are given as a number."""
    known = [name for bit, name in CLOCK_REASONS.items() if mask & bit]
    rest = mask & ~sum(CLOCK_REASONS)
    return known + (["0x%x" % rest] if rest else [])


# Identity first: after a hang it is what tells which GPU it was.
GPU: Sequence[Call] = (
    Call("uuid", lambda n, h: _text(n.nvmlDeviceGetUUID(h))),
    Call("pci", _pci),
    Call("name", lambda n, h: _text(n.nvmlDeviceGetName(h))),
    Call("serial", lambda n, h: _text(n.nvmlDeviceGetSerial(h))),
    Call("minor", lambda n, h: n.nvmlDeviceGetMinorNumber(h)),
    Call("module_id", lambda n, h: n.nvmlDeviceGetModuleId(h)),
    Call("board_part_number", lambda n, h: _text(n.nvmlDeviceGetBoardPartNumber(h))),
    Call("architecture", lambda n, h: words(ARCHITECTURES, n.nvmlDeviceGetArchitecture(h))),
    Call("compute_capability", _capability),
    Call("memory", _memory),
    Call("vbios", lambda n, h: _text(n.nvmlDeviceGetVbiosVersion(h))),
    Call("inforom_image", lambda n, h: _text(n.nvmlDeviceGetInforomImageVersion(h))),
    Call("gsp_firmware", lambda n, h: _text(n.nvmlDeviceGetGspFirmwareVersion(h))),
    Call("gsp_enabled", lambda n, h: bool(n.nvmlDeviceGetGspFirmwareMode(h)[0])),
    Call("numa_node", lambda n, h: n.nvmlDeviceGetNumaNodeId(h)),
    Call("platform", _platform),
    Call("persistence", lambda n, h: bool(n.nvmlDeviceGetPersistenceMode(h))),
    Call("compute_mode", lambda n, h: words(COMPUTE_MODES, n.nvmlDeviceGetComputeMode(h))),
    Call("virtualization", lambda n, h: words(VIRTUALIZATION, n.nvmlDeviceGetVirtualizationMode(h))),
    Call("addressing", lambda n, h: words(ADDRESSING, n.nvmlDeviceGetAddressingMode(h))),
    Call("c2c", lambda n, h: bool(n.nvmlDeviceGetC2cModeInfoV(h).isC2cEnabled)),
    Call("mig", lambda n, h: _pair(n.nvmlDeviceGetMigMode(h))),
    Call("ecc", lambda n, h: _pair(n.nvmlDeviceGetEccMode(h))),
    Call("ecc_errors_since_boot", _ecc_errors("VOLATILE")),
    Call("ecc_errors_ever", _ecc_errors("AGGREGATE")),
    Call("remapped_rows", _remapped_rows),
    Call("retired_pages_pending", lambda n, h: bool(n.nvmlDeviceGetRetiredPagesPendingStatus(h))),
    Call("repair", _repair),
    Call("unrepairable_memory", lambda n, h: bool(n.nvmlDeviceGetUnrepairableMemoryFlag_v1(h))),
    Call("recovery_action", _field(230, lambda value: words(RECOVERY, value))),
    Call("fabric", _fabric),
    Call("nvlink_count", _field(91)),
    Call("nvlink_speed_mbps", _field(90)),
    Call("c2c_links", _field(170)),
    Call("pcie_generation", lambda n, h: n.nvmlDeviceGetCurrPcieLinkGeneration(h)),
    Call("pcie_generation_max", lambda n, h: n.nvmlDeviceGetMaxPcieLinkGeneration(h)),
    Call("pcie_width", lambda n, h: n.nvmlDeviceGetCurrPcieLinkWidth(h)),
    Call("pcie_width_max", lambda n, h: n.nvmlDeviceGetMaxPcieLinkWidth(h)),
    Call("pcie_replays", lambda n, h: n.nvmlDeviceGetPcieReplayCounter(h)),
    Call("power_limit", lambda n, h: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000.0),
    Call("power_draw", lambda n, h: n.nvmlDeviceGetPowerUsage(h) / 1000.0),
    Call("temperature", lambda n, h: n.nvmlDeviceGetTemperatureV(h, n.NVML_TEMPERATURE_GPU)),
    Call("memory_temperature", _field(82)),
    Call("utilization", lambda n, h: n.nvmlDeviceGetUtilizationRates(h).gpu),
    Call("performance_state", lambda n, h: "P%d" % n.nvmlDeviceGetPerformanceState(h)),
    Call("clock_sm", _clock("SM")),
    Call("clock_memory", _clock("MEM")),
    Call("clock_event_reasons", lambda n, h: clock_reasons(n.nvmlDeviceGetCurrentClocksEventReasons(h))),
    Call("compute_processes", _processes("nvmlDeviceGetComputeRunningProcesses")),
    Call("graphics_processes", _processes("nvmlDeviceGetGraphicsRunningProcesses")),
    Call("mps_processes", _processes("nvmlDeviceGetMPSComputeRunningProcesses")),
)


def link_calls(link: int) -> Sequence[Call]:
    """The calls of one NVLink."""
    return (
        Call("active", lambda n, h: bool(n.nvmlDeviceGetNvLinkState(h, link))),
        Call("version", lambda n, h: n.nvmlDeviceGetNvLinkVersion(h, link)),
    )
