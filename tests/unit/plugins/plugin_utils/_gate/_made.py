# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host documents made for the tests: a healthy host in the real layout, and changes to it."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Boundary, Choice, Limit
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._documents import host_facts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Finding, Result, judge
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import Case, Options, RecipeState
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._waivers import Waiver

TODAY = datetime.date(2026, 11, 30)
TIME = "2026-11-30T12:00:00Z"
DRIVER = "580.173.02"
CLUSTER = "4e7f2d1a-0b3c-4d5e-8f90-a1b2c3d4e5f6"

Document = dict[str, Any]

MODELS: Mapping[str, Mapping[str, Any]] = {
    "gb300": {"name": "NVIDIA GB300", "capability": "10.3", "memory": 298013687808, "count": 4},
    "b300": {"name": "NVIDIA B300 SXM6 AC", "capability": "10.3", "memory": 288400343040, "count": 8},
    "h200": {"name": "NVIDIA H200", "capability": "9.0", "memory": 150754820096, "count": 8},
}


def fact(value: Any, outcome: str = "ok", message: str = "", source: str = "a probe") -> Document:
    """A fact as it stands in a document."""
    return {"value": value, "outcome": outcome, "source": source, "message": message}


def gpu(number: int, host: int, kind: str) -> Document:
    """One healthy GPU."""
    model = MODELS[kind]
    state = {
        "mig": False,
        "mig_pending": False,
        "ecc": True,
        "ecc_pending": True,
        "ecc_errors_since_boot": {"correctable": 0, "uncorrectable": 0},
        "remapping_pending": False,
        "remapping_failed": False,
        "recovery_action": "none",
        "persistence": True,
        "fabric_state": "completed",
        "fabric_status": "success",
        "fabric_cluster_uuid": CLUSTER if kind == "gb300" else "00000000-0000-0000-0000-000000000000",
        "fabric_clique_id": 0,
        "fabric_health": "healthy",
    }
    now = {"memory_used": 0, "memory_reserved": 992477184, "clock_event_reasons": ["idle"]}
    identity = {
        "uuid": f"GPU-{host:08}-0000-4000-8000-{number:012}",
        "name": model["name"],
        "compute_capability": model["capability"],
        "memory_total": model["memory"],
    }
    sections = {"identity": identity, "state": state, "now": now}
    return {
        "pci_address": f"{number:04x}:06:00.0",
        "index": fact(number),
        "seen_by": ["gpu.pci", "gpu.nvml"],
        "missing_from": [],
        "processes": fact([]),
        **{
            name: {key: fact(value, source="NVML") for key, value in part.items()}
            for name, part in sections.items()
        },
    }


def document(number: int = 1, kind: str = "gb300", count: int | None = None) -> Document:
    """The documents of a healthy host without an engine."""
    count = int(MODELS[kind]["count"]) if count is None else count
    nodes = {str(n): {"host": f"10.0.0.{n}", "status": "READY"} for n in (1, 2)}
    counts = ("pci", "proc", "nvml", "nvidia_smi_list", "nvidia_smi_query", "nvidia_smi_xml")
    return {
        "gpu": {
            "schema": "gpufleet.baseline/gpu/1",
            "vendors": fact(["nvidia"]),
            "driver": {
                "loaded": fact(DRIVER, source="/proc/driver/nvidia/version"),
                "told_by_the_driver": fact(DRIVER),
                "on_disk": fact(DRIVER, source="modinfo nvidia"),
                "new_processes_load": fact({"libcuda.so.1": DRIVER, "libnvidia-ml.so.1": DRIVER}),
                "agreement": fact({"state": "equal", "meaning": "of one version", "unmeasured": []}),
                "cuda_of_driver": fact("13.0", source="NVML"),
                "cuda_shown_by_nvidia_smi": fact("13.0"),
            },
            "nvml": {"answered": fact(True)},
            "gpus": [gpu(n, number, kind) for n in range(count)],
            "counts": {name: fact(count) for name in counts},
            "pci": fact([]),
            "holders": fact([]),
            "xid": fact([]),
            "fabric": {
                "imex": fact({"nodes": ["10.0.0.1", "10.0.0.2"], "config": None}),
                "imex_status": fact({"nodes": nodes, "status": "UP"}),
                "imex_channels": fact(["/dev/nvidia-caps-imex-channels/channel0"]),
            },
            "problems": [],
        },
        "host": {
            "schema": "gpufleet.baseline/host/1",
            "system": fact({"architecture": "aarch64" if kind == "gb300" else "x86_64"}),
            "boot": fact({"id": f"boot-{number}", "began": "2026-11-29T00:00:00Z"}),
            "time": fact({"now": 1796040000.0, "kernel": {"synchronized": True}}),
            "limits": fact({"dockerd": {"Max locked memory": ["unlimited", "unlimited"]}}),
            "space": {"/dev/shm": fact({"total": 64 * 2**30})},
            "packages": {"relevant": fact([])},
            "services": {
                "units": fact([]),
                "daemons": fact(
                    [{"name": name, "pid": 9} for name in ("nvidia-imex", "nvidia-fabricmanager")]
                ),
            },
            "changes": {"events": [{"what": "boot"}]},
        },
        "engine": {
            "schema": "gpufleet.baseline/engine/1",
            "engine": {"version": fact("28.5.1"), "info": fact({"DriverStatus": []})},
            "containers": [],
            "plain_processes": [],
            "processes": [],
            "images": fact([]),
        },
    }


