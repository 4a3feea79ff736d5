# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _smi
from hypothesis import given
from hypothesis import strategies as st

CAPTURES = Path(__file__).resolve().parents[3] / "fixtures" / "captures" / "h200"


def capture(name: str) -> str:
    return (CAPTURES / name).read_text("utf-8")


def test_a_whole_query_gives_every_gpu_with_its_nested_facts() -> None:
    query = _smi.parse_query(capture("smi-q.txt"))
    assert query["whole"]
    assert query["header"]["Driver Version"] == "580.159.04"
    assert query["header"]["CUDA Version"] == "13.0"
    assert [gpu["pci_address"] for gpu in query["gpus"]] == ["0000:00:06.0", "0000:00:07.0"]
    first = query["gpus"][0]["facts"]
    assert _smi.at(first, "Fabric/State") == "Completed"
    assert _smi.at(first, "PCI/GPU Link Info/PCIe Generation/Current") == "5"
    assert _smi.at(first, "GPU Memory Power Readings/Average Power Draw") == "40.17 W"
    assert _smi.at(first, "Remapped Rows/Bank Remap Availability Histogram/Max") == "3072 bank(s)"
    assert query["gpus"][0]["processes"] == []


def test_processes_of_a_query_are_told_apart() -> None:
    text = (
        "Attached GPUs    : 1\n"
        "GPU 00000008:06:00.0\n"
        "    Processes\n"
        "        GPU instance ID                                : N/A\n"
        "        Compute instance ID                            : N/A\n"
        "        Process ID                                     : 15411\n"
        "            Type                                       : C\n"
        "            Name                                       : VLLM::Worker : TP0\n"
        "            Used GPU Memory                            : 128518 MiB\n"
        "        GPU instance ID                                : N/A\n"
        "        Compute instance ID                            : N/A\n"
        "        Process ID                                     : 15412\n"
        "            Type                                       : C\n"
        "            Name                                       : python3\n"
        "            Used GPU Memory                            : N/A\n"
        "    Capabilities\n"
        "        EGM                                            : disabled\n"
    )
    query = _smi.parse_query(text)
    assert query["gpus"][0]["processes"] == [
        {"pid": 15411, "kind": "C", "name": "VLLM::Worker : TP0", "memory_used": 128518 * 1024**2},
        {"pid": 15412, "kind": "C", "name": "python3", "memory_used": None},
    ]
    assert _smi.at(query["gpus"][0]["facts"], "Capabilities/EGM") == "disabled"


@given(st.integers(0, 27925))
def test_t3_a_query_cut_anywhere_tells_nothing_that_the_whole_one_does_not(length: int) -> None:
    text = capture("smi-q.txt")
    whole, part = _smi.parse_query(text), _smi.parse_query(text[:length])
    assert len(part["gpus"]) <= 2
    for number, gpu in enumerate(part["gpus"]):
        model = whole["gpus"][number]
        assert gpu["pci_address"] == model["pci_address"]
        assert is_part_of(gpu["facts"], model["facts"])
    assert part["whole"] is (len(part["gpus"]) == 2)


def is_part_of(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and is_part_of(part[key], whole[key]) for key in part
        )
    return bool(part == whole)


@pytest.mark.parametrize("name", ["smi-q.xml", "nvidia-smi-busy.xml", "serving.xml"])
def test_the_xml_and_its_gpus(name: str) -> None:
    xml = _smi.parse_xml(capture(name))
    assert xml["whole"]
    assert xml["header"]["driver_version"] == "580.159.04"
    facts = xml["gpus"][0]["facts"]
    assert facts["product_name"] == "NVIDIA H200"
    assert _smi.size(_smi.at(facts, "fb_memory_usage/total") or "") == 143771 * 1024**2


def test_the_processes_of_the_xml() -> None:
    busy = _smi.parse_xml(capture("nvidia-smi-busy.xml"))
    assert [gpu["processes"] for gpu in busy["gpus"]] == [
        [{"pid": 15411, "kind": "C", "name": "/usr/local/bin/python3", "memory_used": 128518 * 1024**2}],
        [],
    ]
    serving = _smi.parse_xml(capture("serving.xml"))
    assert serving["gpus"][0]["processes"][0]["name"] == "VLLM::EngineCore"


