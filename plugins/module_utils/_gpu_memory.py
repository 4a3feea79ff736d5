# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory in use on each GPU, asked again and again over one open NVML (private to the collection)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils import _nvml
from ansible_collections.gpufleet.baseline.plugins.module_utils._nvml_codes import describe, outcome_of_code
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure

# Bytes by UUID; None for a GPU that did not tell.
Memory = Dict[str, Optional[int]]


@contextmanager
def opened() -> Iterator[Callable[[], Memory]]:
    """A function that reads the memory in use now, reserved memory included.

    Raises ProbeFailure when NVML cannot be had. A call can hang with the driver: use it in a probe's child.
    """
    nvml = _nvml.import_library()
    try:
        nvml.nvmlInit()
        handles = {}
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            handles[str(nvml.nvmlDeviceGetUUID(handle))] = handle
    except nvml.NVMLError as error:
        raise ProbeFailure(
            outcome_of_code(error.value), "NVML: %s" % describe(error.value), _nvml.SOURCE
        ) from error
    try:
        yield lambda: {uuid: _used(nvml, handle) for uuid, handle in handles.items()}
    finally:
        nvml.nvmlShutdown()


def _used(nvml: Any, handle: Any) -> Optional[int]:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)
    except nvml.NVMLError:
        return None
