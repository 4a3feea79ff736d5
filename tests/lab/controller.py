# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A controller that can be killed: a command (ansible-playbook, as a rule) in a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from .machine import wait_for

# Stands in the environment of everything that the command starts.
MARK = "GPUFLEET_LAB_CONTROLLER"


class Controller:
    """Runs the command from the beginning of the `with` block; whatever is left of it dies at the end."""

    def __init__(self, command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._mark = f"{MARK}={uuid.uuid4()}"
        name, _equals, value = self._mark.partition("=")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {}), name: value}
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.kill()
        self._output.close()

    @property
    def output(self) -> str:
        """Everything printed so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def wait_for(self, text: str, *, seconds: float = 60) -> None:
        """Until the text was printed."""
        wait_for(lambda: text in self.output, f"{text!r} from {self.process.args!r}", seconds=seconds)

    def signal(self, number: int = signal.SIGINT) -> None:
        """A signal to the whole session, as Ctrl-C on a terminal sends it."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """SIGKILL to everything that the command started: no cleanup of its own runs.

        ansible-core puts each of its workers into a session of its own, so they are known by a mark.
        """
        while marked := [pid for pid in _processes() if self._carries_the_mark(pid)]:
            for pid in marked:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
        self.process.wait()

    def _carries_the_mark(self, pid: int) -> bool:
        try:
            return self._mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False  # it has just ended


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
