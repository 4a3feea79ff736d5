# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of facts of one GPU, and where each is read (pure; private to the collection).

A fact has up to three sources: NVML, the XML of nvidia-smi, its plain -q text. The first that has it is
taken, in the same words and units whatever the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import _smi
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured, first_ok
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, ERROR, OK

IDENTITY, STATE, NOW = "identity", "state", "now"

NVML, XML, QUERY = "NVML", "nvidia-smi -q -x", "nvidia-smi -q"

Convert = Callable[[str], Any]


class NotUnderstood(ValueError):
    """The words in a value's place are none that the fact can have."""


def text(words: str) -> str:
    """As it stands."""
    return words


def lower(words: str) -> str:
    """In lower case, as our own tables of words are."""
    return words.lower()


def switch(words: str) -> bool:
    """Enabled, Yes and Active are true; Disabled, No and Not Active are false."""
    known = {
        "enabled": True,
        "yes": True,
        "active": True,
        "disabled": False,
        "no": False,
        "not active": False,
    }
    if words.lower() not in known:
        raise NotUnderstood("expected Enabled or Disabled, found %r" % words)
    return known[words.lower()]


def number(words: str) -> float:
    """A number without its unit."""
    value = _smi.number(words)
    if value is None:
        raise NotUnderstood("expected a number, found %r" % words)
    return value if "." in words else int(value)


def whole(words: str) -> int:
    """A whole number without its unit."""
    return int(number(words))


def size(words: str) -> int:
    """Bytes."""
    value = _smi.size(words)
    if value is None:
        raise NotUnderstood("expected a size, found %r" % words)
    return value


@dataclass(frozen=True)
class Row:
    """One fact: its section, the NVML fact and the key in it, and the paths in nvidia-smi's two outputs."""

    name: str
    section: str
    nvml: str = ""
    key: str = ""
    xml: str = ""
    query: str = ""
    convert: Convert = text


ROWS: Sequence[Row] = (
    Row("uuid", IDENTITY, "uuid", xml="uuid", query="GPU UUID"),
    Row("name", IDENTITY, "name", xml="product_name", query="Product Name"),
    Row("serial", IDENTITY, "serial", xml="serial", query="Serial Number"),
    Row("minor", IDENTITY, "minor", xml="minor_number", query="Minor Number", convert=whole),
    Row("module_id", IDENTITY, "module_id", xml="platformInfo/module_id", convert=whole),
    Row(
        "board_part_number", IDENTITY, "board_part_number", xml="board_part_number", query="Board Part Number"
    ),
    Row(
        "architecture",
        IDENTITY,
        "architecture",
        xml="product_architecture",
        query="Product Architecture",
        convert=lower,
    ),
    Row("compute_capability", IDENTITY, "compute_capability"),
    Row("pci_device_id", IDENTITY, "pci", "device_id"),
    Row("memory_total", IDENTITY, "memory", "total", "fb_memory_usage/total", "FB Memory Usage/Total", size),
    Row("vbios", IDENTITY, "vbios", xml="vbios_version", query="VBIOS Version"),
    Row("inforom_image", IDENTITY, "inforom_image", xml="inforom_version/img_version"),
    Row("gsp_firmware", IDENTITY, "gsp_firmware", xml="gsp_firmware_version", query="GSP Firmware Version"),
    Row("gsp_enabled", IDENTITY, "gsp_enabled"),
    Row("numa_node", IDENTITY, "numa_node"),
    Row("platform", IDENTITY, "platform"),
    Row(
        "virtualization",
        IDENTITY,
        "virtualization",
        xml="gpu_virtualization_mode/virtualization_mode",
        convert=lower,
    ),
    Row("addressing", IDENTITY, "addressing", xml="addressing_mode", query="Addressing Mode", convert=lower),
    Row("c2c", IDENTITY, "c2c", xml="c2c_mode", query="GPU C2C Mode", convert=switch),
    Row("c2c_links", IDENTITY, "c2c_links"),
    Row("nvlink_count", IDENTITY, "nvlink_count"),
    Row(
        "persistence", STATE, "persistence", xml="persistence_mode", query="Persistence Mode", convert=switch
    ),
    Row("compute_mode", STATE, "compute_mode", xml="compute_mode", query="Compute Mode", convert=lower),
    Row("mig", STATE, "mig", "current", "mig_mode/current_mig", "MIG Mode/Current", switch),
    Row("mig_pending", STATE, "mig", "pending", "mig_mode/pending_mig", "MIG Mode/Pending", switch),
    Row("ecc", STATE, "ecc", "current", "ecc_mode/current_ecc", "ECC Mode/Current", switch),
    Row("ecc_pending", STATE, "ecc", "pending", "ecc_mode/pending_ecc", "ECC Mode/Pending", switch),
    Row("ecc_errors_since_boot", STATE, "ecc_errors_since_boot"),
    Row("ecc_errors_ever", STATE, "ecc_errors_ever"),
    Row("remapped_rows", STATE, "remapped_rows"),
    Row(
        "remapping_pending",
        STATE,
        "remapped_rows",
        "pending",
        "remapped_rows/remapped_row_pending",
        "Remapped Rows/Pending",
        switch,
    ),
    Row(
        "remapping_failed",
        STATE,
        "remapped_rows",
        "failure",
        "remapped_rows/remapped_row_failure",
        "Remapped Rows/Remapping Failure Occurred",
        switch,
    ),
    Row("retired_pages_pending", STATE, "retired_pages_pending"),
    Row("repair", STATE, "repair"),
    Row("unrepairable_memory", STATE, "unrepairable_memory"),
    Row(
        "recovery_action",
        STATE,
        "recovery_action",
        xml="gpu_recovery_action",
        query="GPU Recovery Action",
        convert=lower,
    ),
    Row("fabric_state", STATE, "fabric", "state", "fabric/state", "Fabric/State", lower),
    Row("fabric_status", STATE, "fabric", "status", "fabric/status", "Fabric/Status", lower),
    Row(
        "fabric_cluster_uuid",
        STATE,
        "fabric",
        "cluster_uuid",
        "fabric/clusterUuid",
        "Fabric/ClusterUUID",
        lower,
    ),
    Row("fabric_clique_id", STATE, "fabric", "clique_id", "fabric/cliqueId", "Fabric/CliqueId", whole),
    Row("fabric_health", STATE, "fabric", "health", "fabric/health/summary", "Fabric/Health/Summary", lower),
    Row("fabric_health_mask", STATE, "fabric", "health_mask"),
    Row("fabric_health_fields", STATE, "fabric", "health_fields"),
    *(
        Row(name, STATE, name, xml="pci/pci_gpu_link_info/" + path, convert=whole)
        for name, path in (
            ("pcie_generation", "pcie_gen/current_link_gen"),
            ("pcie_generation_max", "pcie_gen/max_link_gen"),
            ("pcie_width", "link_widths/current_link_width"),
            ("pcie_width_max", "link_widths/max_link_width"),
        )
    ),
    Row(
        "power_limit",
        STATE,
        "power_limit",
        xml="gpu_power_readings/current_power_limit",
        query="GPU Power Readings/Current Power Limit",
        convert=number,
    ),
    Row("memory_used", NOW, "memory", "used", "fb_memory_usage/used", "FB Memory Usage/Used", size),
    Row("memory_free", NOW, "memory", "free", "fb_memory_usage/free", "FB Memory Usage/Free", size),
    Row(
        "memory_reserved",
        NOW,
        "memory",
        "reserved",
        "fb_memory_usage/reserved",
        "FB Memory Usage/Reserved",
        size,
    ),
    Row(
        "temperature",
        NOW,
        "temperature",
        xml="temperature/gpu_temp",
        query="Temperature/GPU Current Temp",
        convert=number,
    ),
    Row("memory_temperature", NOW, "memory_temperature", xml="temperature/memory_temp", convert=number),
    Row("power_draw", NOW, "power_draw", xml="gpu_power_readings/average_power_draw", convert=number),
    Row(
        "utilization", NOW, "utilization", xml="utilization/gpu_util", query="Utilization/GPU", convert=number
    ),
    Row("performance_state", NOW, "performance_state", xml="performance_state", query="Performance State"),
    Row("clock_sm", NOW, "clock_sm", xml="clocks/sm_clock", query="Clocks/SM", convert=number),
    Row("clock_memory", NOW, "clock_memory", xml="clocks/mem_clock", query="Clocks/Memory", convert=number),
    Row("clock_event_reasons", NOW, "clock_event_reasons"),
    Row("pcie_replays", NOW, "pcie_replays", xml="pci/replay_counter", convert=number),
)


