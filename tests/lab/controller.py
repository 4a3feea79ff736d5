# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A controller that can be killed: a command (ansible-playbook, as a rule) in a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from .machine import wait_for


class Controller:
    """Runs the command from the beginning of the `with` block; whatever is left of it dies at the end."""

    def __init__(self, command: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
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
        """SIGKILL to everything that the command started: no cleanup of its own runs."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
