# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pytest_step.py NAME [--docker] ARGUMENTS...: a step that is one run of pytest in the checkout."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import _docker
from _step import CACHE, ROOT, Step, environment


def main(name: str, *arguments: str) -> None:
    """Run pytest with its output shown as it comes, and count from its own report."""
    step = Step(name)
    if arguments[:1] == ("--docker",):
        arguments = arguments[1:]
        if not _docker.answers():
            step.skip(" ".join(arguments), _docker.ABSENT)
            step.end()
    report = CACHE / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    ran = subprocess.run(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, check=False)
    if report.exists():
        suite = ElementTree.parse(report).getroot().find("testsuite")
        step.failed = int(suite.get("failures")) + int(suite.get("errors"))
        step.skipped = int(suite.get("skipped"))
        step.passed = int(suite.get("tests")) - step.failed - step.skipped
    if ran.returncode and not step.failed:
        step.count(f"pytest's exit status is {ran.returncode}", passed=False)
    step.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
