# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit tests of host code under the oldest Python that a host may have."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import _ansible_test
from _step import Step

OLDEST = "3.9"
CODE = ("module_utils", "modules")


def find_python() -> Path | None:
    """A Python of that version that really starts: on PATH, or one that pyenv has built."""
    built = Path.home().glob(f".pyenv/versions/{OLDEST}.*/bin/python{OLDEST}")
    for name in filter(None, [shutil.which(f"python{OLDEST}"), *built]):
        try:
            subprocess.run([str(name), "-c", "import venv, ensurepip"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return Path(name)
    return None


def main() -> None:
    """Run ansible-test units in a virtual environment of that Python."""
    step = Step("host-python")
    python = find_python()
    if python is None:
        step.skip(
            f"unit tests under Python {OLDEST}", f"no python{OLDEST} on PATH; lint has checked the code"
        )
        step.end()
    _ansible_test.prepare()
    folders = [f"tests/unit/plugins/{code}/" for code in CODE]
    targets = [folder for folder in folders if (_ansible_test.TREE / folder).is_dir()]
    text = step.run(
        f"ansible-test units under Python {OLDEST}",
        _ansible_test.command("units", "--venv", "--python", OLDEST, "--requirements", *targets),
        cwd=_ansible_test.TREE,
        env=_ansible_test.home_environment(path_first=python.parent),
    )
    _count_tests(step, text)
    step.end()


def _count_tests(step: Step, text: str) -> None:
    endings = re.findall(r"^=+ (.*\b(?:passed|failed|error|skipped)\b.*) in [\d.]+s.*=+$", text, re.MULTILINE)
    counts = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", " ".join(endings)):
        counts[word] += int(number)
    if not counts["passed"]:
        step.count("expected tests that pass", passed=False, output=text)
    if not step.failed:
        step.passed = counts["passed"]
    step.failed = max(step.failed, counts["failed"] + counts["error"])
    step.skipped = counts["skipped"]


if __name__ == "__main__":
    main()
