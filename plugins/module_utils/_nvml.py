# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the driver's management library, one call at a time (private to the collection).

The only place that imports nvidia-ml-py. Every call is recorded by itself, with its value or its code, and
what is known is emitted after each GPU: a driver that hangs at GPU 5 keeps GPUs 0 to 4. No call here opens a
CUDA context or changes a setting. Calls and codes: https://docs.nvidia.com/deploy/nvml-api/index.html
"""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils import _nvml_calls
from ansible_collections.gpufleet.baseline.plugins.module_utils._nvml_codes import describe, outcome_of_code
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    ERROR,
    OK,
    Emit,
    ProbeFailure,
    Reading,
)

LIBRARY = "libnvidia-ml.so.1"
SOURCE = "NVML"

LIBRARY_NOT_FOUND = 12


def import_library() -> Any:
    """The module of nvidia-ml-py; raises ProbeFailure when it can't be had."""
    try:
        import pynvml
    except ImportError as error:
        raise ProbeFailure(
            ABSENT,
            "the Python library nvidia-ml-py did not travel with the task and is not installed (%s)" % error,
            SOURCE,
        ) from error
    return pynvml


def read(emit: Emit, library_directories: Sequence[str] = ()) -> Reading:
    """Every fact of the driver and of each GPU; what is known so far is emitted after each GPU."""
    nvml = import_library()
    path = _start(nvml, emit, library_directories)
    document: Dict[str, Any] = {"library": path, "system": {}, "count": None, "gpus": []}
    try:
        _ask_all(nvml, _nvml_calls.SYSTEM, None, document["system"], "driver", emit)
        document["count"] = _ask(nvml, lambda n, _none: n.nvmlDeviceGetCount(), None)
        for index in range(document["count"]["value"] or 0):
            emit(_reading(document))
            document["gpus"].append(_read_gpu(nvml, index, emit))
    finally:
        _stop(nvml)
    return _judged(document)


def _start(nvml: Any, emit: Emit, directories: Sequence[str]) -> str:
    """Initialise the library; the path that it was loaded from. Raises ProbeFailure with the reason."""
    emit(Reading(message="nvmlInit"))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value != LIBRARY_NOT_FOUND or not _load_from(directories):
            raise _failure(error.value) from error
        # The loader now knows the library by its name, from the directory in which we found it.
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as second:
            raise _failure(second.value) from second
    return _loaded_path()


def _failure(code: int) -> ProbeFailure:
    return ProbeFailure(outcome_of_code(code), "nvmlInit: %s" % describe(code), SOURCE)


def _load_from(directories: Sequence[str]) -> bool:
    """Load the library from a directory that the loader's cache does not list."""
    for directory in directories:
        path = os.path.join(directory, LIBRARY)
        if os.path.exists(path):
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            except OSError:  # for another processor, or broken: the next one may do
                continue
            return True
    return False


def _loaded_path() -> str:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="backslashreplace") as stream:
            return next((line.split(None, 5)[5].strip() for line in stream if "libnvidia-ml.so" in line), "")
    except OSError:
        return ""


def _read_gpu(nvml: Any, index: int, emit: Emit) -> Dict[str, Any]:
    facts: Dict[str, Any] = {"index": index}
    label = "GPU %d" % index
    handle, facts["handle"] = _attempt(nvml, lambda n, _none: n.nvmlDeviceGetHandleByIndex(index), None)
    if handle is not None:
        _ask_all(nvml, _nvml_calls.GPU, handle, facts, label, emit)
        facts["nvlinks"] = _read_links(nvml, handle, facts, label, emit)
    return facts


def _read_links(
    nvml: Any, handle: Any, facts: Dict[str, Any], label: str, emit: Emit
) -> List[Dict[str, Any]]:
    links: List[Dict[str, Any]] = []
    count = facts["nvlink_count"]["value"]
    for link in range(count if isinstance(count, int) else 0):
        row: Dict[str, Any] = {"link": link}
        _ask_all(nvml, _nvml_calls.link_calls(link), handle, row, "%s, NVLink %d" % (label, link), emit)
        links.append(row)
    return links


def _ask_all(
    nvml: Any, calls: Sequence[_nvml_calls.Call], handle: Any, into: Dict[str, Any], label: str, emit: Emit
) -> None:
    for call in calls:
        emit(Reading(message="%s: %s" % (label, call.fact)))
        into[call.fact] = _ask(nvml, call.ask, handle)


def _ask(nvml: Any, ask: _nvml_calls.Ask, handle: Any) -> Dict[str, Any]:
    """One call as a fact."""
    value, answer = _attempt(nvml, ask, handle)
    return {**answer, "value": value}


def _attempt(nvml: Any, ask: _nvml_calls.Ask, handle: Any) -> Tuple[Any, Dict[str, Any]]:
    """What one call gave, and how it ended; a device handle itself can't be written down."""
    value: Any = None
    answer: Dict[str, Any] = {"outcome": OK, "code": 0, "message": ""}
    try:
        value = ask(nvml, handle)
    except nvml.NVMLError as error:
        answer.update(outcome=outcome_of_code(error.value), code=error.value, message=describe(error.value))
    except AttributeError as error:
        answer.update(outcome=ABSENT, code=None, message="this nvidia-ml-py does not know it: %s" % error)
    except (TypeError, ValueError, UnicodeDecodeError, ctypes.ArgumentError) as error:
        answer.update(outcome=ERROR, code=None, message="the answer cannot be read: %s" % error)
    return value, answer


def _stop(nvml: Any) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError:  # the process ends in a moment anyway
        return


def _reading(document: Dict[str, Any]) -> Reading:
    raw = json.dumps(document, indent=1, sort_keys=True).encode()
    return Reading(document, raw, source=SOURCE)


def _judged(document: Dict[str, Any]) -> Reading:
    """The whole answer; a GPU that could not be opened makes it an error that keeps the others."""
    reading = _reading(document)
    problem = _problem(document)
    if problem:
        reading.outcome, reading.message = ERROR, problem
    return reading


def _problem(document: Dict[str, Any]) -> Optional[str]:
    count = document["count"]
    if count["outcome"] != OK:
        return "the number of GPUs could not be read: %s" % count["message"]
    lost = [gpu for gpu in document["gpus"] if gpu["handle"]["outcome"] != OK]
    if lost:
        return "; ".join("GPU %d: %s" % (gpu["index"], gpu["handle"]["message"]) for gpu in lost)
    return None
