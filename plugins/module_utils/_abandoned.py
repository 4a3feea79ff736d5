# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clean up when nobody waits for a module any more (private to the collection).

A connection with a terminal, which is what Ansible opens over ssh unless it pipelines, sends SIGHUP to the module
when it ends (https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap11.html, 11.1.10). The controller can
remove nothing then, so the module does. What the module's probes had started ends with it, see _guardian.
"""

from __future__ import annotations

import os
import shutil
import signal
from types import FrameType
from typing import List, Optional, Sequence

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def remove_when_ended(directories: Sequence[str]) -> None:
    """From now on a signal that ends this process removes the directories first.

    The handler raises nothing: an exception would be lost where Python ignores those of callbacks, as round a fork.
    """
    owner = os.getpid()

    def end(number: int, _frame: Optional[FrameType]) -> None:
        if os.getpid() == owner:  # a child that has not yet set its own handlers owns none of them
            for directory in directories:
                shutil.rmtree(directory, ignore_errors=True)
        os._exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, end)


def own_directories(module_file: str, remote_tmp: Optional[str]) -> List[str]:
    """Where Ansible put a running module: the unpacked one (by a file of it), and the one that was sent."""
    unpacked, found, _inside = module_file.partition(".zip/")
    directories = [os.path.dirname(unpacked)] if found else []
    return directories + [remote_tmp] if remote_tmp else directories
