# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Xid codes in a few words of our own (pure; private to the collection).

Only those that a person meets on data centre GPUs; a code that is not here stands without words.
Catalogue: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
"""

from __future__ import annotations

from typing import Dict

XIDS: Dict[int, str] = {
    8: "a command took too long on the GPU",
    13: "a kernel of the application went wrong (graphics engine exception)",
    31: "an access to GPU memory that is not mapped, mostly by the application",
    32: "an invalid or corrupted command stream",
    38: "the driver's firmware reported an error",
    43: "the GPU stopped working for one application",
    45: "the driver took down an application's work, after another error",
    48: "an uncorrectable memory error",
    61: "an inner microcontroller of the GPU stopped or halted",
    62: "an inner microcontroller of the GPU halted",
    63: "a memory row was retired or is marked for remapping",
    64: "a memory row could not be retired or remapped",
    68: "a video processor exception",
    69: "a graphics engine class error, mostly by the application",
    74: "an NVLink error",
    79: "the GPU fell off the bus",
    92: "many correctable memory errors",
    94: "an uncorrectable memory error that was contained to one application",
    95: "an uncorrectable memory error that was not contained",
    109: "a context switch took too long",
    119: "the GPU's system processor did not answer the driver",
    120: "the GPU's system processor reported an error",
    121: "an error on the link between CPU and GPU that was corrected",
    136: "a link training failed",
    137: "an NVLink privilege error",
    140: "an uncorrectable memory error",
    143: "the GPU could not be initialised",
    144: "an NVLink error",
    145: "an NVLink error",
    146: "an NVLink error",
    147: "an NVLink error",
    148: "an NVLink error",
    149: "an NVLink error",
    150: "an NVLink error",
    154: "the advised recovery of the GPU changed",
    155: "an NVLink software error",
    156: "a resource was retired",
    157: "a resource could not be retired",
}
