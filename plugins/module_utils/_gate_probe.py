# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate can find out only by starting something: the container's view, and whether CUDA initialises
(private).

Off unless asked for, refused on a host whose GPUs are held by anybody, and every start is told, as an
exception to the promise of touching nothing. CUDA is initialised (cuInit) and asked for its devices; no
context is created and no memory is taken. https://docs.nvidia.com/cuda/cuda-driver-
api/group__CUDA__INITIALIZE.html
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import _throwaway
from ansible_collections.gpufleet.baseline.plugins.module_utils._command import run_command
from ansible_collections.gpufleet.baseline.plugins.module_utils._driver import LIBRARY_DIRECTORIES
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_facts import facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_probes import probes
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ERROR,
    OK,
    SKIPPED,
    ProbeFailure,
    run_probes,
)

SCHEMA = "gpufleet.baseline/probe/1"
_ASKED = ("gpu.nvml", "gpu.pci", "gpu.proc.gpus", "gpu.holders")
_UUID = re.compile(r"UUID: (GPU-[0-9a-f-]{36})\)")

# https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
CUDA_ERRORS = {
    3: "the driver is not initialised",
    34: "a stub of libcuda was loaded instead of the driver's",
    35: "the driver is older than this CUDA",
    100: "no device that CUDA can use",
    101: "an invalid device",
    802: "the system is not ready: the NVLink fabric is not up",
    803: "the user libraries do not fit the loaded module",
    804: "a compat library is in use that this GPU does not support",
    999: "unknown: often the device files or the device cgroup are gone",
}

CUDA_LABEL = "cuInit, and a list of CUDA's devices"
# Runs where CUDA is to be initialised: on the host, or in a throw-away container.
PROGRAM = r"""
import ctypes, json, os, sys
paths = [os.path.join(d, "libcuda.so.1") for d in sys.argv[1:]]
library = path = None
for path in ["libcuda.so.1"] + [p for p in paths if os.path.exists(p)]:
    try:
        library = ctypes.CDLL(path)
        break
    except OSError as error:
        reason = str(error)
if library is None:
    print(json.dumps({"init": None, "why": reason}))
    sys.exit(0)
answer = {"library": path, "init": library.cuInit(0), "uuids": [], "count": 0, "version": None}
if answer["init"] == 0:
    number, version = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(number))
    answer["version"], answer["count"] = version.value, number.value
    for index in range(number.value):
        raw = ctypes.create_string_buffer(16)
        ask = getattr(library, "cuDeviceGetUuid_v2", None) or getattr(library, "cuDeviceGetUuid", None)
        if ask is None:
            answer["uuids"] = None
            break
        if ask(raw, index) == 0:
            h = raw.raw.hex()
            answer["uuids"].append("GPU-" + "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])))
print(json.dumps(answer))
"""


def probe(options: Mapping[str, Any], connect: Callable[[], Any]) -> Dict[str, Any]:
    """The document of the probes that were asked for."""
    started: List[Dict[str, Any]] = []
    refusal = why_not(_holders(options))
    image = str(options["image"] or "")
    client = connect() if image else None
    view = cuda = Measured(None, SKIPPED, "", "not asked for")
    if options["container"]:
        view = _asked(refusal, lambda: _view(client, image, options, started))
    if options["cuda"]:
        cuda = _asked(refusal, lambda: _cuda(client, image, options, started))
    return {"schema": SCHEMA, "container": view.as_dict(), "cuda": cuda.as_dict(), "started": started}


def _asked(refusal: str, ask: Callable[[], Measured]) -> Measured:
    if refusal:
        return Measured(None, SKIPPED, "", refusal)
    try:
        return ask()
    except ProbeFailure as failure:
        reading = failure.reading
        return Measured(None, reading.outcome, reading.source, reading.message)


def _holders(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The GPU document, of the questions that tell who holds a GPU."""
    specs = [spec for spec in probes(options) if spec.name in _ASKED]
    document: Mapping[str, Any] = facts(run_probes(specs))["gpu"]
    return document


def why_not(gpu: Mapping[str, Any]) -> str:
    """Why nothing may be started on this host; empty when it may."""
    holders = gpu["holders"]
    if holders["value"] is None:
        return "refused: who holds the GPUs is not known (%s)" % holders["message"]
    for holder in holders["value"]:
        if not holder["daemon"]:
            return "refused: process %s (%s) holds a GPU" % (holder["pid"], holder["command"] or "unknown")
    for row in gpu["gpus"]:
        if row["processes"]["outcome"] != OK:
            return "refused: the processes on GPU %s are not known" % row["pci_address"]
    return "" if gpu["gpus"] else "refused: there is no GPU"


def _view(client: Any, image: str, options: Mapping[str, Any], started: List[Dict[str, Any]]) -> Measured:
    if client is None:
        raise ProbeFailure(ERROR, "expected an image to start, found none; name it with gate_probe_image")
    identifier = _throwaway.image_id(client, image)
    ended = _throwaway.run(client, identifier, ["nvidia-smi", "-L"], float(options["deadline"]), started)
    source = "nvidia-smi -L in a container of %s" % identifier[:19]
    if ended.code:
        return Measured(None, ERROR, source, "exit status %d: %s" % (ended.code, _line(ended.output)))
    return Measured(sorted(_UUID.findall(ended.output)), OK, source)


def _cuda(client: Any, image: str, options: Mapping[str, Any], started: List[Dict[str, Any]]) -> Measured:
    deadline = float(options["deadline"])
    if client is not None:
        identifier = _throwaway.image_id(client, image)
        ended = _throwaway.run(client, identifier, ["python3", "-c", PROGRAM], deadline, started, CUDA_LABEL)
        return read_cuda(ended.output, ended.code, "cuInit in a container of %s" % identifier[:19])
    started.append({"what": "process", "name": CUDA_LABEL, "removed": True})
    result = run_command([sys.executable, "-c", PROGRAM, *LIBRARY_DIRECTORIES], deadline)
    if result.outcome != OK:
        return Measured(None, result.outcome, "cuInit on the host", result.message)
    return read_cuda(result.text, 0, "cuInit on the host")


def read_cuda(output: str, code: int, source: str) -> Measured:
    """What the program printed as a fact."""
    answer = _last_json(output.splitlines())
    if code or answer is None:
        return Measured(None, ERROR, source, "exit status %d: %s" % (code, _line(output)))
    if answer.get("init") is None:
        return Measured(None, "absent", source, "no libcuda.so.1: %s" % answer.get("why"))
    if answer["init"] != 0:
        meaning = CUDA_ERRORS.get(answer["init"], "an error of CUDA")
        return Measured(answer, OK, source, "cuInit gives %s: %s" % (answer["init"], meaning))
    return Measured(answer, OK, source)


def _last_json(lines: Sequence[str]) -> Optional[Dict[str, Any]]:
    for line in reversed(lines):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        return answer if isinstance(answer, dict) else None
    return None


def _line(text: str) -> str:
    """The last line, which is where a program says what was wrong."""
    lines = [line for line in text.splitlines() if line.strip()]
    return " ".join(lines[-1].split())[:200] if lines else "it printed nothing"
