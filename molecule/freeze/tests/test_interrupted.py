# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A freeze that is interrupted leaves a clearly unfinished run, never a wrong record; the next run works."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node
from ansible_collections.gpufleet.baseline.tests.lab.controller import Controller
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for
from conftest import HUNG_SMI, Frozen, Record, command, left_on, variables

Freeze = Callable[..., Frozen]
# A freeze whose nvidia-smi hangs lasts this long, and that is where it is interrupted.
SECONDS = 6


@contextmanager
def in_the_middle(lab: Lab, node: Node, reproduction: Path, *options: str) -> Iterator[Controller]:
    """A freeze that is waiting for a probe."""
    node.put("/usr/local/bin/nvidia-smi", HUNG_SMI, mode=0o755)
    options = (*variables(freeze_reproduction=str(reproduction), freeze_smi_deadline=SECONDS), *options)
    try:
        with Controller(command(lab, "-l", "n1", *options), cwd=reproduction.parent) as controller:
            wait_for(lambda: probing(node), "a probe")
            yield controller
    finally:
        node.run(["rm", "/usr/local/bin/nvidia-smi"])


def probing(node: Node) -> bool:
    return node.run(["pgrep", "-f", "sleep 1000"], check=False).rc == 0


def the_next_run_works(freeze: Freeze) -> None:
    result = freeze("-l", "n1")
    assert (result.code, result.run.name) == (0, "run-002"), result.output


def kill(controller: Controller) -> None:
    controller.kill()


def interrupt(controller: Controller) -> None:
    controller.signal(signal.SIGINT)


@pytest.mark.parametrize("end", [kill, interrupt])
def test_a_controller_that_ends_leaves_an_unfinished_run_and_nothing_on_the_host(
    lab: Lab, node: Node, freeze: Freeze, tmp_path: Path, end: Callable[[Controller], None]
) -> None:
    """The module notices that nobody waits for it, and removes what the controller cannot remove any more."""
    reproduction = tmp_path / "repro"
    with in_the_middle(lab, node, reproduction) as controller:
        end(controller)
        assert controller.process.wait(30) != 0
        wait_for(lambda: left_on(node) == [] and not probing(node), "the host to be clean again", seconds=60)
    assert json.loads((reproduction / "run-001" / "run.json").read_text())["state"] == "collecting"
    assert not list(reproduction.rglob("*.tar.gz*"))
    the_next_run_works(freeze)


def test_a_host_that_is_rebooted_in_the_middle(lab: Lab, node: Node, freeze: Freeze, tmp_path: Path) -> None:
    reproduction = tmp_path / "repro"
    with in_the_middle(lab, node, reproduction) as controller:
        node.reboot()
        assert controller.process.wait(60) != 0
    document = json.loads((reproduction / "run-001" / "run.json").read_text())
    assert document["state"] == "partial"
    assert document["hosts"]["n1"]["state"] in ("unreachable", "failed")
    assert document["hosts"]["n1"]["reason"]
    assert not list(reproduction.rglob("*.tar.gz*"))
    named = document["hosts"]["n1"].get("left_behind", "")
    assert all(path in named for path in left_on(node))
    the_next_run_works(freeze)


def test_a_connection_that_is_cut_in_the_middle(lab: Lab, node: Node, freeze: Freeze, tmp_path: Path) -> None:
    """The cable is pulled: no end of a connection says a word, and the freeze ends all the same."""
    reproduction = tmp_path / "repro"
    patience = "-o ServerAliveInterval=1 -o ServerAliveCountMax=2"
    with in_the_middle(lab, node, reproduction, *variables(ansible_ssh_extra_args=patience)) as controller:
        node.cut()
        try:
            assert controller.process.wait(60) != 0
        finally:
            node.heal()
    document = json.loads((reproduction / "run-001" / "run.json").read_text())
    assert document["state"] == "partial"
    assert document["hosts"]["n1"]["state"] == "unreachable"
    assert "/.gpufleet-freeze." in document["hosts"]["n1"]["left_behind"]
    assert not list(reproduction.rglob("*.tar.gz*"))
    the_next_run_works(freeze)


def test_two_freezes_of_one_host_at_the_same_time(
    lab: Lab, node: Node, freeze: Freeze, tmp_path: Path
) -> None:
    """Each has its own run and its own staging directory."""
    reproduction = tmp_path / "repro"
    with in_the_middle(lab, node, reproduction) as controller:
        assert freeze("-l", "n1", *variables(freeze_smi_deadline=1)).code == 0
        assert controller.process.wait(60) == 0, controller.output
    for name in ("run-001", "run-002"):
        record = Record(reproduction / name / "hosts" / "n1.tar.gz")
        assert record.manifest["run"] == name
        assert json.loads((reproduction / name / "run.json").read_text())["state"] == "complete"
    assert left_on(node) == []
