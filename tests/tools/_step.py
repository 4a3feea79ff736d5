# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step of the test run: checks that are run, shown in one line each, and counted.

The last line of every step is ``NAME: N passed, N failed, N skipped``; run_all.py adds these lines up.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
LOGS = CACHE / "logs"
BIN = Path(sys.executable).parent
SHOWN_LINES = 200


def seconds(since: float) -> str:
    """How long it took since then, as people write it."""
    minutes, rest = divmod(time.monotonic() - since, 60)
    return f"{minutes:.0f} min {rest:.0f} s" if minutes else f"{rest:.1f} s"


def environment(**changes: str) -> dict[str, str]:
    """Our environment, with the programs of the virtual environment first on PATH."""
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C.UTF-8", **changes}


class Step:
    """Counts the checks of one step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.passed = self.failed = self.skipped = 0

    def run(self, title: str, command: list[str], cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
        """Run a command as one check and return what it said: all in a log, its end shown when it failed."""
        started = time.monotonic()
        result = subprocess.run(
            command,
            cwd=cwd,
            env=env or environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        self.keep(title, result.stdout)
        self.count(title, passed=result.returncode == 0, output=result.stdout, took=seconds(started))
        return result.stdout

    def keep(self, title: str, text: str) -> None:
        """Keep the output of a check below .cache/logs."""
        LOGS.mkdir(parents=True, exist_ok=True)
        (LOGS / f"{self.name}-{title.replace(' ', '-').replace('/', '-')}.log").write_text(text)

    def count(self, title: str, *, passed: bool, output: str = "", took: str = "") -> None:
        """Count one check and show its line, below the end of its output when it failed."""
        if passed:
            self.passed += 1
        else:
            self.failed += 1
            print("\n".join(output.splitlines()[-SHOWN_LINES:]))
        print(f"  {'ok' if passed else 'FAILED':8}{title:<60}{took:>12}".rstrip(), flush=True)

    def skip(self, title: str, reason: str, checks: int = 1) -> None:
        """Count checks that can't be run here, and say why in one line."""
        self.skipped += checks
        print(f"  {'skipped':8}{title}: {reason}", flush=True)

    def end(self) -> NoReturn:
        """Show the counts; the exit status is 0 when nothing failed and something passed or was skipped."""
        print(f"{self.name}: {self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        sys.exit(1 if self.failed or not self.passed + self.skipped else 0)
