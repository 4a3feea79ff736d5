# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM's command line is found and read in all its forms."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import (
    find_engine,
    looks_like_engine,
    process_title,
)
from hypothesis import given
from hypothesis import strategies as st

FORMS = {
    "serve": ["vllm", "serve", "M", "-tp", "8"],
    "program by path, run by its interpreter": [
        "/opt/venv/bin/python3",
        "/opt/venv/bin/vllm",
        "serve",
        "M",
        "-tp=8",
    ],
    "module of the server": [
        "python3",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "M",
        "-tp",
        "8",
    ],
    "module of the program": ["python3", "-u", "-m", "vllm.entrypoints.cli.main", "serve", "M", "-tp", "8"],
    "file of the server": ["python3", "/src/vllm/entrypoints/openai/api_server.py", "--model=M", "-tp", "8"],
    "behind a shell": ["/bin/bash", "-lc", "cd /x && exec vllm serve M --tensor_parallel_size 8"],
    "behind a shell, over lines": ["sh", "-c", "set -e\nexport A=1\nvllm serve M \\\n  -tp 8\n"],
    "behind numactl": ["numactl", "--cpunodebind=0", "vllm", "serve", "M", "--tensor-parallel-size=8"],
    "a switch before the model": ["vllm", "serve", "--headless", "M", "-tp", "8"],
    "a negative before the model": ["vllm", "serve", "--no-enable-prefix-caching", "M", "-tp", "8"],
}


@pytest.mark.parametrize("form", FORMS)
def test_engine_is_found_in(form: str) -> None:
    command = find_engine(FORMS[form])
    assert command is not None
    assert command.model == "M"
    assert command.options["tensor-parallel-size"] == "8"
    assert looks_like_engine(FORMS[form])


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["sleep", "infinity"],
        ["vllm", "bench", "serve", "--model", "M"],
        ["python3", "-m", "vllm.collect_env"],
        ["grep", "vllm serve"],
        ["vim", "vllm-serve.sh"],
        ["docker", "run", "vllm/vllm-openai:latest", "--model", "M"],
        ["bash", "-c", "echo 'unbalanced vllm serve"],
    ],
)
def test_other_commands_are_not_taken_for_the_engine(argv: list[str]) -> None:
    assert find_engine(argv) is None
    assert not looks_like_engine(argv)


def test_option_forms() -> None:
    command = find_engine(
        ["vllm", "serve", "M", "--max_model_len", "1024", "--speculative-config.model", "D", "-dcp", "2"]
    )
    assert command is not None
    assert command.options == {
        "max-model-len": "1024",
        "speculative-config.model": "D",
        "decode-context-parallel-size": "2",
    }


def test_a_negative_number_is_a_value() -> None:
    command = find_engine(["vllm", "serve", "M", "--seed", "-1", "--headless"])
    assert command is not None
    assert command.options == {"seed": "-1", "headless": None}


@pytest.mark.parametrize(
    ("argv", "title"),
    [
        (["VLLM::Worker_TP0"], "Worker_TP0"),
        (["VLLM::EngineCore          "], "EngineCore"),
        (["K3::Worker_PP1_TP3"], "Worker_PP1_TP3"),
        (["python3", "VLLM::EngineCore"], ""),
        ([], ""),
    ],
)
def test_titles_of_its_processes(argv: list[str], title: str) -> None:
    assert process_title(argv, "K3" if argv and argv[0].startswith("K3") else "VLLM") == title


def test_processes_that_ray_renamed_are_the_engines() -> None:
    assert looks_like_engine(["ray::RayWorkerWrapper.execute_method"])
    assert not looks_like_engine(["ray::IDLE"])


@given(st.lists(st.text(max_size=30), max_size=8))
def test_no_command_line_is_an_error(argv: list[str]) -> None:
    find_engine(argv)
    find_engine(["sh", "-c", "vllm serve " + " ".join(argv)])
    command = find_engine(["vllm", "serve", *argv])
    assert command is not None
    assert command.argv == argv
