# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import pynvml
import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _nvml, _nvml_calls, _nvml_codes
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OUTCOMES,
    Emit,
    ProbeFailure,
    ProbeSpec,
    Reading,
    run_probes,
)
from hypothesis import given
from hypothesis import strategies as st

CAPTURES = Path(__file__).resolve().parents[3] / "fixtures" / "captures" / "h200"

CODES = {"NotSupported": 3, "InvalidArgument": 2, "FunctionNotFound": 13, "Unknown": 999, "NotReady": 27}


class Recorded:
    """Stands in for the module of nvidia-ml-py and answers as a real H200 host did."""

    NVMLError = pynvml.NVMLError

    def __init__(self, **changes: Any) -> None:
        recording = json.loads((CAPTURES / "nvml.json").read_text())
        self.gpus: List[Dict[str, Any]] = recording["gpus"]
        self.system = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": recording["driver"],
            "nvmlSystemGetNVMLVersion": recording["nvml"],
            "nvmlSystemGetCudaDriverVersion_v2": recording["cuda"],
            "nvmlDeviceGetCount": len(self.gpus),
            **changes,
        }

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            return lambda *arguments, **keywords: self.answer(name, *arguments)
        return getattr(pynvml, name)

    def answer(self, name: str, handle: Optional[int] = None, *arguments: Any) -> Any:
        if name in self.system:
            value = self.system[name]
        elif handle is None or name not in self.gpus[handle]:
            raise pynvml.NVMLError(13)
        else:
            value = self.gpus[handle][name]
        if callable(value):
            return value(handle, *arguments)
        if isinstance(value, str) and value.startswith("ERR NVMLError_"):
            raise pynvml.NVMLError(int(value.partition("(")[2].rstrip(")")))
        if isinstance(value, dict):
            return SimpleNamespace(**{k: int(v) if str(v).isdigit() else v for k, v in value.items()})
        return value


def raising(code: int) -> Any:
    def ask(*arguments: Any) -> None:
        raise pynvml.NVMLError(code)

    return ask


def read(monkeypatch: pytest.MonkeyPatch, recorded: Any, emit: Emit = lambda reading: None) -> Reading:
    monkeypatch.setattr(_nvml, "import_library", lambda: recorded)
    return _nvml.read(emit)


def test_a_recorded_host_gives_every_fact_with_its_own_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, Recorded())
    assert reading.outcome == "ok"
    document = reading.value
    assert document["system"]["driver"]["value"] == "580.159.04"
    assert document["system"]["cuda_driver"]["value"] == "13.0"
    assert document["count"]["value"] == 2
    first = document["gpus"][0]
    assert first["name"]["value"] == "NVIDIA H200"
    assert first["compute_capability"]["value"] == "9.0"
    assert first["pci"]["value"]["address"] == "0000:00:06.0"
    assert first["pci"]["value"]["device_id"] == "0x233510de"
    assert first["mig"]["value"] == {"current": False, "pending": False}
    assert first["remapped_rows"]["value"]["failure"] is False
    assert first["power_limit"]["value"] == 700.0
    assert first["clock_event_reasons"]["value"] == ["idle"]
    assert first["compute_processes"]["value"] == []
    assert first["numa_node"] == {
        "value": None,
        "outcome": "absent",
        "code": 3,
        "message": "this GPU or virtual machine does not tell it (NVML NOT_SUPPORTED, 3)",
    }
    assert json.loads(reading.raw) == document


def test_every_fact_of_every_gpu_has_one_of_the_six_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    document = read(monkeypatch, Recorded()).value
    for gpu in document["gpus"]:
        for call in _nvml_calls.GPU:
            assert gpu[call.fact]["outcome"] in OUTCOMES
            assert (gpu[call.fact]["value"] is None) is (gpu[call.fact]["outcome"] != "ok")


