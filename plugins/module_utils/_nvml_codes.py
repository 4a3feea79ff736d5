# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the return codes of NVML mean to a person (pure; private to the collection).

The binding has words for a part of them only. Numbers and names:
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
"""

from __future__ import annotations

from typing import Dict, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, DENIED, ERROR

_MISMATCH = (
    "the user libraries and the loaded kernel module are of different versions; "
    "finish the upgrade of all driver packages, then reboot"
)

# code: (name, outcome, what it means and what to do)
CODES: Dict[int, Tuple[str, str, str]] = {
    1: ("UNINITIALIZED", ERROR, "the library was not initialised, or was shut down already"),
    2: ("INVALID_ARGUMENT", ERROR, "the call does not fit this GPU or this driver"),
    3: ("NOT_SUPPORTED", ABSENT, "this GPU or virtual machine does not tell it"),
    4: ("NO_PERMISSION", DENIED, "root is needed, or the device nodes or the device cgroup deny it"),
    5: ("ALREADY_INITIALIZED", ERROR, "the library was initialised before"),
    6: ("NOT_FOUND", ABSENT, "there is no such GPU here"),
    7: ("INSUFFICIENT_SIZE", ERROR, "the answer grew while it was read"),
    8: ("INSUFFICIENT_POWER", ERROR, "a power cable of the GPU is missing or loose"),
    9: ("DRIVER_NOT_LOADED", ABSENT, "the library is there, the kernel module is not loaded"),
    10: ("TIMEOUT", ERROR, "the driver gave up waiting for the GPU"),
    11: ("IRQ_ISSUE", ERROR, "the driver gets no interrupts from the GPU"),
    12: ("LIBRARY_NOT_FOUND", ABSENT, "the driver's user library libnvidia-ml.so.1 is not there"),
    13: ("FUNCTION_NOT_FOUND", ABSENT, "the driver is older than this question"),
    14: ("CORRUPTED_INFOROM", ERROR, "the GPU's own memory of its configuration is damaged"),
    15: ("GPU_IS_LOST", ERROR, "the GPU fell off the bus; drain the host and reboot it"),
    16: ("RESET_REQUIRED", ERROR, "the GPU needs a reset before it can be used"),
    17: ("OPERATING_SYSTEM", DENIED, "the operating system refused it (cgroup or seccomp)"),
    18: ("LIB_RM_VERSION_MISMATCH", ERROR, _MISMATCH),
    19: ("IN_USE", ERROR, "the GPU is in use"),
    20: ("MEMORY", ERROR, "no memory was left for the answer"),
    21: ("NO_DATA", ABSENT, "there is no data for it"),
    22: ("VGPU_ECC_NOT_SUPPORTED", ABSENT, "not available with ECC on"),
    23: ("INSUFFICIENT_RESOURCES", ERROR, "the driver is out of resources"),
    24: ("FREQ_NOT_SUPPORTED", ABSENT, "this frequency does not exist"),
    25: ("ARGUMENT_VERSION_MISMATCH", ABSENT, "the driver does not know this version of the question"),
    26: ("DEPRECATED", ABSENT, "the driver no longer answers it"),
    27: ("NOT_READY", ERROR, "the GPU is not ready yet"),
    28: ("GPU_NOT_FOUND", ABSENT, "there is no such GPU here"),
    29: ("INVALID_STATE", ERROR, "the GPU is in a state in which it does not tell it"),
    30: ("RESET_TYPE_NOT_SUPPORTED", ABSENT, "the GPU knows no such reset"),
    999: (
        "UNKNOWN",
        ERROR,
        "an inner error of the driver; in a container that has run for long the device cgroup may be lost",
    ),
}


def describe(code: int) -> str:
    """A code in words, with its name and number."""
    name, _outcome, words = CODES.get(code, ("code", ERROR, "a code that this collection does not know"))
    return "%s (NVML %s, %d)" % (words, name, code)


def outcome_of_code(code: int) -> str:
    """The probe outcome that a code stands for."""
    return CODES.get(code, ("", ERROR, ""))[1]
