# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils import basic
from ansible_collections.gpufleet.baseline.plugins.modules import first_failure

LOG = """(EngineCore pid=80) ERROR 08-09 10:00:30 [core.py:1104] EngineCore failed to start.
(EngineCore pid=80) ERROR 08-09 10:00:30 [core.py:1104] Traceback (most recent call last):
(EngineCore pid=80) ERROR 08-09 10:00:30 [core.py:1104]   File "/x/vllm/v1/core.py", line 7, in check
(EngineCore pid=80) ERROR 08-09 10:00:30 [core.py:1104] ValueError: No available memory for the cache blocks.
"""


class Ended(Exception):
    """The module ended, with this result."""


def run(monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]) -> dict[str, Any]:
    """The module's main() in this process."""

    def end(_module: basic.AnsibleModule, **result: Any) -> None:
        raise Ended(result)

    monkeypatch.setattr(basic.AnsibleModule, "exit_json", end)
    monkeypatch.setattr(
        basic.AnsibleModule, "fail_json", lambda module, **result: end(module, failed=True, **result)
    )
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO()))
    with pytest.raises(Ended) as ended:
        first_failure.main()
    result: dict[str, Any] = ended.value.args[0]
    return result


@pytest.mark.parametrize("check", [False, True])
def test_a_log_is_judged_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    path = tmp_path / "log"
    path.write_text(LOG, encoding="utf-8")
    result = run(monkeypatch, {"logs": [{"path": str(path)}], "_ansible_check_mode": check})
    assert result["changed"] is False
    verdict = result["verdict"]
    assert (verdict["stage"], verdict["failure_class"], verdict["line"]) == (
        "engine",
        "kv-cache-no-memory",
        1,
    )
    assert verdict["path"] == str(path)
    assert any("kv-cache-no-memory" in line for line in result["text"])
    assert max(map(len, result["text"])) <= 100


def test_a_missing_file_fails_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, {"logs": [{"path": str(tmp_path / "none")}]})
    assert result["failed"] is True
    assert str(tmp_path / "none") in result["msg"]
    assert "No such file" in result["msg"]


def test_an_unknown_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, {"logs": [{"path": str(tmp_path), "kind": "nope"}]})
    assert "value of kind must be one of" in result["msg"]


def test_a_secret_in_an_exception_is_not_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    secret = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"[:34]
    path.write_text(
        LOG.replace("No available", f"Authorization: Bearer {secret} No available"), encoding="utf-8"
    )
    assert secret not in json.dumps(run(monkeypatch, {"logs": [{"path": str(path)}]}))


def test_documentation_and_options_agree() -> None:
    documented = yaml.safe_load(first_failure.DOCUMENTATION)["options"]
    options = first_failure.argument_spec()
    assert set(documented) == set(options)
    below, inner = documented["logs"]["suboptions"], options["logs"]["options"]
    assert set(below) == set(inner)
    for name, option in inner.items():
        assert below[name].get("default") == option.get("default")
        assert below[name]["type"] == option["type"]
        assert below[name].get("choices") == option.get("choices")
