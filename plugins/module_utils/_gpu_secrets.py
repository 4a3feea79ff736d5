# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the secrets out of the documents about a host and its GPUs (private to the collection).

They hold few: command lines of the processes on a GPU, of earlier runs of apt, and of the kernel.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor


def redacted(result: Mapping[str, Any], key: bytes) -> Dict[str, Any]:
    """The result with stand-ins in place of secrets."""
    redactor = Redactor(key)
    learn(redactor, result)
    clean: Dict[str, Any] = redactor.redact_value(dict(result))
    return clean


def learn(redactor: Redactor, documents: Mapping[str, Any]) -> None:
    """Teach a redactor every command line in the documents, before anything is redacted."""
    for holder in documents["gpu"]["holders"]["value"] or []:
        redactor.learn_argv(holder["argv"] or [])
    boot = documents["host"]["boot"]["value"] or {}
    redactor.learn_argv((boot.get("command_line") or "").split())
    redactor.learn_value(dict(documents))
