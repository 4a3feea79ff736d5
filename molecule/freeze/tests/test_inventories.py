# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to name hosts: on the command line alone, with names that are no file names, two names for one host name."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node
from conftest import PLAYBOOK, PROJECT, Frozen, Record


def lab_variables(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["lab"]["vars"]
    return found


def play(tmp_path: Path, *arguments: str) -> Frozen:
    done = subprocess.run(
        [PLAYBOOK, str(PROJECT / "playbooks" / "freeze.yml"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1"},
    )
    return Frozen(done.returncode, done.stdout + done.stderr, next(tmp_path.glob("repro-*"), tmp_path))


def test_hosts_and_user_on_the_command_line_and_all_defaults(
    lab: Lab, nodes: list[Node], tmp_path: Path
) -> None:
    """The user is no root; the run lies below the current directory."""
    common = lab_variables(lab)
    addresses = [node.address for node in nodes]
    options = ["-i", ",".join(addresses) + ",", "-u", "ops"]
    options += ["--private-key", common["ansible_ssh_private_key_file"]]
    options += ["--ssh-common-args", common["ansible_ssh_common_args"]]
    result = play(tmp_path, *options)
    assert result.code == 0, result.output
    assert result.reproduction.name.startswith("repro-20")
    assert list(result.document["hosts"]) == addresses
    for address in addresses:
        assert result.record(address).manifest["host"] == address


def test_names_that_are_no_file_names_and_two_names_for_one_host(
    lab: Lab, node: Node, tmp_path: Path
) -> None:
    names = {"../n1": "..%2Fn1", "rack 1/träy": "rack%201%2Ftr%C3%A4y"}
    hosts = {name: {"ansible_host": node.address} for name in names}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": lab_variables(lab)}}))
    result = play(tmp_path, "-i", str(inventory))
    assert result.code == 0, result.output
    assert {host["state"] for host in result.document["hosts"].values()} == {"frozen"}
    assert set(result.document["hosts"]) == set(names)
    records = {path.name for path in (result.run / "hosts").glob("*.tar.gz")}
    for name, file in names.items():
        file = "%2E" + file[1:] if file.startswith(".") else file
        assert f"{file}.tar.gz" in records
        record = Record(result.run / "hosts" / f"{file}.tar.gz")
        assert record.manifest["host"] == name
        assert "names itself n1" in record.text("five-questions.txt")
    assert {path.parent for path in tmp_path.rglob("*.tar.gz")} == {result.run / "hosts"}
