# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that the actions of a freeze talk to: its commands, its module, its files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpufleet.baseline.plugins.action import freeze
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _run


def action(module: Any, arguments: dict[str, Any], check: bool = False, name: str = "freeze") -> Any:
    task = SimpleNamespace(
        args=arguments, action=f"gpufleet.baseline.{name}", async_val=0, environment=None, diff=False, check_mode=check,
        collections=[], no_log=False, delegate_to=None, _parent=None,
    )  # fmt: skip
    made = module.ActionModule(
        task=task, connection=MagicMock(), play_context=SimpleNamespace(check_mode=check), loader=None, templar=None,
        shared_loader_obj=None,
    )  # fmt: skip
    made._display = MagicMock()
    made._connection.transport = "local"
    return made


def record(questions: dict[str, Any] | None = None) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb") as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        for name in ("five-questions.txt", "facts.json"):
            content = json.dumps({"schema": "gpufleet.baseline/facts/1"}).encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Host:
    """Stands for the host: its commands, its module, its files."""

    def __init__(self, tmp_path: Path) -> None:
        self.staging = tmp_path / "host" / ".gpufleet-freeze.abc"
        self.content = record()
        self.module_result: dict[str, Any] = {
            "archive": str(self.staging / "record.tar.gz"),
            "sha256": hashlib.sha256(self.content).hexdigest(),
            "bytes": len(self.content),
            "coverage": {"probes": 2, "ok": 2},
            "questions": {"short": {"driver": "580.159.04"}, "active": "", "not_measured": []},
            "digests": [{"name": "HF_TOKEN", "digest": "ab"}],
            "secrets": {"HF_TOKEN": 1},
        }
        self.dead_at = ""
        self.dead_from = ""
        self.made_by = ""
        self.arguments: dict[str, Any] = {}

    def put_on(self, made: Any, tmp_path: Path) -> None:
        made._low_level_execute_command = self.command
        made.run_module = self.module
        made._connection = SimpleNamespace(transport="local", fetch_file=shutil.copy)

    def command(self, command: str, sudoable: bool) -> dict[str, Any]:
        assert sudoable is False
        step = "remove" if command.startswith("rm -rf") else "make"
        if self.dead_at == step or (self.dead_from and step == "remove"):
            raise AnsibleConnectionFailure("Failed to connect:\n timed out")
        if step == "remove":
            shutil.rmtree(self.staging)
            return {"rc": 0}
        self.made_by = command
        self.staging.mkdir(parents=True)
        return {"rc": 0, "stdout": f"staging {self.staging} 1048576\n"}

    def module(self, arguments: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
        self.arguments = arguments
        if "module" in (self.dead_at, self.dead_from):
            raise AnsibleConnectionFailure("connection reset")
        if "archive" in self.module_result:
            (self.staging / "record.tar.gz").write_bytes(self.content)
        return self.module_result


def freeze_host(
    run: _run.Run, host: Host, tmp_path: Path, name: str = "n1", **arguments: Any
) -> dict[str, Any]:
    made = action(freeze, {"run": str(run.path), **arguments})
    host.put_on(made, tmp_path)
    return made.run(None, {"inventory_hostname": name})
