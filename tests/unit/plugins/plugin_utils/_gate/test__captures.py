# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real hosts with NVIDIA H200, as they were recorded, against Kimi K3 and against a boundary made for them."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baseline.plugins.module_utils import _engine_facts, _gpu_facts, _smi
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary_pin import Pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import _judge
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._documents import host_facts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Result
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import Case, RecipeState
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    bad,
    verdict,
)

FIXTURES = Path(__file__).parents[4] / "fixtures"
CAPTURES = FIXTURES / "captures" / "h200"
TODAY = datetime.date(2026, 11, 30)

TWO_H200 = """\
schema: gpufleet.baseline/pinned-boundary/1
name: two-h200
model: example/Model
source: {location: a test, checked: "2026-11-30"}
default: {hardware: h200, strategy: single_node_tp, variant: default}
limits:
  driver_branch: {value: 580, where: a test}
  cuda: {value: "13.0", where: a test}
variants: {default: {memory_gb: 280}}
hardware: {h200: {gpus: 2, per_host: 2, strategy: single_node_tp}}
"""


def answer(value: Any) -> dict[str, Any]:
    return {"value": value, "outcome": "ok", "code": 0, "message": ""}


def nvml() -> dict[str, Any]:
    """The recorded calls as the probe gives them, as far as the gate asks."""
    recorded = json.loads((CAPTURES / "nvml.json").read_text())
    gpus = []
    for index, calls in enumerate(recorded["gpus"]):
        memory = {name: int(value) for name, value in calls["nvmlDeviceGetMemoryInfo"].items()}
        remapped = calls["nvmlDeviceGetRemappedRows"]
        gpus.append(
            {
                "index": index,
                "handle": answer(None),
                "pci": answer({"address": _smi.pci_address(calls["nvmlDeviceGetPciInfo"]["busId"])}),
                "uuid": answer(calls["nvmlDeviceGetUUID"]),
                "name": answer(calls["nvmlDeviceGetName"]),
                "minor": answer(calls["nvmlDeviceGetMinorNumber"]),
                "compute_capability": answer("{}.{}".format(*calls["nvmlDeviceGetCudaComputeCapability"])),
                "memory": answer({**memory, "reserved": None}),
                "mig": answer(dict(zip(("current", "pending"), calls["nvmlDeviceGetMigMode"], strict=True))),
                "ecc": answer(dict(zip(("current", "pending"), calls["nvmlDeviceGetEccMode"], strict=True))),
                "remapped_rows": answer({"pending": bool(remapped[2]), "failure": bool(remapped[3])}),
                "compute_processes": answer(calls["nvmlDeviceGetComputeRunningProcesses"]),
                "graphics_processes": answer(calls["nvmlDeviceGetGraphicsRunningProcesses"]),
            }
        )
    system = {"driver": answer(recorded["driver"]), "cuda_driver": answer("13.0")}
    return {"library": "libnvidia-ml.so.1", "system": system, "count": answer(len(gpus)), "gpus": gpus}


def capture() -> dict[str, Any]:
    """The documents of the host with two H200; it had no Docker and no engine."""
    xml = _smi.parse_xml((CAPTURES / "smi-q.xml").read_text())
    query = _smi.parse_query((CAPTURES / "smi-q.txt").read_text())
    proc = (CAPTURES / "topo-nvlink-proc.txt").read_text()
    addresses = [gpu["pci_address"] for gpu in xml["gpus"]]
    libraries = [{"name": "libcuda.so.1", "version": "580.159.04", "first": True}]
    values = {
        "gpu.smi.xml": xml,
        "gpu.smi.query": query,
        "gpu.nvml": nvml(),
        "gpu.pci": [{"pci_address": name, "vendor": "nvidia", "kind": "gpu", "driver": "nvidia"} for name in addresses],
        "gpu.driver.loaded": _gpu_facts._driver.parse_proc_version(proc),
        "gpu.driver.libraries": libraries,
        "gpu.holders": [],
        "kernel.dmesg": [],
    }  # fmt: skip
    answers = {name: Probe(name, "ok", value, source=name) for name, value in values.items()}
    docker = Probe("docker.version", "absent", message="no socket")
    engine = _engine_facts.facts({"docker.version": docker}, Discovery())
    return {**_gpu_facts.facts(answers), "engine": engine}


