# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The spread of a launch as data, and the ranks of a process."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import find_engine, flat_options
from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import (
    environment_of,
    parallel_facts,
    ranks_of_title,
)


def of(*argv: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    command = find_engine(["vllm", "serve", "M", *argv])
    assert command is not None
    return parallel_facts(command, environment or {})


def test_every_size_has_its_source() -> None:
    options = of("--tensor-parallel-size", "8", "--nnodes=2", "--node-rank", "1", "--headless")["options"]
    assert options["tensor_parallel_size"] == {"value": 8, "source": "argv --tensor-parallel-size"}
    assert options["nnodes"] == {"value": 2, "source": "argv --nnodes"}
    assert options["node_rank"] == {"value": 1, "source": "argv --node-rank"}
    assert options["headless"] == {"value": True, "source": "argv --headless"}
    assert options["pipeline_parallel_size"] == {"value": 1, "source": "default"}


@pytest.mark.parametrize(
    ("argv", "launch", "host"),
    [
        ((), 1, 1),
        (("-tp", "8", "--nnodes", "2"), 8, 4),
        (("-tp", "4", "-pp", "4", "--nnodes", "4"), 16, 4),
        (("-dp", "16", "-dpl", "4", "-ep"), 16, 4),
        (("-tp", "4", "-dp", "2"), 8, 8),
        (("-tp", "2", "-dcp", "2"), 2, 2),
        (("-tp", "2", "-pcp", "2"), 4, 4),
        (("-tp", "5", "--nnodes", "2"), 5, None),
        (
            (
                "-tp",
                "$TP",
            ),
            None,
            None,
        ),
    ],
)
def test_number_of_gpus(argv: tuple[str, ...], launch: int | None, host: int | None) -> None:
    size = of(*argv)["world_size"]
    assert (size["launch"], size["host"]) == (launch, host)
    assert bool(size["why"]) == (host is None)


def test_a_negative_option_is_not_a_default() -> None:
    assert of("--no-enable-expert-parallel")["options"]["enable_expert_parallel"] == {
        "value": False,
        "source": "argv --no-enable-expert-parallel",
    }


def test_a_placeholder_nobody_resolved_is_kept() -> None:
    assert of("--node-rank", "$NODE_RANK")["options"]["node_rank"]["value"] == "$NODE_RANK"


def test_a_config_file_is_named_as_not_read() -> None:
    assert "/etc/k3.yaml" in of("--config", "/etc/k3.yaml")["note"]


def test_variables_of_transport_and_scheduler_are_kept_and_no_others() -> None:
    environment = {"NCCL_DEBUG": "INFO", "SLURM_JOB_ID": "7", "HOME": "/root", "CUDA_VISIBLE_DEVICES": "0"}
    assert sorted(of(environment=environment)["variables"]) == [
        "CUDA_VISIBLE_DEVICES",
        "NCCL_DEBUG",
        "SLURM_JOB_ID",
    ]


@pytest.mark.parametrize(
    ("title", "ranks"),
    [
        ("Worker_TP0", {"tp": 0}),
        ("Worker_DP1_PP2_TP3_DCP1_EP11", {"dp": 1, "pp": 2, "tp": 3, "dcp": 1, "ep": 11}),
        ("EngineCore_DP3", {"dp": 3}),
        ("APIServer_0", {}),
        ("", {}),
    ],
)
def test_ranks_of_a_title(title: str, ranks: dict[str, int]) -> None:
    assert ranks_of_title(title) == ranks


def test_environment_items() -> None:
    assert environment_of(["A=1", "B=x=y", "A=2", "C=", "D=1", "D", "E"]) == {"A": "2", "B": "x=y", "C": ""}
    assert environment_of(None) == {}


def test_a_config_file_counts_where_the_command_line_says_nothing() -> None:
    command = find_engine(["vllm", "serve", "M", "--config", "/c.yaml", "-tp", "4"])
    assert command is not None
    text = "tensor-parallel-size: 8\npipeline_parallel_size: 2 # two\nenable-expert-parallel: true\n x: 1"
    found = parallel_facts(command, {}, flat_options(text))
    assert found["options"]["tensor_parallel_size"] == {"value": 4, "source": "argv --tensor-parallel-size"}
    assert found["options"]["pipeline_parallel_size"] == {"value": 2, "source": "file of --config"}
    assert found["options"]["enable_expert_parallel"]["value"] is True
    assert found["world_size"]["launch"] == 8
    assert found["note"] == ""


def test_values_of_a_config_file() -> None:
    text = (
        "model: 'a b'\nport: 12\nheadless:\nkey without colon\n# comment: 1\nurl: http://x#y\nempty: \"\"\n"
    )
    assert flat_options(text) == {
        "model": "a b",
        "port": "12",
        "headless": None,
        "url": "http://x#y",
        "empty": None,
    }
