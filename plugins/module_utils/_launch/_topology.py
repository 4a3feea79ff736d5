# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from the words of a launch: who serves the API, how the model is split (private; pure)."""

from __future__ import annotations

from dataclasses import replace
from typing import Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import Command, parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Launch, RankLaunch

# vLLM's own default.
API_PORT = 8000


def api_port(command: Command) -> Optional[int]:
    """The port on which a rank serves the API; None for a headless one."""
    return None if command.is_on("--headless") else command.number("--port", API_PORT)


def settled(launch: Launch) -> Launch:
    """The launch with all that follows from its words made to agree with them."""
    ranks = tuple(_settled_rank(rank) for rank in launch.ranks)
    command = parse(ranks[0].argv)
    topology = replace(
        launch.topology,
        hosts=len({rank.host for rank in ranks}),
        tensor_parallel=command.number("--tensor-parallel-size", 1),
        pipeline_parallel=command.number("--pipeline-parallel-size", 1),
        data_parallel=command.number("--data-parallel-size", 1),
        expert_parallel=command.is_on("--enable-expert-parallel"),
    )
    return replace(launch, ranks=ranks, topology=topology, model=command.value("model") or launch.model)


def _settled_rank(rank: RankLaunch) -> RankLaunch:
    command = parse(rank.argv)
    return replace(rank, api_port=api_port(command), headless=command.is_on("--headless"))
