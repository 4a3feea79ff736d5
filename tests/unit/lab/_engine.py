# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in engine as a process of this machine, for the tests here."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.lab.engine import stand_in

PROGRAM = Path(stand_in.__file__).resolve()
RECORDINGS = {path.stem: path for path in sorted((PROGRAM.parent / "recordings").glob("*.log"))}
# Seconds; a busy machine is not a wrong answer.
PATIENCE = 120
CHAT = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 8}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Engine:
    """One `vllm serve` of the stand-in, its output in a file."""

    def __init__(self, folder: Path, *flags: str, model: str = "my/model", **settings: str) -> None:
        self.port = free_port()
        self.output = folder / f"{self.port}.log"
        env = {**os.environ, "LAB_TIME_FACTOR": "0", **settings}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), "serve", model, "--port", str(self.port), *flags],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
            )

    def log(self) -> bytes:
        return self.output.read_bytes()

    def until(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if what():
                return
            time.sleep(0.05)
        pytest.fail(f"waited {PATIENCE} s for the stand-in; its last lines: {self.log()[-600:]!r}")

    def ready(self) -> Engine:
        self.until(lambda: self.process.poll() is not None or self.ask("/health")[0] == 200)
        return self

    def ask(self, path: str, body: Any = None, timeout: float = PATIENCE) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read().decode()
                status = answer.status
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError:
            return 0, None
        return status, json.loads(text) if text[:1] == "{" else text

    def metric(self, line: str) -> float:
        found = re.search(rf"^vllm:{line} (\S+)$", self.ask("/metrics")[1], re.M)
        assert found, f"no metric vllm:{line}"
        return float(found.group(1))

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