def judge_against(pin: Pin, documents: dict[str, Any], hardware: str = "") -> Result:
    choice = pin.choice(hardware)
    host = host_facts("h200", documents, "run-001", "2026-11-30T20:25:15Z")
    case = Case(pin.boundary(choice), (host,), pin.launch(choice), RecipeState(pin.name, 0), today=TODAY)
    return _judge.judge(case)


@pytest.fixture
def two_h200(tmp_path: Path) -> Pin:
    path = tmp_path / "two-h200.yml"
    path.write_text(TWO_H200)
    return _boundary_pin.load(str(path))


def test_two_real_h200_pass_driver_and_cuda_and_fail_model_and_count_against_kimi_k3() -> None:
    result = judge_against(_boundary_pin.load("kimi-k3"), capture())
    assert about(result, "driver.branch", "h200").answer.found == "580.159.04"
    assert verdict(result, "driver.branch") == verdict(result, "driver.cuda") == "pass"
    assert verdict(result, "gpu.model") == verdict(result, "gpu.count") == "fail"
    assert "NVIDIA H200 is not GB300" in about(result, "gpu.model", "h200").answer.reason
    assert about(result, "gpu.count").answer.found == "2 GPUs: 2 on h200"
    assert result.verdict == "fail"


def test_the_branch_is_that_of_the_version_whatever_nvml_calls_it(tmp_path: Path) -> None:
    """The recorded driver 580.159.04 calls its branch r582_49 (nvmlSystemGetDriverBranch)."""
    facts = capture()
    facts["gpu"]["driver"]["branch"] = {"value": "r582_49", "outcome": "ok", "source": "NVML", "message": ""}
    for wanted, expected in ((580, "pass"), (582, "fail")):
        path = tmp_path / f"{wanted}.yml"
        path.write_text(TWO_H200.replace("value: 580", f"value: {wanted}"))
        result = judge_against(_boundary_pin.load(str(path)), facts)
        assert verdict(result, "driver.branch", "h200") == expected
    assert "of the branch r580, the model's image needs r582" in about(result, "driver.branch").answer.reason


def test_two_real_h200_pass_a_boundary_made_for_them(two_h200: Pin) -> None:
    result = judge_against(two_h200, capture())
    assert not [name for name, found in bad(result).items() if found == "fail"]
    assert result.good, bad(result)
    for rule in ("driver.branch", "driver.agreement", "driver.cuda", "gpu.model", "gpu.count", "gpu.memory"):
        assert verdict(result, rule) == "pass", rule
    assert about(result, "gpu.memory").answer.found == "302 GB on 2 GPUs"
    # All zero on one board is normal.
    assert verdict(result, "fabric.state") == "pass"
    assert verdict(result, "engine.vllm") == "not applicable"


def test_a_real_busy_gpu_has_a_holder_that_is_seen() -> None:
    documents = capture()
    busy = _smi.parse_xml((CAPTURES / "nvidia-smi-busy.xml").read_text())
    answers = {
        "gpu.smi.xml": Probe("gpu.smi.xml", "ok", busy, source="nvidia-smi -q -x"),
        "gpu.pci": Probe("gpu.pci", "ok", documents["gpu"]["pci"]["value"]),
        "gpu.holders": Probe("gpu.holders", "ok", []),
    }
    documents.update(_gpu_facts.facts(answers))
    finding = about(judge_against(_boundary_pin.load("kimi-k3"), documents, "h200"), "gpu.holders", "h200")
    assert finding.answer.verdict == "fail"


def test_a_real_frozen_record_is_judged() -> None:
    documents = json.loads((FIXTURES / "records" / "h200" / "facts.json").read_text())
    result = judge_against(_boundary_pin.load("kimi-k3"), documents)
    assert verdict(result, "driver.branch") == verdict(result, "driver.agreement") == "pass"
    assert verdict(result, "driver.cuda") == verdict(result, "image.cuda") == "pass"
    assert verdict(result, "gpu.model") == verdict(result, "gpu.count") == "fail"
    # Its vLLM ran as a plain process, and held the GPU itself.
    assert about(result, "image.name", "h200").answer.found == "process 580: no image"
    assert verdict(result, "gpu.holders") == "pass"


def test_the_boundary_of_the_test_is_yaml_as_users_write_it() -> None:
    assert yaml.safe_load(TWO_H200)["hardware"]["h200"]["gpus"] == 2
