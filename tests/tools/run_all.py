# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that CI runs, in order; the last line counts what passed, failed and was skipped."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import _docker
from _step import ROOT, seconds

# Quick and telling first. Each is a target of the Makefile and ends with its own line of counts.
STEPS = {
    "lint": "linters, types and the changelog",
    "units": "unit tests",
    "host-python": "unit tests of host code under the oldest Python of a host",
    "sanity": "ansible-test sanity",
    "artifact": "the collection built, installed and documented",
    "docker": "modules against a real Docker Engine",
    "molecule": "scenarios against real containers",
}
COUNTS = re.compile(r"^[\w-]+: (\d+) passed, (\d+) failed, (\d+) skipped$")


def run_step(name: str) -> list[int]:
    """Run one target, show its lines as they come, and return what it counted."""
    counts = [0, 0, 0]
    command = ["make", "--no-print-directory", name]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            sys.stdout.write(line)
            sys.stdout.flush()
            if found := COUNTS.match(line.rstrip()):
                counts = [int(number) for number in found.groups()]
    # A step that broke before it could count is one failure.
    if process.returncode and not counts[1]:
        counts[1] = 1
    return counts


def main() -> int:
    """Run all steps, whatever fails."""
    started = time.monotonic()
    summary, total = [], [0, 0, 0]
    with _docker.engine() as message:
        print(f"test: {message}", flush=True)
        for number, (name, title) in enumerate(STEPS.items(), 1):
            print(f"\ntest: step {number} of {len(STEPS)}: {name}: {title}", flush=True)
            began = time.monotonic()
            counts = run_step(name)
            total = [before + now for before, now in zip(total, counts, strict=True)]
            passed, failed, skipped = counts
            took = seconds(began)
            summary.append(f"  {name:14}{passed:6} passed {failed:4} failed {skipped:4} skipped {took:>15}")
            print(f"test: {name} {'FAILED' if failed else 'done'} after {took}", flush=True)
    print("\n" + "\n".join(summary) + f"\n  took {seconds(started)}")
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
