# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each reason for which the gate refuses, end to end: a recorded run goes in, the playbook refuses with that reason.

GATE_CASE names the case. The recorded hosts are the healthy ones of the unit tests with one thing changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    changed,
    document,
    fact,
    with_engine,
)

PROJECT = Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
OTHER_VERSIONS = {"vllm": ["0.27.1"], "torch": ["2.13.0"], "nccl": ["2.28.9"]}
APART = {"state": "user libraries differ", "meaning": "new starts fail, running ones go on", "unmeasured": []}
STRANGER = {
    "pid": 7,
    "parent": 99,
    "command": "python3",
    "user": "alice",
    "state": "S",
    "in_proc": True,
    "daemon": None,
    "container_ids": [],
    "gpus": [],
}


@dataclass(frozen=True)
class Case:
    """What is changed on the second of two healthy trays, and what the gate must say."""

    rule: str
    reason: str
    changes: dict[str, Any] = field(default_factory=dict)
    verdict: str = "fail"
    hosts: tuple[str, ...] = ("n2",)
    engines: bool = False
    engine: dict[str, Any] = field(default_factory=dict)
    kind: str = "gb300"
    count: int | None = None
    missing: bool = False


CASES = {
    "old-driver": Case("driver.branch", "needs r580 or newer", {"gpu__driver__loaded": fact("575.57.08")}),
    "old-cuda": Case("driver.cuda", "offers CUDA 12.9 only", {"gpu__driver__cuda_of_driver": fact("12.9")}),
    "upgraded-driver": Case("driver.agreement", "new starts fail", {"gpu__driver__agreement": fact(APART)}),
    "mixed-drivers": Case(
        "driver.equal",
        "the driver differs within the launch group",
        {"gpu__driver__loaded": fact("590.44.01")},
        hosts=("n1", "n2"),
    ),
    "other-gpu": Case("gpu.model", "NVIDIA B300 SXM6 AC is not GB300", kind="b300", count=4),
    "too-few-gpus": Case("gpu.count", "the launch group has 7 GPUs, 8 are needed", count=3),
    "too-little-memory": Case(
        "gpu.memory",
        "the model needs 1680 GB",
        {f"gpu__gpus__{number}__identity__memory_total": fact(1 * 10**9) for number in range(4)},
        hosts=(),
    ),
    "uneven-hosts": Case("gpu.even", "the same number of GPUs on every host", count=5, hosts=("n1", "n2")),
    "lost-gpu": Case("gpu.lost", "is on the bus or was", {"gpu__gpus__3__missing_from": ["NVML"]}),
    "mig": Case("gpu.mig", "MIG is on", {"gpu__gpus__0__state__mig": fact(True)}),
    "row-remap": Case(
        "gpu.remap", "could not be replaced", {"gpu__gpus__0__state__remapping_failed": fact(True)}
    ),
    "recovery-action": Case(
        "gpu.recovery", "the driver advises", {"gpu__gpus__0__state__recovery_action": fact("reset")}
    ),
    "held-gpu": Case("gpu.holders", "belongs to no engine", {"gpu__holders": fact([STRANGER])}),
    "fabric": Case("fabric.state", "not joined", {"gpu__gpus__0__state__fabric_state": fact("in progress")}),
    "nvlink-domain": Case(
        "fabric.domain",
        "differs within the launch group",
        {f"gpu__gpus__{number}__state__fabric_clique_id": fact(9) for number in range(4)},
        hosts=("n1", "n2"),
    ),
    "imex": Case("imex.service", "IMEX does not run", {"host__services__daemons": fact([])}),
    "imex-channel": Case("imex.channel", "no IMEX channel 0", {"gpu__fabric__imex_channels": fact([])}),
    "other-image": Case(
        "image.equal",
        "differs within the launch group",
        engines=True,
        engine={"image__id": "sha256:" + "9" * 64},
        hosts=("n1", "n2"),
    ),
    "image-for-another-processor": Case(
        "image.architecture", "made for amd64", engines=True, engine={"image__architecture": "amd64"}
    ),
    "image-cuda": Case(
        "image.cuda",
        "offers CUDA 13.0 only",
        engines=True,
        engine={"cuda": fact({"image_cuda_version": "14.0.1"})},
    ),
    "old-vllm": Case(
        "engine.vllm", "is older than 0.27.1", engines=True, engine={"versions__value__vllm": ["0.26.0"]}
    ),
    "mixed-versions": Case(
        "engine.versions",
        "differs within the launch group",
        engines=True,
        engine={"versions": fact(OTHER_VERSIONS)},
        hosts=("n1", "n2"),
    ),
    "container-without-gpus": Case(
        "container.devices",
        "the host is not broken",
        engines=True,
        engine={"visible_devices": fact({"uuids": [], "unknown_minors": [], "cgroup": {"allowed": None}})},
    ),
    "shared-memory": Case(
        "container.shm", "/dev/shm has 64 MiB", engines=True, engine={"limits__ShmSize": 64 * 2**20}
    ),
    "missing-weights": Case(
        "weights.present",
        "1 of 1 files of the index are missing",
        engines=True,
        engine={"models": [fact({"shards": {}, "index": {"shards": 1, "missing": ["m-1.safetensors"]}})]},
    ),
    "other-weights": Case(
        "weights.equal",
        "differs within the launch group",
        engines=True,
        engine={"models__0__value__files__config.json__sha256": "0" * 64},
        hosts=("n1", "n2"),
    ),
    "unmeasured": Case(
        "driver.branch",
        "not measured (timeout)",
        {
            "gpu__driver__loaded": fact(None, "timeout", "no answer within 10 s"),
            "gpu__driver__told_by_the_driver": fact(None, "skipped", "not asked"),
        },
        verdict="undecided",
    ),
    "missing-host": Case("facts.there", "the run has no facts of it", missing=True, verdict="undecided"),
}