@given(st.integers(0, 53000))
def test_t3_an_xml_that_breaks_off_is_refused_and_never_read_as_fewer_gpus(length: int) -> None:
    with pytest.raises(_smi.NotTheXml):
        _smi.parse_xml(capture("smi-q.xml")[:length])


def test_an_xml_with_entities_is_refused() -> None:
    with pytest.raises(_smi.NotTheXml):
        _smi.parse_xml('<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><nvidia_smi_log/>')


def test_the_list_with_mig_devices_and_a_gpu_without_uuid() -> None:
    text = (
        "GPU 0: NVIDIA H200 (UUID: GPU-a0000001-0000-4000-8000-000000000001)\n"
        "  MIG 1g.18gb     Device  0: (UUID: MIG-b0000001-0000-4000-8000-000000000001)\n"
        "GPU 1: NVIDIA GB300\n"
    )
    gpus = _smi.parse_list(text)
    assert [(gpu["index"], gpu["name"], gpu["uuid"]) for gpu in gpus] == [
        (0, "NVIDIA H200", "GPU-a0000001-0000-4000-8000-000000000001"),
        (1, "NVIDIA GB300", None),
    ]
    assert gpus[0]["mig"][0]["profile"] == "1g.18gb"


def test_the_plain_table() -> None:
    busy = _smi.parse_plain(capture("nvidia-smi-busy.txt"))
    assert (busy["driver"], busy["cuda"]) == ("580.159.04", "13.0")
    assert [(gpu["index"], gpu["pci_address"], gpu["memory_used_mib"]) for gpu in busy["gpus"]] == [
        (0, "0000:00:06.0", 128527),
        (1, "0000:00:07.0", 4),
    ]
    assert [process["pid"] for process in busy["processes"]] == [15411]
    assert _smi.parse_plain(capture("nvidia-smi.txt"))["processes"] == []


@pytest.mark.parametrize(
    "name", ["smi-q.txt", "smi-q.xml", "nvidia-smi.txt", "serving.xml", "nvidia-smi-busy.txt"]
)
def test_t5_a_healthy_host_has_no_trouble(name: str) -> None:
    assert _smi.troubles(capture(name)) == []


@pytest.mark.parametrize(
    "line",
    [
        "| ERR!   31C    P0             ERR! /  700W |       0MiB / 143771MiB |      0%      Default |",
        "        GPU Current Temp                               : Unknown Error",
        "    Serial Number                                      : [Unknown Error]",
        "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system",
        "    Fan Speed                                          : GPU requires reset",
        "No devices were found",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
)
def test_t5_words_of_trouble_are_found_whatever_the_exit_status(line: str) -> None:
    found = _smi.troubles("fine\n%s\nfine\n" % line)
    assert len(found) == 1
    assert " ".join(found[0].split()) in " ".join(line.split())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("0018:06:00.0", "0018:06:00.0"),
    ],
)
def test_driver_and_kernel_write_one_address_in_two_ways(text: str, address: str) -> None:
    assert _smi.pci_address(text) == address


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("31 C", 31.0),
        ("-8 C", -8.0),
        ("77.72 W", 77.72),
        ("16x", 16.0),
        ("0 %", 0.0),
        ("N/A", None),
        ("ERR!", None),
    ],
)
def test_numbers_without_their_units(words: str, number: float) -> None:
    assert _smi.number(words) == number


@pytest.mark.parametrize(
    "parse",
    [
        _smi.parse_query,
        _smi.parse_list,
        _smi.parse_plain,
        _smi.troubles,
        _smi.pci_address,
        _smi.number,
        _smi.size,
    ],
)
@given(
    text=st.one_of(
        st.text(), st.text(alphabet="GPU 0123456789abcdef:.|()/MiB\n-"), st.text(alphabet=" :\nPGUa")
    )
)
def test_any_text_is_read_without_an_error(parse: Callable[[str], Any], text: str) -> None:
    parse(text)


@given(st.text(alphabet="<>/?xml gpu=\"'&;!-\n0"))
def test_any_xml_is_read_or_refused(text: str) -> None:
    try:
        _smi.parse_xml('<?xml version="1.0"?>' + text)
    except _smi.NotTheXml:
        return