def container(host: Document, **changes: Any) -> Document:
    """A running engine container that sees all GPUs of its host."""
    uuids = [entry["identity"]["uuid"]["value"] for entry in host["gpu"]["gpus"]]
    architecture = {"aarch64": "arm64"}.get(host["host"]["system"]["value"]["architecture"], "amd64")
    made: Document = {
        "id": "c" * 64,
        "name": "vllm",
        "state": {"running": True, "status": "running"},
        "restart_policy": {"Name": "no"},
        "image": {
            "name": "vllm/vllm-openai@sha256:" + "d" * 64,
            "id": "sha256:" + "1" * 64,
            "tags": ["vllm/vllm-openai:kimi-k3"],
            "digests": ["vllm/vllm-openai@sha256:" + "d" * 64],
            "architecture": architecture,
            "tag_moved": None,
        },
        "command": ["vllm", "serve", "moonshotai/Kimi-K3"],
        "environment": ["CUDA_VERSION=13.0.2", "NVIDIA_VISIBLE_DEVICES=all"],
        "gpu_request": {
            "modes": ["device request (--gpus)"],
            "device_requests": [{"Driver": "", "Count": -1, "DeviceIDs": None}],
        },
        "limits": {"ShmSize": 16 * 2**30, "IpcMode": "private", "Ulimits": [{"Name": "memlock", "Hard": -1}]},
        "network": {"mode": "host"},
        "loaded_libraries": fact([]),
        "versions": fact({"vllm": ["0.27.1"], "torch": ["2.13.0"], "nccl": ["2.30.7"]}),
        "cuda": fact({"image_cuda_version": "13.0.2", "torch_build": "13.0"}),
        "visible_devices": fact({"uuids": uuids, "unknown_minors": [], "cgroup": {"allowed": None}}),
        "models": [fact(model())],
        "processes": [4711],
        "parallel": {"world_size": {"launch": 8}},
    }
    for path, value in changes.items():
        put(made, path.replace("__", "/"), value)
    return made


def model() -> Document:
    """A whole model directory."""
    return {
        "kind": "directory",
        "path": "/models/k3",
        "revision": "a" * 40,
        "files": {"config.json": {"bytes": 9, "sha256": "f" * 64}},
        "shards": {"model-1.safetensors": {"bytes": 1000, "blob": "b" * 64}},
        "shard_count": 1,
        "shard_bytes": 1000,
        "unread": [],
        "index": {"name": "model.safetensors.index.json", "shards": 1, "missing": []},
    }


def put(made: Any, path: str, value: Any) -> None:
    """Set the part of a document at a path such as gpu/gpus/0/state/mig/value."""
    *steps, last = path.split("/")
    for step in steps:
        made = made[int(step)] if isinstance(made, list) else made[step]
    if isinstance(made, list):
        made[int(last)] = value
    else:
        made[last] = value


def changed(made: Document, **changes: Any) -> Document:
    """A copy of a document with parts set; ``__`` stands for a step in the path."""
    made = copy.deepcopy(made)
    for path, value in changes.items():
        put(made, path.replace("__", "/"), value)
    return made


def with_engine(made: Document, **changes: Any) -> Document:
    """A host with a running engine."""
    return changed(made, engine__containers=[container(made, **changes)])


def facts(made: Document, name: str) -> HostFacts:
    """What rules see of a document."""
    return host_facts(name, made, "run-001", TIME)


def boundary(kind: str = "gb300", **limits: Any) -> Boundary:
    """The pinned boundary of Kimi K3, or one made of limits."""
    if limits:
        found = {name: Limit(value, "field") for name, value in {"gpu_model": kind, **limits}.items()}
        return Boundary("a/model", Choice(kind), found)
    pin = _boundary_pin.load("kimi-k3")
    return pin.boundary(pin.choice(kind))


def case(
    documents: Sequence[Document],
    bound: Boundary | None = None,
    missing: Mapping[str, str] | None = None,
    recipe: RecipeState | None = None,
    options: Options | None = None,
) -> Case:
    """A launch group n1, n2, ... and hosts that are missing with a reason."""
    hosts = [facts(made, f"n{number}") for number, made in enumerate(documents, 1)]
    hosts += [HostFacts(name, reason) for name, reason in (missing or {}).items()]
    return Case(
        bound or boundary(),
        tuple(hosts),
        None,
        recipe or RecipeState("kimi-k3", 0),
        options or Options(),
        TODAY,
    )


def judged(
    documents: Sequence[Document], bound: Boundary | None = None, waivers: Sequence[Waiver] = (), **more: Any
) -> Result:
    """The judgement of a launch group."""
    return judge(case(documents, bound, **more), waivers)


def about(result: Result, rule: str, host: str = "") -> Finding:
    """The finding of a rule about a host, or the one about the group."""
    found = [item for item in result.findings if item.rule.id == rule and (not host or host in item.hosts)]
    assert len(found) == 1, [item.as_dict() for item in found]
    return found[0]


def verdict(result: Result, rule: str, host: str = "") -> str:
    """The verdict of a rule about a host."""
    return about(result, rule, host).answer.verdict


def bad(result: Result) -> dict[str, str]:
    """Every rule that is not as wanted, with its worst verdict."""
    found: dict[str, str] = {}
    for item in result.findings:
        if item.answer.verdict in ("warn", "fail", "undecided"):
            worst = found.get(item.rule.id)
            found[item.rule.id] = "fail" if "fail" in (worst, item.answer.verdict) else item.answer.verdict
    return found
