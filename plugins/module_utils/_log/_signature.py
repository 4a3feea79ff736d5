# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape of one row in the table of failure signatures; private to the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

# What a text says about a failure.
ROOT = "root"  # names the cause
LIKELY = "likely"  # usually the cause, unless something failed earlier
SYMPTOM = "symptom"  # the cause when nothing better is found near it
CONSEQUENCE = "consequence"  # something else failed
NOISE = "noise"  # harmless

# Kinds of blocks that a row is looked for in.
FAILING = ("traceback", "error", "raw", "launcher", "nccl", "c10d")
RAISED = ("traceback",)
WARNED = FAILING + ("warning",)
KERNEL = ("kernel",)
LAUNCHED = ("launcher", "raw", "error", "traceback")

SERVICE, REQUEST = "service", "request"


@dataclass(frozen=True)
class Signature:
    """One row: a text, and what a failure is called when the text is found."""

    failure_class: str
    literals: Tuple[str, ...]  # one of these, exactly as written
    role: str
    stage: str = ""  # empty: the stage the process was in
    substage: str = ""
    also: Tuple[str, ...] = ()  # and all of these, in the same exception or block
    frames: Tuple[str, ...] = ()  # and one of these functions or files in the traceback
    where: Tuple[str, ...] = FAILING
    scope: str = SERVICE
    since: str = ""  # first vLLM version known to print it; empty for other projects' texts
    advice: str = ""
    source: str = ""
    name: str = ""  # tells rows of one class apart

    @property
    def key(self) -> str:
        """A name that no other row has."""
        return self.failure_class + (":" + self.name if self.name else "")


def vllm(number: int, kind: str = "issues") -> str:
    """Address of an issue or pull request of vLLM."""
    return "https://github.com/vllm-project/vllm/{0}/{1}".format(kind, number)


def github(repository: str, number: int, kind: str = "issues") -> str:
    """Address of an issue or pull request elsewhere."""
    return "https://github.com/{0}/{1}/{2}".format(repository, kind, number)


VLLM_SOURCE = "https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/"
NCCL_SOURCE = "https://github.com/NVIDIA/nccl/blob/master/src/"
TORCH_SOURCE = "https://github.com/pytorch/pytorch"
DOCKER_SOURCE = "https://docs.docker.com/engine/containers/run/#exit-status"
