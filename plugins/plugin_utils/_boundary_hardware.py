# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the recipes' hardware names look like on a host (private to the collection, controller only).

Pure. The ids and the GPUs per host are those of the recipes' taxonomy (https://github.com/vllm-
project/recipes/blob/8959cf64189c71d36e11c6a30335f923f261b1f7/taxonomy.yaml). Name, compute capability
(https://developer.nvidia.com/cuda-gpus) and memory of one GPU in GB (10^9 bytes, as NVML reports it) tell
parts apart that share a name: a GB300 workstation has 252 GB, a GB300 tray 4 GPUs with about 288 GB each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NVIDIA, AMD = "nvidia", "amd"
# How the GPUs of a launch group are joined: over NVSwitch in one host, or over the NVLink of a whole rack.
NVSWITCH, RACK = "nvswitch", "rack"


@dataclass(frozen=True)
class Hardware:
    """One kind of host of the recipes: ``name`` is a word of the GPU's name, ``memory_gb`` what one GPU may
    report.
    """

    id: str
    brand: str
    name: str
    gpus_per_host: int
    capability: tuple[int, int] = (0, 0)
    memory_gb: tuple[float, float] = (0.0, 0.0)
    architecture: str = ""
    fabric: str = ""

    def names(self, gpu_name: str) -> bool:
        """Whether a GPU's name is of this kind: by whole words, so that B300 is not found in GB300."""
        return re.search(rf"(?i)(?<![A-Z0-9]){re.escape(self.name)}(?![A-Z0-9])", gpu_name) is not None


_TABLE = (
    Hardware("h100", NVIDIA, "H100", 8, (9, 0), (79.0, 102.0), "x86_64", NVSWITCH),
    Hardware("h200", NVIDIA, "H200", 8, (9, 0), (140.0, 152.0), "x86_64", NVSWITCH),
    Hardware("b200", NVIDIA, "B200", 8, (10, 0), (178.0, 206.0), "x86_64", NVSWITCH),
    Hardware("b300", NVIDIA, "B300", 8, (10, 3), (265.0, 312.0), "x86_64", NVSWITCH),
    Hardware("gb200", NVIDIA, "GB200", 4, (10, 0), (178.0, 206.0), "aarch64", RACK),
    Hardware("gb300", NVIDIA, "GB300", 4, (10, 3), (265.0, 312.0), "aarch64", RACK),
    Hardware("dgx_station_gb300", NVIDIA, "GB300", 1, (10, 3), (240.0, 264.0), "aarch64"),
    Hardware("dgx_spark_gb10", NVIDIA, "GB10", 1, (12, 1), (100.0, 140.0), "aarch64"),
    Hardware("mi300x", AMD, "MI300X", 8),
    Hardware("mi325x", AMD, "MI325X", 8),
    Hardware("mi355x", AMD, "MI355X", 8),
)
HARDWARE = {hardware.id: hardware for hardware in _TABLE}


def kind_of(gpu_name: str, memory_gb: float | None) -> str:
    """The id of a GPU by name and memory; empty when the table has none that fits."""
    for hardware in _TABLE:
        low, high = hardware.memory_gb
        if (
            hardware.brand == NVIDIA
            and hardware.names(gpu_name)
            and memory_gb is not None
            and low <= memory_gb <= high
        ):
            return hardware.id
    return ""
