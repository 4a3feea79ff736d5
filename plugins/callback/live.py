# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: live
type: aggregate
short_description: One live view of all ranks of a start, on a terminal
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - While M(gpufleet.baseline.launch_watch) watches a start, draws one line for each rank again and again, from the
    files that the watch writes into the run. Without this callback the watch shows its lines one below the other.
  - Does nothing where standard error is no terminal, so that it may be enabled everywhere.
  - When the playbook is interrupted during a start, it prints the command that stops what was started.
  - Works beside any callback for standard output.
requirements:
  - enabled with E(ANSIBLE_CALLBACKS_ENABLED=gpufleet.baseline.live) or C(callbacks_enabled) in F(ansible.cfg)
"""

EXAMPLES = r"""
# ANSIBLE_CALLBACKS_ENABLED=gpufleet.baseline.live ansible-playbook PLAYBOOK -i INVENTORY
"""

import atexit
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_lines import clean_command
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_view import LIVE_VARIABLE, View

OPENS_A_RUN = "gpufleet.baseline.run_dir"
WATCHES = "gpufleet.baseline.launch_watch"
REDRAW_SECONDS = 1.0


class CallbackModule(CallbackBase):
    """Draws in a thread of the controller's main process; the workers only write files."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpufleet.baseline.live"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._stream = sys.stderr
        self._on = self._stream.isatty()
        self._run = ""
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """The workers are told to show no lines of their own."""
        if self._on:
            os.environ[LIVE_VARIABLE] = "1"
            atexit.register(self.interrupted)

    def v2_runner_on_ok(self, result: Any) -> None:
        """The run's path is the result of the task that opened it."""
        task = getattr(result, "task", None) or result._task
        content = getattr(result, "result", None) or result._result
        if task.action == OPENS_A_RUN and content.get("path"):
            self._run = str(content["path"])

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Begin with the task that watches, end with the next one."""
        self._stop()
        if self._on and self._run and task.action == WATCHES:
            self._over.clear()
            self._thread = threading.Thread(target=self._draw, args=(Path(self._run),), daemon=True)
            self._thread.start()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The playbook came to its end."""
        self._stop()

    def interrupted(self) -> None:
        """At the end of the process: a watch that is still drawn was interrupted."""
        if self._thread is None:
            return
        self._stop()
        command = clean_command(self._run, context.CLIARGS.get("inventory") or ())
        self._stream.write(
            "\nThe ranks are stopped by their lease within a minute or two. To stop them now, and to see that the"
            f" GPUs are free:\n  {command}\n"
        )

    def _stop(self) -> None:
        if self._thread is not None:
            self._over.set()
            self._thread.join(timeout=2 * REDRAW_SECONDS)
            self._thread = None

    def _draw(self, run: Path) -> None:
        view = View(run)
        while True:
            over = self._over.wait(REDRAW_SECONDS)
            self._stream.write(view.frame(time.time()))
            self._stream.flush()
            if over:
                return
