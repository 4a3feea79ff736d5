# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's driver against captures of a real one: the same questions, answers of the same shape and content.

The state h200 describes the very host of the captures, so most answers have to be equal, not only alike.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.lab.conftest import Driver

CAPTURES = Path(__file__).parents[2] / "fixtures/captures/h200"

# What differs from second to second, or was replaced in the captures: compared in shape, not in value.
VOLATILE_NVML = {"nvmlDeviceGetUUID", "nvmlDeviceGetSerial"}
VOLATILE = re.compile(
    r"timestamp|uuid|serial|throughput|_util|util$|draw|temp|t\.limit|replay|free|board id", re.IGNORECASE
)
# The busy host is another one, and how a busy GPU's clocks and utilization move is not simulated.
BUSY = r"clock|used|memory_util|pdi|module_id"
# What a gate asks of NVML. Each has to be there; other functions may be, and then have to be right as well.
NEEDED = """
    Name UUID Serial PciInfo_v3 MinorNumber Index ModuleId CudaComputeCapability MemoryInfo MigMode
    PersistenceMode EccMode RemappedRows RepairStatus UnrepairableMemoryFlag_v1 ComputeRunningProcesses_v3
    AddressingMode C2cModeInfoV NumaNodeId GspFirmwareVersion GspFirmwareMode VbiosVersion InforomImageVersion
    CurrentClocksEventReasons Architecture Brand UtilizationRates PowerUsage
""".split()


def recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CAPTURES / "nvml.json").read_text())
    return document


def text(name: str) -> str:
    return (CAPTURES / name).read_text()


@pytest.fixture
def h200(host: Any) -> Driver:
    return host("h200")  # type: ignore[no-any-return]


def test_nvml_answers_what_the_real_one_answered(h200: Driver) -> None:
    real = recorded()
    simulated = h200.nvml(*real["gpus"][0])
    assert {key: simulated[key] for key in ("driver", "nvml", "cuda")} == {
        key: real[key] for key in ("driver", "nvml", "cuda")
    }
    assert len(simulated["gpus"]) == len(real["gpus"])
    for gpu, expected in zip(simulated["gpus"], real["gpus"], strict=True):
        there = {name for name in expected if gpu[name] != "ERR NVMLError_FunctionNotFound(13)"}
        assert {f"nvmlDeviceGet{name}" for name in NEEDED} <= there
        for name in there - VOLATILE_NVML - {"nvmlDeviceGetPowerUsage"}:
            assert gpu[name] == expected[name], name
        for name in VOLATILE_NVML:
            assert len(gpu[name]) == len(expected[name]), name


def masked(table: str) -> str:
    return re.sub(r"^\w{3} \w{3} +\d+ [\d:]+ \d{4}", "TIME", table)


def test_the_plain_table_is_the_real_one(h200: Driver) -> None:
    done = h200.smi()
    assert done.returncode == 0
    assert masked(done.stdout) == masked(text("nvidia-smi.txt"))


def test_the_plain_table_of_a_busy_host_is_the_real_one(host: Any) -> None:
    busy = {
        "gpu.0.processes": "15411:128518:/usr/local/bin/python3",
        "gpu.0.memory.used": "9",
        "gpu.1.memory.used": "4",
        "gpu.*.temperature": "39",
        "gpu.1.temperature": "39",
        "gpu.*.power": "127000",
        "gpu.1.power": "82000",
    }
    assert masked(host("h200", **busy).smi().stdout) == masked(text("nvidia-smi-busy.txt"))


def labels(report: str) -> list[tuple[str, str]]:
    """(label with its indentation, value) of each line of nvidia-smi -q."""
    return [tuple(map(str.rstrip, (line + ":").split(":", 1))) for line in report.splitlines()]  # type: ignore[misc]


def test_the_long_report_has_the_same_lines(h200: Driver) -> None:
    simulated, real = labels(h200.smi("-q").stdout), labels(text("smi-q.txt"))
    assert [label for label, _value in simulated] == [label for label, _value in real]
    different = {
        label.strip()
        for (label, value), (_label, other) in zip(simulated, real, strict=True)
        if value != other
    }
    assert {label for label in different if not VOLATILE.search(label)} == set()


def elements(document: str) -> dict[str, set[str]]:
    """Path of each element, with its texts."""
    found: dict[str, set[str]] = {}

    def walk(element: ElementTree.Element, path: str) -> None:
        found.setdefault(path, set()).add((element.text or "").strip())
        for child in element:
            walk(child, f"{path}/{child.tag}")

    walk(ElementTree.fromstring(document), "")
    return found


@pytest.mark.parametrize("capture", ["smi-q.xml", "nvidia-smi-busy.xml"])
def test_the_xml_report_has_the_same_elements(host: Any, capture: str) -> None:
    busy = {"gpu.0.processes": "15411:128518:/usr/local/bin/python3", "gpu.0.memory.used": "9"}
    simulated = elements(host("h200", **(busy if "busy" in capture else {})).smi("-q", "-x").stdout)
    real = elements(text(capture))
    assert simulated.keys() == real.keys()
    different = {path for path in real if simulated[path] != real[path] and "supported_" not in path}
    if "busy" in capture:
        different = {path for path in different if not re.search(BUSY, path)}
    assert {path for path in different if not VOLATILE.search(path)} == set()


def test_topology_and_links_are_the_real_ones(h200: Driver) -> None:
    printed = h200.smi("topo", "-m").stdout + h200.smi("nvlink", "-s").stdout
    real = text("topo-nvlink-proc.txt").split("\n", 1)[1].split("NVRM version")[0]
    unnamed = re.compile(r"UUID: [\w-]+")
    assert unnamed.sub("UUID", printed) == unnamed.sub("UUID", real)


def test_comma_separated_answers(host: Any) -> None:
    # The form is the documented one, there is no capture: https://docs.nvidia.com/deploy/nvidia-smi/index.html
    busy = host("h200", **{"gpu.0.processes": "15411:128518:/usr/local/bin/python3"})
    assert busy.smi("--query-gpu=name,memory.total,mig.mode.current", "--format=csv").stdout == (
        "name, memory.total [MiB], mig.mode.current\n"
        "NVIDIA H200, 143771 MiB, Disabled\nNVIDIA H200, 143771 MiB, Disabled\n"
    )
    assert busy.smi("--query-gpu=memory.total", "--format=csv,noheader,nounits").stdout == "143771\n143771\n"
    apps = busy.smi("--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv,noheader")
    assert apps.stdout == "15411, /usr/local/bin/python3, 128518 MiB\n"
    wrong = busy.smi("--query-gpu=index_is_wrong", "--format=csv")
    assert (wrong.returncode, wrong.stdout[:23]) == (2, 'Field "index_is_wrong" ')


def test_questions_about_one_gpu(h200: Driver) -> None:
    uuid = "GPU-a0010000-0000-4000-8000-000000000000"
    for name in ("1", uuid, "00000000:00:07.0"):
        assert h200.smi("-L", "-i", name).stdout == f"GPU 1: NVIDIA H200 (UUID: {uuid})\n"
    assert h200.smi("-L", "-i", "7").returncode == 6
