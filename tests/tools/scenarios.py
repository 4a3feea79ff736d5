# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every molecule scenario, one after another; arguments are the names of the only ones to run."""

from __future__ import annotations

import re
import subprocess
import sys

from _step import ROOT, Step, environment

GLOB = "molecule/*/molecule.yml"


def scenarios() -> list[str]:
    """The names of all scenarios."""
    return sorted(path.parent.name for path in ROOT.glob(GLOB))


def no_docker() -> str:
    """Why there is no Docker to use; empty when there is."""
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"docker info: {error}"
    return "" if asked.returncode == 0 else (asked.stderr.strip().splitlines() or ["docker info fails"])[-1]


def main(names: list[str]) -> None:
    """Run them; a scenario is one check, and so is each test of its verifier that was skipped."""
    step = Step("molecule")
    names = names or scenarios()
    reason = no_docker()
    if reason:
        step.skip(f"{len(names)} scenarios", f"they need Docker ({reason})", checks=len(names))
        step.end()
    env = environment(MOLECULE_GLOB=GLOB, ANSIBLE_FORCE_COLOR="0", NO_COLOR="1")
    for name in names:
        output = step.run(name, ["molecule", "test", "-s", name], env=env)
        for count, why in re.findall(r"^SKIPPED \[(\d+)\] (.*)$", output, re.MULTILINE):
            step.skip(name, why, checks=int(count))
    step.end()


if __name__ == "__main__":
    main(sys.argv[1:])
