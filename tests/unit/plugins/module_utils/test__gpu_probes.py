# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import inspect
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import (
    _command,
    _driver,
    _gpu_facts,
    _gpu_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OUTCOMES,
    Probe,
    ProbeSpec,
    run_probes,
)

HERE = Path(inspect.getfile(_gpu_probes)).parent

# Every program that these probes may run; all of them only read.
ALLOWED = {
    "nvidia-smi": {("-L",), ("-q",), ("-q", "-x"), (), ("topo", "-m"), ("nvlink", "-s")},
    "ldconfig": {("-p",)},
    "modinfo": {("nvidia",)},
    "nvidia-imex-ctl": {("-N", "-j")},
    "dmesg": {()},
    "chronyc": {("-n", "tracking")},
    "last": {("-F", "-x", "reboot")},
}
READ_ONLY_FIRST = {"journalctl": "--no-pager", "systemctl": "show", "dpkg-query": "-W", "rpm": "-qa"}


def specs() -> List[ProbeSpec]:
    return _gpu_probes.probes({})


def test_every_question_has_a_name_and_a_place_of_its_own() -> None:
    names = [spec.name for spec in specs()]
    assert len(names) == len(set(names))
    members = [spec.member for spec in specs() if spec.member]
    assert len(members) == len(set(members))
    assert all(re.match(r"^(gpu|host)/[A-Za-z0-9._-]+$", member) for member in members)
    assert all(spec.deadline > 0 for spec in specs())


def test_t4_all_calls_of_smi_are_one_group_and_nvml_and_the_files_are_not_in_it() -> None:
    groups = {spec.name: spec.group for spec in specs()}
    for name, group in groups.items():
        assert (group == "nvidia-smi") is name.startswith("gpu.smi.")
    assert groups["gpu.nvml"] == "nvml"
    for name in ("gpu.pci", "gpu.proc.gpus", "gpu.driver.loaded", "kernel.dmesg", "gpu.holders"):
        assert groups[name] == ""


def test_t6_smi_has_a_minute_and_options_change_it() -> None:
    deadlines = {spec.name: spec.deadline for spec in specs()}
    assert deadlines["gpu.smi.query"] >= 60
    changed = _gpu_probes.probes({"smi_deadline": 5, "nvml_deadline": None, "paths": ["/data", "/"]})
    after = {spec.name: spec.deadline for spec in changed}
    assert after["gpu.smi.query"] == 7
    assert after["gpu.nvml"] == deadlines["gpu.nvml"]
    assert "host.space./data" in after


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> List[List[str]]:
    """The commands of all probes, none of which is run."""
    seen: List[List[str]] = []

    def run_command(argv: List[str], *more: object, **named: object) -> _command.CommandResult:
        seen.append(list(argv))
        return _command.CommandResult(list(argv), "absent", message="not run")

    monkeypatch.setattr(_command, "run_command", run_command)
    monkeypatch.setattr(_driver, "why_not_to_ask", lambda: "")
    return seen


def test_t15_every_command_only_reads(commands: List[List[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "isdir", lambda path: True)
    monkeypatch.setattr(os, "listdir", lambda path: ["x"])
    for spec in specs():
        if spec.name.startswith(
            (
                "gpu.smi",
                "gpu.driver",
                "fabric",
                "kernel",
                "host.chrony",
                "packages",
                "services.units",
                "changes",
            )
        ):
            try:
                spec.run(lambda reading: None)
            except Exception:  # noqa: BLE001 - the faked host breaks the readers of files; commands are counted
                continue
    assert {argv[0] for argv in commands} == set(ALLOWED) | set(READ_ONLY_FIRST)
    for program, *arguments in commands:
        if program in ALLOWED:
            assert tuple(arguments) in ALLOWED[program], (program, arguments)
        else:
            assert arguments[0] == READ_ONLY_FIRST[program], (program, arguments)
        assert not {
            word for word in arguments if word.startswith(("--flush", "--vacuum", "--rotate", "--sync"))
        }


OUR_FILES = [
    "_nvml.py",
    "_nvml_calls.py",
    "_driver.py",
    "_gpu_devices.py",
    "_gpu_holders.py",
    "_gpu_probes.py",
    "_host.py",
    "_smi_run.py",
    "_services.py",
    "_packages.py",
    "_change_logs.py",
    "_fabric_quick.py",
    "_kernel_log.py",
]


@pytest.mark.parametrize("name", OUR_FILES)
def test_t16_no_cuda_context_no_torch_no_setting(name: str) -> None:
    tree = ast.parse((HERE / name).read_text())
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not imported & {"torch", "vllm", "cupy", "cuda", "subprocess", "multiprocessing"}
    words = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not [
        word
        for word in words
        if re.match(r"^(nvmlDevice(Set|Reset|Clear|Modify|Create)|nvmlSystemSet|cu[A-Z])", word)
    ]
    assert not words & {
        "unlink",
        "remove",
        "rename",
        "rmdir",
        "mkdir",
        "mknod",
        "chmod",
        "chown",
        "settimeofday",
        "system",
    }


def stub(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_t4_with_a_hung_smi_everything_that_is_a_file_still_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub(tmp_path, "nvidia-smi", "trap '' TERM INT HUP\nsleep 300 &\nwhile :; do sleep 1; done\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(_driver, "why_not_to_ask", lambda: "")
    answers = run_probes(_gpu_probes.probes({"smi_deadline": 0.5, "nvml_deadline": 5.0}))
    assert answers["gpu.smi.list"].outcome == "timeout"
    assert answers["gpu.smi.xml"].outcome == "skipped"
    for name in (
        "gpu.device_nodes",
        "gpu.driver.modules",
        "host.system",
        "host.boot",
        "host.memory",
        "host.space./",
    ):
        assert answers[name].outcome == "ok", answers[name]
    assert _gpu_facts.facts(answers)["gpu"]["counts"]["nvidia_smi_list"]["value"] is None


@pytest.fixture(scope="module")
def this_machine() -> Dict[str, Probe]:
    return run_probes(_gpu_probes.probes({}))


def test_this_machine_is_read_with_an_outcome_for_every_question(this_machine: Dict[str, Probe]) -> None:
    assert list(this_machine) == [spec.name for spec in specs()]
    assert {probe.outcome for probe in this_machine.values()} <= set(OUTCOMES)
    assert this_machine["host.system"].value["kernel"] == os.uname().release
    assert this_machine["host.boot"].raw
    faults = [
        probe.message
        for probe in this_machine.values()
        if re.match(r"^[A-Z]\w+(Error|Exception): ", probe.message)
    ]
    assert faults == []


def test_reading_it_starts_nothing_that_stays(this_machine: Dict[str, Probe]) -> None:
    script = (
        "import os\n"
        "from ansible_collections.gpufleet.baseline.plugins.module_utils import _command, _guardian\n"
        "from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_probes\n"
        "from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import run_probes\n"
        "run_probes(_gpu_probes.probes({}))\n"
        "print(_guardian.marked_processes(_command.MARK))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
