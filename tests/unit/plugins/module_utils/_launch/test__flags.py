# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags of vllm serve: word for word, and by meaning."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import (
    OFF,
    ON,
    canonical,
    flag_of,
    parse,
    shown,
)
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sampled_from(
    [
        "--max-model-len",
        "--kv-cache-dtype",
        "-tp",
        "--served-model-name",
        "--attention-config",
        "--max_num_seqs",
    ]
)
SWITCHES = st.sampled_from(["--enable-prefix-caching", "--no-enable-prefix-caching", "--headless", "-ep"])
VALUES = st.text(min_size=1, max_size=12).filter(lambda text: not text.startswith("-")) | st.just("-1")
FLAGS = st.one_of(
    st.tuples(NAMES, VALUES).map(list),
    st.tuples(NAMES, VALUES).map(lambda pair: ["=".join(pair)]),
    SWITCHES.map(lambda name: [name]),
    st.sampled_from([["-O3"], ["--compilation-config.mode", "3"], ["--served-model-name", "a", "b"]]),
)
ARGV = st.lists(FLAGS, max_size=8).map(
    lambda flags: ["vllm", "serve", "model", *(w for flag in flags for w in flag)]
)


@given(ARGV)
def test_words_come_back_as_they_were(argv: list[str]) -> None:
    assert list(parse(argv).words()) == argv


@given(ARGV)
def test_a_command_made_of_its_meaning_means_the_same(argv: list[str]) -> None:
    meaning = parse(argv).meaning()
    again = [
        "vllm",
        "serve",
        *(word for name, value in meaning.items() for word in flag_of(name, value).words),
    ]
    assert parse(again).meaning() == meaning


@given(ARGV, st.sampled_from(["--max-model-len", "--new-flag", "--enable-prefix-caching", "model"]))
def test_what_is_set_holds_and_nothing_else_changes(argv: list[str], name: str) -> None:
    value = ON if name == "--enable-prefix-caching" else "7"
    before = parse(argv)
    assert before.with_value(name, value).meaning() == {**before.meaning(), name: value}
    without = before.meaning()
    without.pop(name, None)
    assert before.without(name).meaning() == without


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        (["--max-model-len", "8192"], {"--max-model-len": "8192"}),
        (["--max_model_len=8192"], {"--max-model-len": "8192"}),
        (["-tp", "8", "-ep"], {"--tensor-parallel-size": "8", "--enable-expert-parallel": ON}),
        (["--enable-prefix-caching"], {"--enable-prefix-caching": ON}),
        (["--no-enable-prefix-caching"], {"--enable-prefix-caching": OFF}),
        (["--no-disable-hybrid-kv-cache-manager"], {"--disable-hybrid-kv-cache-manager": OFF}),
        (["--enable-prefix-caching", "--no-enable-prefix-caching"], {"--enable-prefix-caching": OFF}),
        (["--seed", "1", "--seed", "2"], {"--seed": "2"}),
        (["-O3"], {"--optimization-level": "3"}),
        (["-cc", '{"b": 1, "a": [2]}'], {"--compilation-config": '{"a":[2],"b":1}'}),
        (
            ["--compilation-config.mode", "3", "--compilation-config.pass_config.fuse_allreduce_rms=false"],
            {"--compilation-config": '{"mode":3,"pass_config":{"fuse_allreduce_rms":false}}'},
        ),
        (["--cc.sizes+=1,2"], {"--compilation-config": '{"sizes":["1","2"]}'}),
        (
            ["--served-model-name", "a", "b c", "--port", "1"],
            {"--served-model-name": "a 'b c'", "--port": "1"},
        ),
        (["--additional-config", "{not json"], {"--additional-config": "{not json"}),
    ],
)
def test_meaning(words: list[str], meaning: dict[str, str]) -> None:
    command = parse(["vllm", "serve", "m", *words])
    assert command.meaning() == {"model": "m", **meaning}


def test_a_model_behind_flags_is_the_model() -> None:
    argv = ["vllm", "serve", "--trust-remote-code", "--max-model-len", "8", "m"]
    assert parse(argv).meaning()["model"] == "m"


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (["/venv/bin/vllm", "serve", "m"], 2),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], 3),
        (["numactl", "-N", "0", "vllm", "serve", "m"], 5),
        (["python3", "-m", "vllm", "serve", "m"], 4),
    ],
)
def test_program(argv: list[str], program: int) -> None:
    assert len(parse(argv).program) == program


@pytest.mark.parametrize("argv", [[], ["bash", "-c", "vllm serve m"], ["sglang", "serve"], ["vllm"]])
def test_what_is_no_command_of_vllm_is_told(argv: list[str]) -> None:
    with pytest.raises(BaselineError, match="expected a command of vLLM"):
        parse(argv)


def test_a_changed_flag_stays_in_its_place() -> None:
    command = (
        parse(["vllm", "serve", "m", "--a-b", "1", "--c", "2"]).with_value("--a-b", "9").with_value("--z", ON)
    )
    assert command.words() == ("vllm", "serve", "m", "--a-b", "9", "--c", "2", "--z")


def test_shown_as_in_a_command() -> None:
    assert shown("--enable-prefix-caching", OFF) == "--no-enable-prefix-caching"
    assert shown("--attention-config", '{"a":1}') == "--attention-config '{\"a\":1}'"


def test_canonical() -> None:
    assert canonical('{"b":1, "a":{"d":1,"c":2}}') == '{"a":{"c":2,"d":1},"b":1}'
    assert canonical("auto") == "auto"