def write_run(path: Path, case: Case) -> None:
    """The recorded run of two hosts."""
    first = document(1)
    second = changed(document(2, case.kind, case.count), **case.changes)
    if case.engines:
        first, second = with_engine(first), with_engine(second, **case.engine)
    (path / "facts").mkdir(parents=True)
    entries = {"n1": {"state": "frozen"}, "n2": {"state": "frozen"}}
    run = {"schema": "gpufleet.baseline/run/1", "hosts": entries, "started": "2026-11-30T12:00:00Z"}
    (path / "run.json").write_text(json.dumps(run))
    for name, made in (("n1", first), ("n2", second)):
        if name == "n1" or not case.missing:
            content = {"schema": "gpufleet.baseline/facts/1", **made}
            (path / "facts" / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def case() -> Case:
    return CASES[os.environ["GATE_CASE"]]


def test_every_case_has_a_scenario() -> None:
    scenarios = {path.parent.name for path in PROJECT.glob("molecule/gate-refuses-*/molecule.yml")}
    assert scenarios == {f"gate-refuses-{name}" for name in CASES}


def test_the_gate_refuses_with_this_reason(case: Case, tmp_path: Path) -> None:
    write_run(tmp_path / "recorded", case)
    variables = {
        "gate_run": str(tmp_path / "recorded"),
        "gate_reproduction": str(tmp_path / "repro"),
    }
    done = subprocess.run(
        [PLAYBOOK, "gpufleet.baseline.gate", "-i", "localhost,", "-c", "local", "-e", json.dumps(variables)],
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode != 0, output
    run = tmp_path / "repro" / "run-001"
    gate = json.loads((run / "gate.json").read_text())
    assert gate["verdict"] == case.verdict, output
    (finding,) = [
        item for item in gate["findings"] if item["rule"] == case.rule and item["verdict"] == case.verdict
    ]
    assert tuple(finding["hosts"]) == case.hosts
    assert case.reason in finding["reason"]
    assert case.rule in (run / "gate.txt").read_text()
    kind = {"fail": "failure", "undecided": "error"}[case.verdict]
    named = {
        item.get("name")
        for item in ElementTree.parse(run / "gate.xml").iter("testcase")
        if item.find(kind) is not None
    }
    assert case.rule in named
