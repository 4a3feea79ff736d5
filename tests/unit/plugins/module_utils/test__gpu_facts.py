# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_facts, _gpu_secrets, _smi
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor

CAPTURES = Path(__file__).resolve().parents[3] / "fixtures" / "captures" / "h200"
ADDRESSES = ("0000:00:06.0", "0000:00:07.0")


def function(address: str, vendor: str = "nvidia", driver: Optional[str] = "nvidia") -> Dict[str, Any]:
    return {"pci_address": address, "vendor": vendor, "kind": "gpu", "driver": driver}


def nvml_answer(value: Any, outcome: str = "ok") -> Dict[str, Any]:
    return {"value": value, "outcome": outcome, "code": 0, "message": ""}


def nvml_document() -> Dict[str, Any]:
    gpus = [
        {
            "index": number,
            "handle": nvml_answer(None),
            "pci": nvml_answer({"address": address, "device_id": "0x233510de"}),
            "uuid": nvml_answer("GPU-a000000%d-0000-4000-8000-00000000000%d" % (1 - number, 1 - number)),
            "minor": nvml_answer(number),
            "name": nvml_answer("NVIDIA H200"),
            "compute_processes": nvml_answer([]),
            "graphics_processes": nvml_answer([]),
            "mps_processes": nvml_answer(None, "absent"),
        }
        for number, address in enumerate(ADDRESSES)
    ]
    system = {
        "driver": nvml_answer("580.159.04"),
        "cuda_driver": nvml_answer("13.0"),
        "nvml": nvml_answer("13.580"),
    }
    return {"library": "/x/libnvidia-ml.so.1", "system": system, "count": nvml_answer(2), "gpus": gpus}


def healthy() -> Dict[str, Probe]:
    """The answers of a healthy host with two GPUs; the text of nvidia-smi is a real capture."""
    query = _smi.parse_query((CAPTURES / "smi-q.txt").read_text())
    xml = _smi.parse_xml((CAPTURES / "smi-q.xml").read_text())
    plain = _smi.parse_plain((CAPTURES / "nvidia-smi.txt").read_text())
    listed = [{"index": n, "name": "NVIDIA H200", "uuid": "u", "mig": []} for n in range(2)]
    libraries = [
        {"name": name, "version": "580.159.04", "first": True}
        for name in ("libcuda.so.1", "libnvidia-ml.so.1")
    ]
    values = {
        "gpu.smi.list": listed,
        "gpu.smi.query": query,
        "gpu.smi.xml": xml,
        "gpu.smi.plain": plain,
        "gpu.nvml": nvml_document(),
        "gpu.pci": [function(address) for address in ADDRESSES],
        "gpu.device_nodes": [
            {"path": "/dev/nvidia0", "gpu_minor": 0},
            {"path": "/dev/nvidia1", "gpu_minor": 1},
        ],
        "gpu.holders": [],
        "gpu.driver.loaded": {"version": "580.159.04", "flavour": "open"},
        "gpu.driver.on_disk": {"version": "580.159.04"},
        "gpu.driver.libraries": libraries,
        "gpu.driver.toolkits": [{"path": "/usr/local/cuda", "target": None, "version": "12.8"}],
    }
    return {name: Probe(name, "ok", value, source=name, seconds=0.5) for name, value in values.items()}


def gpu_of(answers: Dict[str, Probe]) -> Dict[str, Any]:
    documents = _gpu_facts.facts(answers)
    json.dumps(documents)
    return documents["gpu"]  # type: ignore[no-any-return]


def test_a_healthy_host() -> None:
    gpu = gpu_of(healthy())
    assert gpu["summary"] == "2 x NVIDIA H200, driver 580.159.04"
    assert gpu["problems"] == []
    assert gpu["driver"]["agreement"]["value"]["state"] == "equal"
    assert [row["pci_address"] for row in gpu["gpus"]] == list(ADDRESSES)
    first = gpu["gpus"][0]
    assert first["missing_from"] == []
    assert first["seen_by"] == ["the PCI bus", "NVML", "nvidia-smi -q -x", "nvidia-smi -q", "nvidia-smi"]
    assert first["index"]["value"] == 0
    assert first["state"]["fabric_state"] == {
        "value": "completed",
        "outcome": "ok",
        "source": "nvidia-smi -q -x",
        "message": "",
    }


def timed_out(answers: Dict[str, Probe]) -> Dict[str, Probe]:
    for name in ("gpu.smi.list", "gpu.smi.query", "gpu.smi.xml", "gpu.smi.plain"):
        outcome = "timeout" if name == "gpu.smi.list" else "skipped"
        answers[name] = Probe(name, outcome, message="no end within 60 s, killed", source="nvidia-smi")
    return answers


