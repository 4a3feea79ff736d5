# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play can miss hosts in many ways; none of them may end with 0 (a misspelt group does, by itself)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node

# Runs the gate; see conftest.py.
Gate = Callable[..., Any]

# A GB300 boundary that one tray fulfils, so that only what is missing decides.
ONE_TRAY = """\
schema: gpufleet.baseline/pinned-boundary/1
name: one-tray
model: example/Model
source: {location: a test, checked: "2026-11-30"}
default: {hardware: gb300, strategy: single_node_tp, variant: default}
limits: {driver_branch: {value: 580, where: a test}}
variants: {default: {}}
hardware: {gb300: {gpus: 4, per_host: 4, strategy: single_node_tp}}
"""

ROLLOUT = """\
---
- name: The gate
  ansible.builtin.import_playbook: gpufleet.baseline.gate

- name: The rollout
  hosts: all
  gather_facts: false
  tasks:
    - name: Roll out
      ansible.builtin.debug:
        msg: rolled out on {{ inventory_hostname }}
"""

TWICE = """\
---
- name: The first gate
  ansible.builtin.import_playbook: gpufleet.baseline.gate

- name: The second gate
  ansible.builtin.import_playbook: gpufleet.baseline.gate
  vars:
    gpufleet_hosts: misspelt
"""

OWN_PLAY = """\
---
- name: The role in a play of the user's own
  hosts: all
  gather_facts: false
  %s
  roles:
    - role: gpufleet.baseline.gate
"""


@pytest.fixture
def one_tray(tmp_path: Path) -> str:
    path = tmp_path / "one-tray.yml"
    path.write_text(ONE_TRAY)
    return str(path)


def test_limit_to_a_part_that_is_whole_by_itself(nodes: list[Node], gate: Gate, one_tray: str) -> None:
    judged = gate("-l", "n2", gate_boundary=one_tray)
    assert judged.code == 0, judged.output
    assert set(judged.gate["hosts"]) == {"n2"}


def test_hosts_of_the_launch_group_outside_of_the_limit_are_undecided(
    nodes: list[Node], gate: Gate, one_tray: str
) -> None:
    judged = gate("-l", "n2", gate_boundary=one_tray, gate_launch_group="lab")
    assert judged.code != 0
    assert judged.gate["verdict"] == "undecided"
    assert "outside of the limit" in judged.gate["hosts"]["n1"]["reason"]


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ((), {"gpufleet_hosts": "misspelt"}),
        ((), {"gate_launch_group": "misspelt"}),
        (("-l", "misspelt"), {}),
        (("-l", "n1"), {"gpufleet_hosts": "n2"}),
        (("-l", "!all"), {}),
    ],
)
def test_a_pattern_that_matches_no_host(
    gate: Gate, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    judged = gate(*options, **variables)
    assert judged.code != 0, judged.output
    assert judged.gate is None


def test_an_empty_inventory(gate: Gate, tmp_path: Path) -> None:
    empty = tmp_path / "empty.yml"
    empty.write_text("all: {}\n")
    judged = gate(inventory=empty)
    assert judged.code != 0
    assert "nothing was judged" in judged.output


def test_all_unreachable(gate: Gate, tmp_path: Path) -> None:
    dead = tmp_path / "dead.yml"
    dead.write_text("all: {hosts: {d1: {}, d2: {}}, vars: {ansible_host: 127.0.0.1, ansible_port: 1}}\n")
    judged = gate(inventory=dead)
    assert judged.code != 0
    assert judged.gate["verdict"] == "undecided"
    assert "unreachable" in judged.gate["hosts"]["d1"]["reason"]


def test_the_first_host_dead(lab: Lab, nodes: list[Node], gate: Gate) -> None:
    nodes[0].cut()
    try:
        judged = gate()
    finally:
        nodes[0].heal()
    assert judged.code != 0
    # The other tray measures that IMEX lost a node, so that the whole fails.
    assert judged.gate["hosts"]["n1"]["verdict"] == "undecided"
    assert ("imex.service", "fail", "n2") in judged.bad()
    assert "unreachable" in judged.gate["hosts"]["n1"]["reason"]
    assert judged.gate["hosts"]["n2"]["reason"] == ""
    assert ("gpu.count", "undecided", "n1") in judged.bad()


def test_a_strategy_of_the_environment_changes_nothing(
    nodes: list[Node], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", "free")
    judged = gate()
    assert judged.code == 0, judged.output
    assert judged.gate["verdict"] == "warn"


def test_a_play_that_shows_the_hosts_one_by_one_is_refused(
    nodes: list[Node], gate: Gate, tmp_path: Path
) -> None:
    play = tmp_path / "own.yml"
    play.write_text(OWN_PLAY % "serial: 1")
    judged = gate(playbook=str(play))
    assert judged.code != 0, judged.output
    assert "not visited before the judgement" in judged.output


def test_under_the_free_strategy_nothing_passes_without_the_other_hosts(
    nodes: list[Node], gate: Gate, tmp_path: Path
) -> None:
    play = tmp_path / "own.yml"
    play.write_text(OWN_PLAY % "strategy: free")
    judged = gate(playbook=str(play))
    written = [json.loads(path.read_text()) for path in judged.reproduction.glob("run-*/gate.json")]
    assert written, judged.output
    for document in written:
        whole = all(host["reason"] == "" for host in document["hosts"].values())
        assert whole or not document["good"]
    # Each host judges by itself there: the one that comes first cannot have the others' facts.
    assert judged.code != 0 or all(document["good"] for document in written)


def test_a_second_gate_cannot_lean_on_the_first(nodes: list[Node], gate: Gate, tmp_path: Path) -> None:
    play = tmp_path / "twice.yml"
    play.write_text(TWICE)
    judged = gate(playbook=str(play))
    assert judged.code != 0, judged.output
    assert "nothing was judged" in judged.output


def test_a_rollout_behind_a_good_gate(nodes: list[Node], gate: Gate, tmp_path: Path) -> None:
    play = tmp_path / "rollout.yml"
    play.write_text(ROLLOUT)
    judged = gate(playbook=str(play))
    assert judged.code == 0, judged.output
    assert "rolled out on n1" in judged.output
    assert "rolled out on n2" in judged.output


def test_a_rollout_behind_a_bad_gate_does_not_begin(nodes: list[Node], gate: Gate, tmp_path: Path) -> None:
    nodes[1].set_state("mig-on")
    play = tmp_path / "rollout.yml"
    play.write_text(ROLLOUT)
    judged = gate(playbook=str(play))
    assert judged.code != 0
    assert "rolled out" not in judged.output


def test_a_rollout_behind_a_gate_of_other_hosts_does_not_begin(
    nodes: list[Node], gate: Gate, tmp_path: Path
) -> None:
    play = tmp_path / "rollout.yml"
    play.write_text(ROLLOUT)
    judged = gate(playbook=str(play), gpufleet_hosts="misspelt")
    assert judged.code != 0
    assert "rolled out" not in judged.output


def test_check_mode_judges_and_writes_nothing(nodes: list[Node], gate: Gate) -> None:
    judged = gate("--check")
    assert judged.code == 0, judged.output
    assert "Gate (check mode): PASS with warnings" in judged.output
    assert not judged.reproduction.exists()
