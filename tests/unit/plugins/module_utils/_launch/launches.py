# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch to change."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    ContainerOptions,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Image,
    Launch,
    LeftOut,
    RankLaunch,
    Secret,
    Topology,
)

IMAGE = Image("vllm/vllm-openai:kimi-k3", "sha256:" + "a" * 64)


def make_rank(number: int = 0, **changes: object) -> RankLaunch:
    """One of two trays, the first of which serves the API."""
    argv = ["vllm", "serve", "moonshotai/Kimi-K3", "--tensor-parallel-size", "8", "--node-rank", str(number)]
    made = RankLaunch(
        f"tray{number}",
        number,
        "worker" if number else "head",
        (*argv, *(["--headless"] if number else [])),
        {"VLLM_HOST_IP": f"10.0.0.{number}", "HF_TOKEN": Secret("hub")},
        None if number else 8000,
        bool(number),
        ContainerOptions(
            f"gpufleet-run-001-{number}",
            shm_size=1024,
            mounts=(Mount("/models", "/models", True),),
            ulimits={"memlock": -1},
        ),
    )
    return replace(made, **changes)


def make_launch(**changes: object) -> Launch:
    """Two trays, one rank each."""
    made = Launch(
        "minimal",
        "docker",
        "gb300",
        "multi_node_tp",
        "default",
        "moonshotai/Kimi-K3",
        Topology(2, 8, 8),
        IMAGE,
        (make_rank(0), make_rank(1)),
        left_out=(LeftOut("--enable-prefix-caching", "", "not needed for a start"),),
        notes=("a note",),
        source={"commit": "8959cf6"},
    )
    return replace(made, **changes)