def test_t1_a_hung_smi_is_a_timeout_in_every_fact_and_never_a_count() -> None:
    answers = timed_out(healthy())
    answers["gpu.nvml"] = Probe("gpu.nvml", "timeout", message="no answer within 60 s")
    gpu = gpu_of(answers)
    assert gpu["counts"]["nvidia_smi_list"] == {
        "value": None,
        "outcome": "timeout",
        "source": "nvidia-smi",
        "message": "no end within 60 s, killed",
    }
    assert (gpu["counts"]["nvml"]["value"], gpu["counts"]["nvml"]["outcome"]) == (None, "timeout")
    assert gpu["counts"]["pci"]["value"] == 2
    assert len(gpu["gpus"]) == 2
    assert gpu["gpus"][0]["missing_from"] == []
    assert gpu["nvidia_smi"]["list"]["outcome"] == "timeout"


def test_t3_the_gpus_before_a_hang_are_kept_and_the_others_are_not_missing() -> None:
    answers = timed_out(healthy())
    document = nvml_document()
    del document["gpus"][1]
    answers["gpu.nvml"] = Probe(
        "gpu.nvml", "timeout", document, partial=True, message="last asked: GPU 1: uuid"
    )
    gpu = gpu_of(answers)
    first, second = gpu["gpus"]
    assert first["identity"]["name"]["value"] == "NVIDIA H200"
    assert second["identity"]["name"]["outcome"] == "absent"
    assert second["missing_from"] == []


def test_t3_a_partial_count_is_no_count() -> None:
    answers = healthy()
    partial = Probe("gpu.nvml", "timeout", nvml_document(), partial=True, message="late")
    answers["gpu.nvml"] = partial
    assert gpu_of(answers)["counts"]["nvml"]["value"] is None


def test_t5_a_gpu_that_smi_lacks_is_named_by_its_address() -> None:
    answers = healthy()
    answers["gpu.pci"].value.append(function("0000:00:08.0", driver=None))
    for name in ("gpu.smi.query", "gpu.smi.xml", "gpu.smi.plain"):
        answers[name].outcome = "error"
        answers[name].message = "nvidia-smi lists 2 of the 3 NVIDIA GPUs on the PCI bus"
    gpu = gpu_of(answers)
    lost = gpu["gpus"][2]
    assert lost["seen_by"] == ["the PCI bus"]
    assert lost["missing_from"] == ["NVML", "nvidia-smi -q -x", "nvidia-smi -q", "nvidia-smi"]
    assert (
        "GPU 0000:00:08.0 is missing from NVML, nvidia-smi -q -x, nvidia-smi -q, nvidia-smi"
        in gpu["problems"]
    )
    assert gpu["counts"]["nvidia_smi_xml"]["value"] is None


def test_t5_a_call_that_failed_lacks_no_gpu() -> None:
    answers = healthy()
    empty = _smi.parse_plain("Failed to initialize NVML: Driver/library version mismatch")
    answers["gpu.smi.plain"] = Probe("gpu.smi.plain", "error", empty, message="exit status 18")
    answers["gpu.smi.list"] = Probe("gpu.smi.list", "error", [], message="exit status 18")
    gpu = gpu_of(answers)
    assert gpu["gpus"][0]["missing_from"] == []
    assert gpu["problems"] == ["gpu.smi.list, gpu.smi.plain: error: exit status 18"]


def test_t6_the_duration_of_a_slow_answer_is_a_fact() -> None:
    answers = healthy()
    answers["gpu.smi.xml"].seconds = 20.25
    assert gpu_of(answers)["nvidia_smi"]["xml"]["seconds"] == 20.25


def test_t13_nothing_of_ansible_s_own_facts_is_needed() -> None:
    assert gpu_of({})["summary"].startswith("GPUs not measured")


def test_t19_holders_of_the_host_and_of_the_driver_are_one_list() -> None:
    answers = healthy()
    process = {"pid": 4242, "memory_used": None, "gpu_instance": None}
    answers["gpu.nvml"].value["gpus"][0]["compute_processes"] = nvml_answer([process])
    [holder] = gpu_of(answers)["holders"]["value"]
    assert (holder["pid"], holder["in_proc"], holder["gpus"][0]["memory_used"]) == (4242, False, None)
    assert holder["gpus"][0]["kind"] == "compute"


def test_t19_processes_that_the_driver_did_not_tell_are_said_to_be_untold() -> None:
    answers = healthy()
    answers["gpu.nvml"].value["gpus"][1]["compute_processes"] = nvml_answer(None, "denied")
    gpu = gpu_of(answers)
    assert gpu["gpus"][1]["processes"]["outcome"] == "denied"
    assert gpu["holders"]["message"] == "the driver did not tell the processes of 1 of 2 GPUs"


def test_t30_t48_the_things_called_cuda_version_are_separate_facts() -> None:
    driver = gpu_of(healthy())["driver"]
    assert driver["cuda_of_driver"]["value"] == "13.0"
    assert driver["cuda_shown_by_nvidia_smi"]["value"] == "13.0"
    assert [toolkit["version"] for toolkit in driver["cuda_toolkits"]["value"]] == ["12.8"]


def test_t33_a_fabric_that_is_not_completed_is_told_though_all_gpus_are_listed() -> None:
    answers = healthy()
    for gpu in answers["gpu.smi.xml"].value["gpus"]:
        gpu["facts"]["fabric"]["state"] = "In Progress"
    states = [gpu["state"]["fabric_state"]["value"] for gpu in gpu_of(answers)["gpus"]]
    assert states == ["in progress", "in progress"]


