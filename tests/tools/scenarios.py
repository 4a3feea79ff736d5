# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every molecule scenario, one after another; arguments are the names of the only ones to run."""

from __future__ import annotations

import re
import sys

import _docker
from _step import ROOT, Step, environment

GLOB = "molecule/*/molecule.yml"


def scenarios() -> list[str]:
    """The names of all scenarios."""
    return sorted(path.parent.name for path in ROOT.glob(GLOB))


def main(names: list[str]) -> None:
    """Run them; a scenario is one check, and so is each test of its verifier that was skipped."""
    step = Step("molecule")
    names = names or scenarios()
    if not _docker.answers():
        step.skip(f"{len(names)} scenarios", _docker.ABSENT, checks=len(names))
        step.end()
    env = environment(MOLECULE_GLOB=GLOB, ANSIBLE_FORCE_COLOR="0", NO_COLOR="1")
    for name in names:
        output = step.run(name, ["molecule", "test", "-s", name], env=env)
        for count, why in re.findall(r"^SKIPPED \[(\d+)\] (.*)$", output, re.MULTILINE):
            step.skip(name, why, checks=int(count))
    step.end()


if __name__ == "__main__":
    main(sys.argv[1:])
