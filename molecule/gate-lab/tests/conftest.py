# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the gate on the lab share: the running lab, and one run of the gate with all that came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab import Lab, Node, state

PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
PROJECT = Path(__file__).resolve().parents[3]
GATE = "gpufleet.baseline.gate"


@dataclass
class Judged:
    """One run of a playbook with the gate in it."""

    code: int
    output: str
    reproduction: Path

    @property
    def gate(self) -> Any:
        """The document of the last run that was judged; None when none was."""
        found = sorted(self.reproduction.glob("run-*/gate.json"))
        return json.loads(found[-1].read_text()) if found else None

    def bad(self) -> set[tuple[str, str, str]]:
        """Rule, verdict and host (empty: the group) of all that is not as wanted."""
        found = set()
        for finding in self.gate["findings"]:
            if finding["verdict"] in ("fail", "undecided", "warn"):
                for host in finding["hosts"] or [""]:
                    found.add((finding["rule"], finding["verdict"], host))
        # Nothing keeps the time in the lab.
        return {item for item in found if item[0] != "host.time_service"}


Gate = Callable[..., Judged]


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The two hosts that the scenario started."""
    running = Lab.attach()
    assert [node.name for node in running.nodes] == ["n1", "n2"]
    return running


@pytest.fixture
def nodes(lab: Lab) -> Iterator[list[Node]]:
    """Both hosts, healthy again and without containers before and after the test."""
    _heal(lab)
    yield lab.nodes
    _heal(lab)


def _heal(lab: Lab) -> None:
    for node in lab.nodes:
        node.sh("docker ps -aq | xargs -r docker rm -f")
        if node.run(["cat", "/run/simulated-gpu/state"]).out != state.render(
            state.load("gb300", node.number)
        ):
            node.set_state("gb300")


@pytest.fixture
def gate(lab: Lab, tmp_path: Path) -> Gate:
    """Run a playbook against the lab; ``variables`` are extra variables."""

    def run(*options: str, playbook: str = GATE, inventory: Path | None = None, **variables: Any) -> Judged:
        given = {"gate_reproduction": str(tmp_path / "repro"), "gate_smi_deadline": 5, **variables}
        source = str(inventory or lab.inventory.parent)
        command = [PLAYBOOK, playbook, "-i", source, "-e", json.dumps(given), *options]
        env = {
            **os.environ,
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(PROJECT / ".cache" / "tree"),
        }
        done = subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        return Judged(done.returncode, done.stdout + done.stderr, tmp_path / "repro")

    return run
