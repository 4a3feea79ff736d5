# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity: every test that this ansible-core has, each counted by its name."""

from __future__ import annotations

import re
import subprocess

import _ansible_test
from _step import Step

# Kept as they were recorded, with the line ends and the bytes of the programs that wrote them.
RECORDINGS = ("tests/fixtures/", "tests/lab/engine/recordings/")
FEWEST = 20  # ansible-core 2.19 and 2.21 have 24; far fewer mean that it saw no files


def outcomes(text: str) -> tuple[set[str], set[str], set[str]]:
    """The names of the tests that ran to an end, failed and were skipped, from what ansible-test printed."""
    started = set(re.findall(r'^Running sanity test "([\w-]+)"', text, re.MULTILINE))
    ending = re.search(r"^FATAL: The \d+ sanity test\(s\).*\n((?:[\w-]+.*\n)*)", text, re.MULTILINE)
    failed = {line.split()[0] for line in ending.group(1).splitlines()} & started if ending else set()
    skipped = set(re.findall(r'^WARNING: Skipping sanity test "([\w-]+)"', text, re.MULTILINE))
    return started - failed - skipped, failed, skipped


def main() -> None:
    """Run all of it once and count its tests."""
    step = Step("sanity")
    _ansible_test.prepare(left_out=RECORDINGS)
    result = subprocess.run(
        _ansible_test.command("sanity", "--local", "--python", _ansible_test.PYTHON),
        cwd=_ansible_test.TREE,
        env=_ansible_test.home_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    step.keep("ansible-test", result.stdout)
    passed, failed, skipped = outcomes(result.stdout)
    for name in sorted(passed):
        step.count(name, passed=True)
    for name in sorted(skipped):
        step.skip(name, "ansible-test skips it here; its warning is in .cache/logs/sanity-ansible-test.log")
    for name in sorted(failed):
        step.count(name, passed=False, output=_part(result.stdout, name))
    if len(passed | failed) < FEWEST:
        step.count(f"expected {FEWEST} tests or more", passed=False, output=result.stdout)
    elif result.returncode and not failed:
        step.count(f"ansible-test's exit status is {result.returncode}", passed=False, output=result.stdout)
    step.end()


def _part(text: str, name: str) -> str:
    part = text.partition(f'Running sanity test "{name}"')[2].partition("\nRunning sanity test")[0]
    return "\n".join(line for line in part.splitlines() if line.startswith(("ERROR", "FATAL", "WARNING")))


if __name__ == "__main__":
    main()
