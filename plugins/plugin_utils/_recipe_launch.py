# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the JSON that the recipe site publishes to a launch: image, hosts, and per rank argv and
environment.

Pure; private to the collection, controller only. The launch is what the site published, word for word: its
synthesis of commands is not done again here. Names that the site leaves open ($HEAD_IP, ~) stay as they are
and are listed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import Document

HEAD, WORKER, PREFILL, DECODE = "head", "worker", "prefill", "decode"
# How many hosts of one launch are believed; a rack has 18 trays.
MOST_HOSTS = 1024

_OPEN = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


@dataclass(frozen=True)
class Rank:
    """What one host runs: its part, its argv and its environment."""

    role: str
    argv: tuple[str, ...]
    env: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return {"role": self.role, "argv": list(self.argv), "env": dict(self.env)}


@dataclass(frozen=True)
class Launch:
    """The official launch for one hardware, strategy and variant."""

    hardware: str
    strategy: str
    variant: str
    image: str
    node_count: int
    ranks: tuple[Rank, ...]
    # Pools of a disaggregated launch, by part: hosts (0: it shares one with the other pool) and GPUs.
    # Of each pool only the first rank is published.
    pools: dict[str, dict[str, int]] = field(default_factory=dict)
    # What runs beside the engines, as published: router, store, master.
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def hosts(self) -> int:
        """How many hosts the whole launch takes."""
        return max(1, sum(pool["hosts"] for pool in self.pools.values())) if self.pools else self.node_count

    @property
    def gpus(self) -> int:
        """How many GPUs the whole launch takes: tensor x pipeline x data parallel, or what the pools say."""
        if self.pools:
            return sum(pool["gpus"] for pool in self.pools.values())
        sizes = [
            _flag(self.ranks[0].argv, f"--{kind}-parallel-size") for kind in ("tensor", "pipeline", "data")
        ]
        return math.prod(sizes)

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return {
            "hardware": self.hardware,
            "strategy": self.strategy,
            "variant": self.variant,
            "image": self.image,
            "node_count": self.node_count,
            "ranks": [rank.as_dict() for rank in self.ranks],
            "gpus": self.gpus,
            "pools": self.pools,
            "beside": self.beside,
            "placeholders": placeholders(self),
        }


def placeholders(launch: Launch) -> list[str]:
    """Names that whoever starts the launch has to fill in per host."""
    texts = [text for rank in launch.ranks for text in (*rank.argv, *rank.env.values())]
    return sorted({name for text in texts for name in _OPEN.findall(text)})


def _flag(argv: tuple[str, ...], name: str) -> int:
    """A number given to a flag; 1 when the flag is not there, as vLLM has it."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        value = (
            following
            if word == name
            else word.removeprefix(name + "=")
            if word.startswith(name + "=")
            else ""
        )
        if value.isdigit():
            return int(value)
    return 1


def published(document: Document) -> Document | None:
    """The part of a published JSON file that holds a launch; None when it has none."""
    root = document.root.get("recommended_command", document.root)
    if isinstance(root, dict) and {"deploy_type", "node_count", "strategy"} <= set(root):
        return Document(document.location, root)
    return None


def launch_of(document: Document) -> Launch:
    """The launch of one published file."""
    env = _env(document, "env")
    ranks, pools = _ranks(document, env)
    count = _count(document, "node_count")
    if not 1 <= count <= MOST_HOSTS:
        document.wrong("a number of hosts", count, "node_count")
    workers = [rank for rank in ranks if rank.role in (HEAD, WORKER)]
    if not pools and len(workers) != count:
        document.wrong(f"one argv for each of {len(workers)} hosts", count, "node_count")
    return Launch(
        document.need_text("hardware"),
        document.need_text("strategy"),
        document.need_text("variant"),
        document.need_text("docker_image"),
        count,
        tuple(ranks),
        pools,
        {
            name: document.mapping(name)
            for name in ("router", "store", "master")
            if document.get(name) is not None
        },
    )


def _ranks(document: Document, env: dict[str, str]) -> tuple[list[Rank], dict[str, dict[str, int]]]:
    if document.get(PREFILL) is not None:
        ranks, pools = [], {}
        for role in (PREFILL, DECODE):
            ranks.append(Rank(role, _argv(document, role, "argv"), {**env, **_env(document, role, "env")}))
            pools[role] = {
                "hosts": _count(document, role, "nodes"),
                "gpus": _count(document, role, "poolGpus"),
            }
        return ranks, pools
    if document.get("argv") is not None:
        return [Rank(HEAD, _argv(document, "argv"), env)], {}
    prefix = "vllm_" if document.get("vllm_argv") is not None else ""
    head = _argv(document, f"{prefix}argv" if prefix else "head_argv")
    workers = document.get(f"{prefix}worker_argvs") or []
    if not isinstance(workers, list):
        document.wrong("a list of argvs", workers, f"{prefix}worker_argvs")
    found = [Rank(HEAD, head, env)]
    for number, worker in enumerate(workers):
        part = Document(document.location, {f"{prefix}worker_argvs[{number}]": worker})
        found.append(Rank(WORKER, _argv(part, f"{prefix}worker_argvs[{number}]"), env))
    return found, {}


def _count(document: Document, *path: str) -> int:
    count = document.number(*path)
    if count is None or count != int(count) or count > MOST_HOSTS * 8:
        document.wrong("a number", document.get(*path), *path)
    return int(count)


def _argv(document: Document, *path: str) -> tuple[str, ...]:
    argv = document.texts(*path)
    if not argv:
        document.wrong("the words of a command", document.get(*path), *path)
    return tuple(argv)


def _env(document: Document, *path: str) -> dict[str, str]:
    """An environment: the site publishes some values as numbers, a process gets texts."""
    return {name: document.text(*path, name) for name in document.mapping(*path)}
