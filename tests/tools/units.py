# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit tests, run in the checkout; arguments go to pytest."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

from _step import CACHE, ROOT, Step, environment

REPORT = CACHE / "units.xml"


def main() -> None:
    """Run pytest with its output shown as it comes, and count from its own report."""
    step = Step("units")
    REPORT.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={REPORT}", *sys.argv[1:]]
    ran = subprocess.run(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, check=False)
    if REPORT.exists():
        suite = ElementTree.parse(REPORT).getroot().find("testsuite")
        step.failed = int(suite.get("failures")) + int(suite.get("errors"))
        step.skipped = int(suite.get("skipped"))
        step.passed = int(suite.get("tests")) - step.failed - step.skipped
    if ran.returncode and not step.failed:
        step.count(f"pytest's exit status is {ran.returncode}", passed=False)
    step.end()


if __name__ == "__main__":
    main()
