# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From answers to documents: the GPUs of a host and its driver (pure; private to the collection).

The document ``gpufleet.baseline/gpu/1``. GPUs are joined by their PCI address over all sources, and each says
which of them lists it: a GPU that one source lacks is a finding, not a smaller number.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import (
    _driver,
    _fabric_quick,
    _gpu_devices,
    _gpu_holders,
    _gpu_table,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._host_facts import (
    host_document,
    kernel_events,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import (
    Measured,
    first_ok,
    from_probe,
    not_asked,
    plain,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    ERROR,
    OK,
    SKIPPED,
    TIMEOUT,
    Probe,
)

SCHEMA = "gpufleet.baseline/gpu/1"

Answers = Mapping[str, Probe]

# The probes that list GPUs, with their names for people.
_LISTS = {
    "gpu.pci": "the PCI bus",
    "gpu.proc.gpus": "/proc/driver/nvidia",
    "gpu.nvml": "NVML",
    "gpu.smi.xml": "nvidia-smi -q -x",
    "gpu.smi.query": "nvidia-smi -q",
    "gpu.smi.plain": "nvidia-smi",
}


def facts(answers: Answers) -> Dict[str, Any]:
    """The documents of a host and its GPUs, made of whatever was answered."""
    return plain({"gpu": gpu_document(answers), "host": host_document(answers)})  # type: ignore[no-any-return]


def gpu_document(answers: Answers) -> Dict[str, Any]:
    """The document of the GPUs and their driver."""
    gpus = read_gpus(answers)
    driver = read_driver(answers)
    functions = _value(answers, "gpu.pci") or []
    document = {
        "schema": SCHEMA,
        "vendors": from_probe(answers.get("gpu.pci"), _gpu_devices.vendors, "gpu.pci"),
        "driver": driver,
        "nvml": read_nvml(answers),
        "nvidia_smi": read_smi(answers),
        "gpus": gpus,
        "counts": read_counts(answers),
        "pci": from_probe(answers.get("gpu.pci"), name="gpu.pci"),
        "device_nodes": from_probe(answers.get("gpu.device_nodes"), name="gpu.device_nodes"),
        "holders": read_holders(answers, gpus),
        "xid": _xids(answers),
        "fabric": read_fabric(answers),
    }
    document["problems"] = problems(answers, document)
    document["summary"] = summary(document, functions)
    return document


def _value(answers: Answers, name: str) -> Any:
    probe = answers.get(name)
    return None if probe is None else probe.value


def _lists(answers: Answers) -> Dict[str, Dict[str, Any]]:
    """For each source its GPUs by PCI address; a source that did not answer is not in it."""
    found: Dict[str, Dict[str, Any]] = {}
    for name in _LISTS:
        value = _value(answers, name)
        if value is None:
            continue
        if name == "gpu.pci":
            gpus = [row for row in value if row["pci_address"] in _gpu_devices.expected(value)]
        else:
            gpus = value["gpus"] if isinstance(value, Mapping) else value
        found[name] = {address: gpu for gpu in gpus for address in [_address(gpu)] if address}
    return found


def _address(gpu: Mapping[str, Any]) -> Optional[str]:
    """The address of a row of any source; NVML's comes from a call that may have failed."""
    if "pci_address" in gpu:
        return gpu["pci_address"]  # type: ignore[no-any-return]
    answer = gpu.get("pci")
    return answer["value"]["address"] if answer and answer["outcome"] == OK else None


def read_gpus(answers: Answers) -> List[Dict[str, Any]]:
    """Every NVIDIA GPU that any source lists, in the order of the PCI bus."""
    lists = _lists(answers)
    addresses = sorted({address for rows in lists.values() for address in rows})
    whole = [name for name, rows in lists.items() if _is_whole(answers[name], rows)]
    gpus = []
    for address in addresses:
        nvml = lists.get("gpu.nvml", {}).get(address)
        xml = lists.get("gpu.smi.xml", {}).get(address)
        query = lists.get("gpu.smi.query", {}).get(address)
        proc = lists.get("gpu.proc.gpus", {}).get(address)
        sections = _gpu_table.sections(nvml, xml and xml["facts"], query and query["facts"])
        _fill_from_proc(sections[_gpu_table.IDENTITY], proc)
        gpus.append(
            {
                "pci_address": address,
                "index": _index(answers, nvml, address),
                "seen_by": [_LISTS[name] for name in lists if address in lists[name]],
                "missing_from": [_LISTS[name] for name in whole if address not in lists[name]],
                **sections,
                "processes": _processes(nvml, xml, query),
            }
        )
    return gpus


def _is_whole(probe: Probe, rows: Mapping[str, Any]) -> bool:
    """Whether a source listed all that it has: one that broke off lacks GPUs for that reason only."""
    if probe.outcome in (TIMEOUT, SKIPPED) or probe.partial or (probe.outcome == ERROR and not rows):
        return False
    return bool(probe.value.get("whole", True)) if isinstance(probe.value, Mapping) else True


def _index(answers: Answers, nvml: Optional[Mapping[str, Any]], address: str) -> Measured:
    """The number that the driver's tools give to the GPU. CUDA may count in another order: use the UUID."""
    if nvml is not None:
        return Measured(nvml["index"], OK, _gpu_table.NVML)
    table = _value(answers, "gpu.smi.plain") or {"gpus": []}
    row = next((row for row in table["gpus"] if row["pci_address"] == address), None)
    if row is not None:
        return Measured(row["index"], OK, "nvidia-smi")
    return Measured(None, ABSENT, "", "neither NVML nor nvidia-smi lists this GPU")


def _fill_from_proc(identity: Dict[str, Measured], proc: Optional[Mapping[str, Any]]) -> None:
    """What the loaded module itself tells, for a GPU that the driver's tools could not read."""
    if proc is None:
        return
    names = {"uuid": "uuid", "name": "name", "minor": "minor", "vbios": "vbios", "gsp_firmware": "firmware"}
    for name, key in names.items():
        if not identity[name].ok and proc[key] is not None:
            identity[name] = Measured(proc[key], OK, "/proc/driver/nvidia/gpus")


def _processes(nvml: Any, xml: Any, query: Any) -> Measured:
    """The processes on a GPU as the driver names them."""
    if nvml is not None:
        return _nvml_processes(nvml)
    for row, source in ((xml, _gpu_table.XML), (query, _gpu_table.QUERY)):
        if row is not None:
            return Measured(row["processes"], OK, source)
    return Measured(None, ABSENT, "", "no source lists this GPU")


def _nvml_processes(nvml: Mapping[str, Any]) -> Measured:
    found: List[Dict[str, Any]] = []
    failed: List[Measured] = []
    for kind in ("compute", "graphics", "mps"):
        fact = _gpu_table.from_nvml(nvml.get("%s_processes" % kind))
        if fact.ok:
            found += [{**process, "kind": kind, "name": None} for process in fact.value]
        elif kind == "compute":
            failed.append(fact)
    if failed:
        return Measured(found or None, failed[0].outcome, _gpu_table.NVML, failed[0].message)
    return Measured(found, OK, _gpu_table.NVML)


def read_driver(answers: Answers) -> Dict[str, Any]:
    """The driver in its three views, and the rest of what belongs to it."""
    loaded = first_ok(
        from_probe(answers.get("gpu.driver.loaded"), lambda v: v["version"], "gpu.driver.loaded"),
        from_probe(answers.get("gpu.driver.modules"), _loaded_module, "gpu.driver.modules"),
    )
    on_disk = from_probe(answers.get("gpu.driver.on_disk"), lambda v: v.get("version"), "gpu.driver.on_disk")
    libraries = from_probe(answers.get("gpu.driver.libraries"), name="gpu.driver.libraries")
    first = {row["name"]: row["version"] for row in libraries.value or [] if row["first"]}
    told = first_ok(_system(answers, "driver"), _smi_header(answers, "driver_version", "Driver Version"))
    agreement = _driver.agreement(loaded.value or told.value, on_disk.value, first)
    return {
        "loaded": loaded,
        "flavour": from_probe(answers.get("gpu.driver.loaded"), lambda v: v["flavour"], "gpu.driver.loaded"),
        "told_by_the_driver": told,
        "branch": _system(answers, "driver_branch"),
        "on_disk": on_disk,
        "module": from_probe(answers.get("gpu.driver.on_disk"), name="gpu.driver.on_disk"),
        "user_libraries": libraries,
        "new_processes_load": Measured(first, libraries.outcome, libraries.source, libraries.message),
        "agreement": _agreement(agreement, loaded, libraries),
        "modules": from_probe(answers.get("gpu.driver.modules"), name="gpu.driver.modules"),
        "firmware_on_disk": from_probe(answers.get("gpu.driver.firmware"), name="gpu.driver.firmware"),
        "dkms": from_probe(answers.get("gpu.driver.dkms"), name="gpu.driver.dkms"),
        # Four different things are called the CUDA version; these are the host's three.
        "cuda_of_driver": _system(answers, "cuda_driver"),
        "cuda_shown_by_nvidia_smi": _smi_header(answers, "cuda_version", "CUDA Version"),
        "cuda_toolkits": from_probe(answers.get("gpu.driver.toolkits"), name="gpu.driver.toolkits"),
    }


def _loaded_module(modules: Mapping[str, Any]) -> Optional[str]:
    return (modules.get("nvidia") or {}).get("version")


def _agreement(agreement: Mapping[str, Any], loaded: Measured, libraries: Measured) -> Measured:
    """The verdict of the three views, not ok when one of the two that matter was not measured."""
    source = "the driver's three views"
    for fact in (loaded, libraries):
        if fact.outcome not in (OK, ABSENT):
            return Measured(agreement, fact.outcome, source, fact.message)
    return Measured(agreement, OK, source)


def _system(answers: Answers, name: str) -> Measured:
    probe = answers.get("gpu.nvml")
    if probe is None:
        return not_asked("gpu.nvml")
    if probe.value is None:
        return from_probe(probe)
    return _gpu_table.from_nvml(probe.value["system"].get(name))


def _smi_header(answers: Answers, xml: str, query: str) -> Measured:
    def pick(key: str, name: str) -> Measured:
        return from_probe(answers.get(name), lambda value: value["header"].get(key), name)

    return first_ok(pick(xml, "gpu.smi.xml"), pick(query, "gpu.smi.query"))


def read_nvml(answers: Answers) -> Dict[str, Any]:
    """How asking NVML went as a whole."""
    probe = answers.get("gpu.nvml")
    return {
        "answered": from_probe(probe, lambda value: True, "gpu.nvml"),
        "version": _system(answers, "nvml"),
        "library": from_probe(probe, lambda value: value["library"] or None, "gpu.nvml"),
    }


def read_smi(answers: Answers) -> Dict[str, Any]:
    """How each call of nvidia-smi went, with its duration: slow is a fact of its own."""
    found = {}
    for name, probe in answers.items():
        if name.startswith("gpu.smi."):
            fact = from_probe(probe, lambda value: True)
            found[name[len("gpu.smi.") :]] = {**fact.as_dict(), "seconds": round(probe.seconds, 3)}
    return found


def read_counts(answers: Answers) -> Dict[str, Measured]:
    """The number of GPUs by each source. A source that did not end has no number, and never 0."""

    def counted(name: str, count: Any) -> Measured:
        fact = from_probe(answers.get(name), count, name)
        return fact if fact.ok else Measured(None, fact.outcome, fact.source, fact.message)

    return {
        "pci": counted("gpu.pci", lambda value: len(_gpu_devices.expected(value))),
        "proc": counted("gpu.proc.gpus", len),
        "device_nodes": counted(
            "gpu.device_nodes", lambda value: len([node for node in value if node["gpu_minor"] is not None])
        ),
        "nvml": counted("gpu.nvml", lambda value: value["count"]["value"]),
        "nvidia_smi_list": counted("gpu.smi.list", len),
        "nvidia_smi_query": counted("gpu.smi.query", lambda value: len(value["gpus"])),
        "nvidia_smi_xml": counted("gpu.smi.xml", lambda value: len(value["gpus"])),
    }


def read_holders(answers: Answers, gpus: Sequence[Mapping[str, Any]]) -> Measured:
    """The processes that hold a GPU, from the host's list and from the driver."""
    fact = from_probe(answers.get("gpu.holders"), name="gpu.holders")
    on_gpus = [
        {
            "uuid": gpu["identity"]["uuid"].value,
            "minor": gpu["identity"]["minor"].value,
            "processes": gpu["processes"].value or [],
        }
        for gpu in gpus
    ]
    combined = _gpu_holders.combine(fact.value or [], on_gpus)
    unread = [gpu for gpu in gpus if not gpu["processes"].ok]
    message = fact.message
    if unread:
        words = "the driver did not tell the processes of %d of %d GPUs" % (len(unread), len(gpus))
        message = "; ".join(part for part in (message, words) if part)
    return Measured(combined, fact.outcome, fact.source, message)


def _xids(answers: Answers) -> Measured:
    events, fact = kernel_events(answers)
    wanted = [event for event in events if event["kind"] in ("xid", "sxid")]
    return Measured(wanted, fact.outcome, fact.source, fact.message)


def read_fabric(answers: Answers) -> Dict[str, Measured]:
    """The network between GPUs as far as files and one command tell it."""
    return {
        "infiniband": from_probe(answers.get("fabric.infiniband"), name="fabric.infiniband"),
        "imex": from_probe(answers.get("fabric.imex.config"), name="fabric.imex.config"),
        "imex_status": from_probe(answers.get("fabric.imex.status"), name="fabric.imex.status"),
        "imex_channels": from_probe(
            answers.get("gpu.device_nodes"), _fabric_quick.imex_channels, "gpu.device_nodes"
        ),
    }


def problems(answers: Answers, document: Mapping[str, Any]) -> List[str]:
    """What is plainly wrong, in words; the judgement over a whole group is the gate's."""
    found = []
    by_answer: Dict[str, List[str]] = {}
    for name, probe in answers.items():
        if name.startswith(("gpu.nvml", "gpu.smi.")) and probe.outcome not in (OK, ABSENT, SKIPPED):
            by_answer.setdefault("%s: %s" % (probe.outcome, probe.message), []).append(name)
    found += ["%s: %s" % (", ".join(names), answer) for answer, names in by_answer.items()]
    for gpu in document["gpus"]:
        if gpu["missing_from"]:
            found.append("GPU %s is missing from %s" % (gpu["pci_address"], ", ".join(gpu["missing_from"])))
    agreement = document["driver"]["agreement"].value
    if agreement["state"] not in ("equal", "no driver", "unmeasured"):
        found.append("driver: %s: %s" % (agreement["state"], agreement["meaning"]))
    return found


def summary(document: Mapping[str, Any], functions: Sequence[Mapping[str, Any]]) -> str:
    """The host's GPUs in one line; GPUs of another maker are named, never "no GPU"."""
    gpus = document["gpus"]
    parts = []
    if gpus:
        names = [gpu["identity"]["name"].value or "NVIDIA GPU" for gpu in gpus]
        counted = ["%d x %s" % (names.count(name), name) for name in dict.fromkeys(names)]
        loaded = document["driver"]["loaded"].value or document["driver"]["told_by_the_driver"].value
        parts.append("%s, driver %s" % (", ".join(counted), loaded or "not loaded"))
    for vendor in ("amd", "intel"):
        others = [row for row in functions if row["vendor"] == vendor and row["kind"] == "gpu"]
        if others:
            name = {"amd": "AMD", "intel": "Intel"}[vendor]
            parts.append("%d x %s GPU (named only: NVIDIA is what is measured)" % (len(others), name))
    if not parts:
        fact = document["vendors"]
        parts.append("no GPU on the PCI bus" if fact.ok else "GPUs not measured: %s" % fact.message)
    return "; ".join(parts)
