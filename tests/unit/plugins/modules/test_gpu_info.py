# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from typing import Any, Dict

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.baseline.plugins.doc_fragments._nvml_dep import ModuleDocFragment
from ansible_collections.gpufleet.baseline.plugins.module_utils import _gpu_probes
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.modules import gpu_info


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: Dict[str, Any]
) -> Dict[str, Any]:
    """The module's result, with answers that need no host."""
    answers = {"gpu.pci": Probe("gpu.pci", "ok", [], source="/sys/bus/pci/devices")}
    monkeypatch.setattr(gpu_info, "run_probes", lambda specs: answers)
    with patch_module_args(arguments), pytest.raises(SystemExit):
        gpu_info.main()
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_documents_and_the_probes_are_returned_and_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], check_mode: bool
) -> None:
    result = run(monkeypatch, capsys, {"_ansible_check_mode": check_mode})
    assert result["changed"] is False
    assert result["gpu"]["schema"] == "gpufleet.baseline/gpu/1"
    assert result["host"]["schema"] == "gpufleet.baseline/host/1"
    assert result["host"]["changes"]["schema"] == "gpufleet.baseline/changes/1"
    assert result["gpu"]["summary"] == "no GPU on the PCI bus"
    assert result["probes"]["gpu.pci"]["outcome"] == "ok"


def test_a_bad_argument_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(monkeypatch, capsys, {"smi_deadline": "soon"})
    assert result["failed"]
    assert "smi_deadline" in result["msg"]


def test_a_key_that_is_none_fails_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(monkeypatch, capsys, {"redaction_key": "not-hexadecimal-at-all"})
    assert result["failed"]
    assert result["msg"].startswith("redaction_key: expected 64 hexadecimal digits")
    assert "not-hexadecimal-at-all" not in json.dumps(result)


def test_libraries_that_are_no_archive_fail_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(monkeypatch, capsys, {"carried_libraries": "no archive"})
    assert result["failed"]
    assert "call the module through its action plugin" in result["msg"]


def test_the_documented_defaults_are_those_of_the_table() -> None:
    options = yaml.safe_load(gpu_info.DOCUMENTATION)["options"]
    options.update(yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"])
    spec = gpu_info.argument_spec()
    assert set(spec) == set(options)
    for name, option in options.items():
        assert spec[name].get("default") == option.get("default"), name
        assert spec[name]["type"] == option["type"]
    for name, value in _gpu_probes.DEFAULTS.items():
        expected = list(value) if isinstance(value, tuple) else value
        assert spec[name]["default"] == expected


def test_what_must_not_be_logged_is_not() -> None:
    spec = gpu_info.argument_spec()
    assert [name for name, option in spec.items() if option.get("no_log")] == [
        "carried_libraries",
        "redaction_key",
    ]