@pytest.mark.parametrize(
    ("code", "outcome", "words"),
    [
        (18, "error", "different versions"),
        (9, "absent", "kernel module is not loaded"),
        (12, "absent", "libnvidia-ml.so.1 is not there"),
        (4, "denied", "root is needed"),
        (999, "error", "inner error"),
        (4711, "error", "does not know"),
    ],
)
def test_the_ways_in_which_the_driver_is_not_there_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, code: int, outcome: str, words: str
) -> None:
    with pytest.raises(ProbeFailure) as failure:
        read(monkeypatch, Recorded(nvmlInit=raising(code)))
    assert failure.value.reading.outcome == outcome
    assert words in failure.value.reading.message


def test_a_missing_binding_is_absent_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ProbeFailure) as failure:
        _nvml.read(lambda reading: None)
    assert failure.value.reading.outcome == "absent"
    assert "nvidia-ml-py" in failure.value.reading.message


def test_t3_a_hang_at_one_gpu_keeps_those_before_it_and_names_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Recorded()
    recorded.gpus = [dict(recorded.gpus[0]) for _number in range(8)]
    recorded.system["nvmlDeviceGetCount"] = 8
    recorded.gpus[5]["nvmlDeviceGetSerial"] = lambda handle: time.sleep(300)
    monkeypatch.setattr(_nvml, "import_library", lambda: recorded)
    probe = run_probes([ProbeSpec("nvml", _nvml.read, 3.0)])["nvml"]
    assert (probe.outcome, probe.partial) == ("timeout", True)
    assert [gpu["index"] for gpu in probe.value["gpus"]] == [0, 1, 2, 3, 4]
    assert probe.message.endswith("last asked: GPU 5: serial")
    assert json.loads(probe.raw) == probe.value


def test_t5_a_lost_gpu_is_an_error_that_keeps_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Recorded):
        def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
            if index == 1:
                raise pynvml.NVMLError(15)
            return index

    reading = read(monkeypatch, Lost())
    assert reading.outcome == "error"
    assert reading.message.startswith("GPU 1: the GPU fell off the bus")
    assert reading.value["gpus"][0]["name"]["value"] == "NVIDIA H200"
    assert set(reading.value["gpus"][1]) == {"index", "handle"}


def test_a_count_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = read(monkeypatch, Recorded(nvmlDeviceGetCount=raising(999)))
    assert reading.outcome == "error"
    assert "number of GPUs" in reading.message