def test_t35_packages_upgraded_under_a_running_driver() -> None:
    answers = healthy()
    for row in answers["gpu.driver.libraries"].value:
        row["version"] = "580.173.02"
    gpu = gpu_of(answers)
    assert gpu["driver"]["agreement"]["value"]["state"] == "user libraries differ"
    assert any("reboot" in problem for problem in gpu["problems"])


def test_libraries_that_could_not_be_read_make_no_agreement() -> None:
    answers = healthy()
    answers["gpu.driver.libraries"] = Probe("gpu.driver.libraries", "timeout", message="late")
    agreement = gpu_of(answers)["driver"]["agreement"]
    assert (agreement["outcome"], agreement["value"]["state"]) == ("timeout", "unmeasured")


def test_t36_a_harmless_kernel_line_is_no_problem_by_itself() -> None:
    answers = healthy()
    line = {"kind": "unsupported function", "harmless": True, "code": None, "text": "x", "time": None}
    event = {**line, "pci_address": None, "pid": None, "process": None, "meaning": "", "sources": ["dmesg"]}
    answers["kernel.dmesg"] = Probe("kernel.dmesg", "ok", {"events": [event], "begins": None})
    gpu = gpu_of(answers)
    assert gpu["problems"] == []
    assert gpu["xid"]["value"] == []


def test_t47_what_was_not_asked_is_not_absent() -> None:
    answers = healthy()
    del answers["gpu.holders"]
    assert gpu_of(answers)["holders"]["outcome"] == "skipped"


@pytest.mark.parametrize(("vendor", "name"), [("amd", "AMD"), ("intel", "Intel")])
def test_a_host_of_another_maker_is_named_and_not_called_empty(vendor: str, name: str) -> None:
    functions: List[Any] = [function("0000:05:00.0", vendor, "amdgpu") for _number in range(8)]
    gpu = gpu_of({"gpu.pci": Probe("gpu.pci", "ok", functions)})
    assert gpu["summary"] == "8 x %s GPU (named only: NVIDIA is what is measured)" % name
    assert gpu["vendors"]["value"] == [vendor]
    assert gpu["gpus"] == []


def test_a_host_without_gpu() -> None:
    assert gpu_of({"gpu.pci": Probe("gpu.pci", "ok", [])})["summary"] == "no GPU on the PCI bus"


def test_the_loaded_module_tells_what_the_tools_cannot() -> None:
    answers = timed_out(healthy())
    del answers["gpu.nvml"]
    known = {"uuid": "GPU-a", "name": "NVIDIA H200", "minor": 0, "vbios": None, "firmware": "580.159.04"}
    rows = [{**known, "pci_address": ADDRESSES[0], "text": ""}]
    answers["gpu.proc.gpus"] = Probe("gpu.proc.gpus", "ok", rows)
    first = gpu_of(answers)["gpus"][0]
    assert first["identity"]["uuid"] == {
        "value": "GPU-a",
        "outcome": "ok",
        "source": "/proc/driver/nvidia/gpus",
        "message": "",
    }
    assert first["identity"]["vbios"]["value"] is None


@pytest.mark.parametrize("name", sorted(healthy()))
@pytest.mark.parametrize("outcome", ["absent", "error", "timeout", "denied", "skipped"])
def test_t1_any_answer_may_be_missing(name: str, outcome: str) -> None:
    answers = healthy()
    answers[name] = Probe(name, outcome, message="why not")
    text = json.dumps(gpu_of(answers))
    assert "why not" in text


def test_making_the_documents_leaves_the_answers_as_they_are() -> None:
    answers = healthy()
    before = copy.deepcopy(answers)
    _gpu_facts.facts(answers)
    assert answers == before


def test_secrets_in_command_lines_do_not_leave_the_host_and_uuids_do() -> None:
    answers = healthy()
    holder = {
        "pid": 4242,
        "argv": ["vllm", "serve", "--api-key", "hunter2-correct-horse"],
        "devices": ["/dev/nvidia0"],
        "gpu_minors": [0],
    }
    answers["gpu.holders"] = Probe("gpu.holders", "ok", [holder])
    documents = _gpu_facts.facts(answers)
    clean = _gpu_secrets.redacted({**documents, "probes": {}}, bytes(32))
    text = json.dumps(clean)
    assert "hunter2-correct-horse" not in text
    assert "GPU-a0000001-0000-4000-8000-000000000001" in text
    assert clean["gpu"]["summary"] == documents["gpu"]["summary"]


def test_a_kernel_command_line_teaches_its_secrets() -> None:
    redactor = Redactor(bytes(32))
    answers = {
        "host.boot": Probe("host.boot", "ok", {"command_line": "root=/dev/sda1 --token s3cr3t-s3cr3t-value"})
    }
    _gpu_secrets.learn(redactor, _gpu_facts.facts(answers))
    assert "s3cr3t-s3cr3t-value" not in redactor.redact_text("s3cr3t-s3cr3t-value")
