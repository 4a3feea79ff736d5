# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module's face: its arguments, its documentation, and no secret in its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.modules import engine_info

PARAMS: dict[str, Any] = {
    "containers": [],
    "processes": [],
    "docker_socket": "/nowhere",
    "docker_deadline": 5.0,
    "secret_names": [],
    "redaction_key": "ab" * 32,
    "carried_libraries": "",
}


def test_the_documentation_names_every_option() -> None:
    documented = yaml.safe_load(engine_info.DOCUMENTATION)["options"]
    from_fragment = {"docker_socket", "docker_deadline"}
    assert set(documented) | from_fragment == set(engine_info.argument_spec())


def test_t20_no_secret_of_a_process_is_in_the_result() -> None:
    """From the environment, an argument, and a name that only the user knows to be a secret."""
    environment = {
        "HF_TOKEN": "hf_canaryCANARYcanary",
        "TRAY_CODE": "canary-of-the-user",
        "PATH": os.environ["PATH"],
    }
    code = "import time; print(1, flush=True); time.sleep(600)"
    argv = [sys.executable, "-c", code, "--api-key", "sk-canary-argument", "--max-num-batched-tokens", "8192"]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            params = {**PARAMS, "processes": [process.pid], "secret_names": ["TRAY_CODE"]}
            text = json.dumps(engine_info.describe(params))
        finally:
            process.kill()
    assert "canary" not in text.lower()
    assert "<redacted HF_TOKEN " in text
    assert "8192" in text


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(BaselineError, match="expected 64 hexadecimal digits"):
        engine_info.describe({**PARAMS, "redaction_key": "not hex"})


def test_probes_are_told_with_their_outcomes() -> None:
    result = engine_info.describe({**PARAMS, "processes": [os.getpid()]})
    assert result["probes"]["docker.info"]["outcome"] == "absent"
    assert result["probes"]["engine.processes"]["outcome"] == "ok"
    assert result["engine"]["schema"] == "gpufleet.baseline/engine/1"


def test_without_the_library_the_engine_is_an_error_and_the_rest_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    monkeypatch.setitem(sys.modules, "docker.api", None)
    result = engine_info.describe({**PARAMS, "docker_socket": str(tmp_path)})
    assert result["probes"]["docker.info"]["outcome"] == "error"
    assert "expected the Python library docker" in result["probes"]["docker.info"]["message"]
    assert result["probes"]["engine.processes"]["outcome"] == "ok"