def test_t19_a_process_whose_memory_is_not_told_has_none_and_not_0(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded()
    process = SimpleNamespace(pid=4242, usedGpuMemory=None, gpuInstanceId=0xFFFFFFFF)
    recorded.gpus[0]["nvmlDeviceGetComputeRunningProcesses"] = [process]
    document = read(monkeypatch, recorded).value
    assert document["gpus"][0]["compute_processes"]["value"] == [
        {"pid": 4242, "memory_used": None, "gpu_instance": None}
    ]


def test_memory_comes_from_the_older_question_when_the_driver_does_not_know_the_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = Recorded()

    def memory(handle: int, version: Optional[int] = None) -> Any:
        if version is not None:
            raise pynvml.NVMLError(25)
        return SimpleNamespace(total=10, used=4, free=6)

    monkeypatch.setattr(recorded, "nvmlDeviceGetMemoryInfo", memory, raising=False)
    assert read(monkeypatch, recorded).value["gpus"][0]["memory"]["value"] == {
        "total": 10,
        "used": 4,
        "free": 6,
        "reserved": None,
    }


@pytest.mark.parametrize(("refused", "health"), [((), "healthy"), ((0x3000028,), None)])
def test_the_fabric_is_asked_in_the_newest_way_that_the_driver_knows(
    monkeypatch: pytest.MonkeyPatch, refused: Any, health: Optional[str]
) -> None:
    recorded = Recorded()

    def fabric(handle: int, reference: Any) -> None:
        info = reference._obj
        if info.version in refused:
            raise pynvml.NVMLError(25)
        info.state, info.status, info.cliqueId, info.healthMask = 3, 0, 32766, 0x1AA
        info.clusterUuid[:] = bytes.fromhex("4e7f2d1a0b3c4d5e8f90a1b2c3d4e5f6")
        if hasattr(info, "healthSummary"):
            info.healthSummary = 1

    recorded.gpus[0]["nvmlDeviceGetGpuFabricInfoV"] = fabric
    found = read(monkeypatch, recorded).value["gpus"][0]["fabric"]["value"]
    assert (found["state"], found["status"], found["clique_id"]) == ("completed", "success", 32766)
    assert found["cluster_uuid"] == "4e7f2d1a-0b3c-4d5e-8f90-a1b2c3d4e5f6"
    assert found["health"] == health
    assert found["health_fields"]["degraded_bandwidth"] is False
    assert found["health_fields"]["incorrect_configuration"] == 1


def test_the_fabric_s_bad_status_is_not_hidden_by_its_state() -> None:
    info = SimpleNamespace(clusterUuid=bytes(16), status=23, cliqueId=0, state=3)
    found = _nvml_calls.fabric_facts(info)
    assert (found["state"], found["status"], found["status_code"]) == (
        "completed",
        "insufficient_resources",
        23,
    )
    assert found["cluster_uuid"] == "00000000-0000-0000-0000-000000000000"


def test_the_platform_is_read_as_bytes() -> None:
    content = struct.pack("=I16s16s5B", 0x200002C, bytes(range(240, 256)), b"182102000000\0", 25, 15, 1, 0, 4)
    assert _nvml_calls.platform_facts(content) == {
        "chassis_serial": "182102000000",
        "ib_guid": bytes(range(240, 256)).hex(),
        "slot": 25,
        "tray": 15,
        "host_id": 1,
        "peer_type": 0,
        "module_id": 4,
    }


def test_the_platform_has_the_size_of_the_binding_s_structure() -> None:
    assert ctypes.sizeof(pynvml.c_nvmlPlatformInfo_v2_t) >= struct.calcsize("=I16s16s5B")


@given(st.integers(0, 2**32 - 1))
def test_clock_reasons_lose_no_bit(mask: int) -> None:
    known = {name: bit for bit, name in _nvml_calls.CLOCK_REASONS.items()}
    total = sum(known[name] if name in known else int(name, 16) for name in _nvml_calls.clock_reasons(mask))
    assert total == mask


@given(st.integers(0, 2**32 - 1))
def test_every_health_mask_is_read(mask: int) -> None:
    fields = _nvml_calls.health(mask)
    assert all(
        value in (None, True, False) for name, value in fields.items() if name != "incorrect_configuration"
    )


@pytest.mark.parametrize(("number", "version"), [(13000, "13.0"), (12080, "12.8"), (13020, "13.2")])
def test_cuda_versions(number: int, version: str) -> None:
    assert _nvml_calls.cuda_version(number) == version


def test_every_code_of_the_binding_is_in_our_own_table() -> None:
    names = [
        name
        for name in vars(pynvml)
        if name.startswith("NVML_ERROR_") and isinstance(vars(pynvml)[name], int)
    ]
    codes = {vars(pynvml)[name]: name[len("NVML_ERROR_") :] for name in names}
    assert set(codes) <= set(_nvml_codes.CODES)
    for code, (name, outcome, words) in _nvml_codes.CODES.items():
        assert codes.get(code, name) == name
        assert outcome in OUTCOMES
        assert words


def test_the_facts_of_a_gpu_have_names_of_their_own() -> None:
    names = [call.fact for call in _nvml_calls.GPU]
    assert len(names) == len(set(names))


def test_a_library_beside_the_loader_s_cache_is_found_by_its_directory(tmp_path: Path) -> None:
    """Compiled here: a library of that name in a directory that the loader does not know."""
    source = tmp_path / "nvml.c"
    source.write_text("int nvmlInitWithFlags(unsigned flags) { return 18; }\n")
    library = tmp_path / "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(source)]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler: the library that lies beside the loader's cache is not tried")
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    script = (
        "from ansible_collections.gpufleet.baseline.plugins.module_utils import _nvml, _probe\n"
        "try: _nvml.read(lambda reading: None, ['/nowhere', %r])\n"
        "except _probe.ProbeFailure as failure: print(failure)\n"
    ) % str(tmp_path)
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert "LIB_RM_VERSION_MISMATCH, 18" in result.stdout, result.stderr