def read(row: Row, nvml: Any, xml: Any, query: Any) -> Measured:
    """One fact of one GPU. Each source is the GPU's own part, None when that source does not list the GPU."""
    facts = []
    if row.nvml and nvml is not None:
        facts.append(from_nvml(nvml.get(row.nvml), row.key))
    if row.xml and xml is not None:
        facts.append(from_words(_smi.at(xml, row.xml), row.convert, XML))
    if row.query and query is not None:
        facts.append(from_words(_smi.at(query, row.query), row.convert, QUERY))
    return first_ok(*facts) if facts else Measured(None, ABSENT, "", "no source that has it lists this GPU")


def from_nvml(answer: Optional[Mapping[str, Any]], key: str = "") -> Measured:
    """A recorded NVML call as a fact."""
    if answer is None:
        return Measured(None, ABSENT, NVML, "the driver did not come to this question")
    value = answer["value"]
    if answer["outcome"] != OK:
        return Measured(None, answer["outcome"], NVML, answer["message"])
    if key:
        value = value.get(key)
    if value is None:
        return Measured(None, ABSENT, NVML, "this GPU or driver does not tell it")
    return Measured(value, OK, NVML)


def from_words(words: Optional[str], convert: Convert, source: str) -> Measured:
    """Words of nvidia-smi as a fact."""
    if words is None or _smi.is_none(words):
        return Measured(None, ABSENT, source, "nvidia-smi does not tell it")
    if _smi.is_trouble(words):
        return Measured(None, ERROR, source, "nvidia-smi says %r" % words)
    try:
        return Measured(convert(words), OK, source)
    except NotUnderstood as error:
        return Measured(None, ERROR, source, str(error))


def sections(nvml: Any, xml: Any, query: Any) -> Dict[str, Dict[str, Measured]]:
    """All facts of one GPU by section: what it is, the state it is in, and what changes by the second."""
    found: Dict[str, Dict[str, Measured]] = {IDENTITY: {}, STATE: {}, NOW: {}}
    for row in ROWS:
        found[row.section][row.name] = read(row, nvml, xml, query)
    return found
