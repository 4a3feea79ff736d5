# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what nvidia-smi prints: -q, -q -x, -L and the plain table (pure; private to the collection).

nvidia-smi may end with status 0 and still have lost a GPU: such words are found by ``troubles``.
Layout of the output: https://docs.nvidia.com/deploy/nvidia-smi/index.html
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple
from xml.etree import ElementTree

# Words in place of a value that say that there is none.
NO_VALUE = frozenset({"", "n/a", "[n/a]", "not supported", "[not supported]", "not available"})

# Words in place of a value, or a whole line, that say that a GPU could not be read.
TROUBLE_WORDS = (
    "ERR!",
    "Unknown Error",
    "GPU is lost",
    "GPU requires reset",
    "GPU access blocked",
    "Unable to determine the device handle",
    "Failed to initialize NVML",
    "couldn't communicate with the NVIDIA driver",
    "couldn't find libnvidia-ml.so",
    "No devices were found",
    "Driver/library version mismatch",
)

MOST_TROUBLES = 20

_GPU_LINE = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_LIST_LINE = re.compile(r"^GPU (\d+): (.*?)\s*(?:\(UUID: ([^)\s]+)\))?\s*$")
_MIG_LINE = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+):\s*\(UUID: ([^)\s]+)\)")
_ROW_NAME = re.compile(
    r"^\|\s+(\d+)\s+(.+?)\s+(\S+)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)
_ROW_MEMORY = re.compile(r"\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|")
_ROW_PROCESS = re.compile(r"^\|\s+(\d+)\s+(?:N/A|\d+)\s+(?:N/A|\d+)\s+(\d+)\s+(\S+)\s+(\S.*?)\s+(\S+)\s*\|$")
_PLAIN_HEADER = re.compile(r"Driver Version:\s*(\S+)\s+CUDA Version:\s*(\S+)")
_NUMBER = re.compile(r"^\s*(-?\d+(?:\.\d+)?)\s*(%|[A-Za-z/]+)?\s*$")
_UNITS = {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "kb": 1000, "mb": 1000**2, "gb": 1000**3}


def troubles(text: str) -> List[str]:
    """The lines in which nvidia-smi says that a GPU or the driver could not be read."""
    found: List[str] = []
    for line in text.splitlines():
        if any(word in line for word in TROUBLE_WORDS):
            short = " ".join(line.strip(" |").split())[:160]
            if short not in found:
                found.append(short)
    return found[:MOST_TROUBLES]


def is_trouble(value: str) -> bool:
    """Whether the words in a value's place say that it could not be read."""
    return any(word in value for word in TROUBLE_WORDS)


def is_none(value: str) -> bool:
    """Whether the words in a value's place say that there is no such value."""
    return value.strip().lower() in NO_VALUE


def number(value: str) -> Optional[float]:
    """The number in ``5``, ``16x``, ``31 C``, ``77.72 W``, ``0 %``; None when there is none."""
    match = _NUMBER.match(value)
    return float(match.group(1)) if match else None


def size(value: str) -> Optional[int]:
    """The bytes in ``143771 MiB``; None when it is not a size."""
    match = _NUMBER.match(value)
    if not match or (match.group(2) or "").lower() not in _UNITS:
        return None
    return int(float(match.group(1)) * _UNITS[match.group(2).lower()])


def pci_address(text: str) -> str:
    """``00000000:3B:00.0`` and ``0000:3b:00.0`` in one spelling: four digits of domain, lower case.

    The driver writes the domain with eight digits, the kernel with at least four.
    """
    domain, _colon, rest = text.strip().lower().partition(":")
    stripped = domain.lstrip("0")
    return "%s:%s" % (stripped.rjust(4, "0"), rest)


def parse_list(text: str) -> List[Dict[str, Any]]:
    """The GPUs of ``nvidia-smi -L`` with their MIG devices; a GPU without a UUID is kept without one."""
    gpus: List[Dict[str, Any]] = []
    for line in text.splitlines():
        match = _LIST_LINE.match(line)
        if match:
            row: Dict[str, Any] = {
                "index": int(match.group(1)),
                "name": match.group(2),
                "uuid": match.group(3),
                "mig": [],
            }
            gpus.append(row)
            continue
        mig = _MIG_LINE.match(line)
        if mig and gpus:
            device = {"profile": mig.group(1), "index": int(mig.group(2)), "uuid": mig.group(3)}
            gpus[-1]["mig"].append(device)
    return gpus


def parse_plain(text: str) -> Dict[str, Any]:
    """The header, the rows and the processes of the plain table."""
    header = _PLAIN_HEADER.search(text)
    gpus: List[Dict[str, Any]] = []
    processes: List[Dict[str, Any]] = []
    for line in text.splitlines():
        row = _ROW_NAME.match(line)
        memory = _ROW_MEMORY.search(line)
        process = _ROW_PROCESS.match(line)
        if row:
            address = pci_address(row.group(4))
            gpus.append({"index": int(row.group(1)), "name": row.group(2), "pci_address": address})
        elif memory and gpus:
            gpus[-1]["memory_used_mib"] = int(memory.group(1))
            gpus[-1]["memory_total_mib"] = int(memory.group(2))
        elif process:
            gpu, pid, kind, name, _used = process.groups()
            processes.append({"gpu": int(gpu), "pid": int(pid), "kind": kind, "name": name})
    return {
        "driver": header.group(1) if header else None,
        "cuda": header.group(2) if header else None,
        "gpus": gpus,
        "processes": processes,
    }


def parse_query(text: str) -> Dict[str, Any]:
    """The header and the GPUs of ``nvidia-smi -q``; indentation is the structure.

    Text that ends in the middle gives what stands before its last line break; ``whole`` tells whether every
    GPU that the header announces is there.
    """
    complete_lines = text[: text.rfind("\n") + 1].splitlines()
    header: Dict[str, str] = {}
    gpus: List[Dict[str, Any]] = []
    body: List[str] = []
    for line in complete_lines:
        start = _GPU_LINE.match(line)
        if start:
            body = []
            gpus.append({"pci_address": pci_address(start.group(1)), "lines": body})
        elif gpus:
            body.append(line)
        elif " : " in line:
            key, _colon, value = line.partition(" : ")
            header[key.strip()] = value.strip()
    for gpu in gpus:
        lines = gpu.pop("lines")
        gpu["facts"] = _indented(lines)
        gpu["processes"] = _query_processes(lines)
    attached = header.get("Attached GPUs", "")
    whole = attached.isdigit() and int(attached) == len(gpus)
    return {"header": header, "gpus": gpus, "whole": whole}


def _indented(lines: List[str]) -> Dict[str, Any]:
    """Lines of ``Key : Value`` and section names as nested dictionaries; the processes are left out."""
    tree: Dict[str, Any] = {}
    open_sections: List[Tuple[int, Dict[str, Any]]] = [(-1, tree)]
    skip_deeper_than: Optional[int] = None
    for line in lines:
        stripped = line.strip()
        if not stripped:
            continue
        depth = len(line) - len(line.lstrip(" "))
        if skip_deeper_than is not None and depth > skip_deeper_than:
            continue
        skip_deeper_than = None
        while open_sections[-1][0] >= depth:
            open_sections.pop()
        parent = open_sections[-1][1]
        key, colon, value = line.partition(" : ")
        if colon:
            parent.setdefault(key.strip(), value.strip())
        elif stripped == "Processes":
            skip_deeper_than = depth
        else:
            section: Dict[str, Any] = {}
            open_sections.append((depth, parent.setdefault(stripped, section)))
            if not isinstance(parent[stripped], dict):
                open_sections[-1] = (depth, section)
    return tree


def _query_processes(lines: List[str]) -> List[Dict[str, Any]]:
    """The process entries of one GPU; an entry begins where a key comes again."""
    entries: List[Dict[str, str]] = []
    inside: Optional[int] = None
    for line in lines:
        depth = len(line) - len(line.lstrip(" "))
        if line.strip() == "Processes":
            inside = depth
            continue
        if inside is None or not line.strip():
            continue
        if depth <= inside:
            break
        key, colon, value = line.partition(" : ")
        if colon and (not entries or key.strip() in entries[-1]):
            entries.append({})
        if colon:
            entries[-1][key.strip()] = value.strip()
    return [
        _process(e.get("Process ID"), e.get("Type"), e.get("Name"), e.get("Used GPU Memory")) for e in entries
    ]


def _process(
    pid: Optional[str], kind: Optional[str], name: Optional[str], used: Optional[str]
) -> Dict[str, Any]:
    return {
        "pid": int(pid) if pid and pid.isdigit() else None,
        "kind": kind,
        "name": name,
        "memory_used": size(used or ""),
    }


class NotTheXml(ValueError):
    """The text is not the XML of nvidia-smi."""


def parse_xml(text: str) -> Dict[str, Any]:
    """The header, the GPUs and their processes of ``nvidia-smi -q -x``; raises NotTheXml."""
    start = text.find("<?xml")
    if start < 0 or "<!ENTITY" in text:
        raise NotTheXml("expected the XML of nvidia-smi, found %r" % text[:60])
    try:
        root = ElementTree.fromstring(text[start:])
    except ElementTree.ParseError as error:
        raise NotTheXml("expected the XML of nvidia-smi, but it ends or breaks: %s" % error) from error
    gpus = []
    for element in root.findall("gpu"):
        facts = _tree(element)
        processes = [
            _process(
                entry.findtext("pid"),
                entry.findtext("type"),
                entry.findtext("process_name"),
                entry.findtext("used_memory"),
            )
            for entry in element.findall("processes/process_info")
        ]
        address = pci_address(element.get("id") or "")
        gpus.append({"pci_address": address, "facts": facts, "processes": processes})
    header = {
        key: root.findtext(key) for key in ("timestamp", "driver_version", "cuda_version", "attached_gpus")
    }
    attached = (header["attached_gpus"] or "").strip()
    return {"header": header, "gpus": gpus, "whole": attached.isdigit() and int(attached) == len(gpus)}


def _tree(element: ElementTree.Element) -> Any:
    """An element as text, or as a dictionary of its children; children of one name become a list."""
    if not len(element):
        return (element.text or "").strip()
    tree: Dict[str, Any] = {}
    for child in element:
        value = _tree(child)
        if child.tag not in tree:
            tree[child.tag] = value
        elif isinstance(tree[child.tag], list):
            tree[child.tag].append(value)
        else:
            tree[child.tag] = [tree[child.tag], value]
    return tree


def at(tree: Any, path: str) -> Optional[str]:
    """The text at a path such as ``pci/link_widths/current_link_width``; None when it is not there."""
    for part in path.split("/"):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree if isinstance(tree, str) else None
