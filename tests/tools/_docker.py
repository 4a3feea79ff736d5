# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Docker Engine of this machine: used when it runs, started for the time of the tests when we may."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from _step import LOGS

ABSENT = "no Docker Engine answers `docker info`"
WAIT_SECONDS = 60


def answers() -> bool:
    """Whether an engine answers the client."""
    try:
        return (
            subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


@contextmanager
def engine() -> Iterator[str]:
    """Give what to tell about the engine; stop it at the end only when it was started here."""
    if answers():
        yield "Docker Engine is running and is used as it is"
    elif os.geteuid() != 0:
        yield "Docker Engine does not run and starting it needs root: what needs it is skipped"
    elif shutil.which("dockerd") is None:
        yield "Docker Engine is not installed: what needs it is skipped"
    else:
        with _started() as message:
            yield message


@contextmanager
def _started() -> Iterator[str]:
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / "dockerd.log"
    with log.open("w") as output:
        # A session of its own, so that Ctrl-C reaches the tests but not the engine, which cleaning up needs.
        daemon = subprocess.Popen(
            ["dockerd"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + WAIT_SECONDS
        while not answers() and daemon.poll() is None and time.monotonic() < end:
            time.sleep(0.5)
        if answers():
            yield f"Docker Engine was not running: started for these tests, log in {log}"
        else:
            yield f"Docker Engine does not start, see {log}: what needs it is skipped"
    finally:
        daemon.terminate()
        daemon.wait()
