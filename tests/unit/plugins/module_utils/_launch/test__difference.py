# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Differences by meaning, and the way from one launch to another and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._container import (
    ContainerOptions,
    Gpus,
    Mount,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._difference import apply, difference
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import (
    Image,
    Launch,
    ProcessOptions,
    Secret,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._variables import variables
from hypothesis import given
from hypothesis import strategies as st

from .launches import make_launch, make_rank

VALUE = st.text("abc{}[]:,=1 ", min_size=1, max_size=6).filter(lambda text: not text.startswith("-"))
FLAGS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["--max-model-len", "--dtype", "--attention-config"]), VALUE).map(list),
        st.sampled_from(
            [["--headless"], ["--enable-x"], ["--no-enable-x"], ["-tp", "4"], ["--attention-config.a", "1"]]
        ),
    ),
    max_size=5,
)
ENV = st.dictionaries(st.sampled_from(["A", "B", "NCCL_DEBUG"]), VALUE | st.builds(Secret, VALUE), max_size=3)
NAMES = st.lists(st.sampled_from(["/dev/a", "/dev/b", "x"]), unique=True, max_size=2).map(tuple)
CONTAINER = st.builds(
    ContainerOptions,
    entrypoint=st.none() | st.just(("vllm",)),
    network=st.sampled_from(["host", "bridge"]),
    shm_size=st.none() | st.just(1024),
    gpus=st.sampled_from([Gpus(), Gpus("none", ()), Gpus("cdi", ("GPU-1",))]),
    mounts=st.sampled_from([(), (Mount("/a", "/a"),), (Mount("/b", "/a", True), Mount("/c", "/c"))]),
    ulimits=st.sampled_from([{}, {"memlock": -1}, {"memlock": 1, "nofile": 2}]),
    devices=NAMES,
    cap_add=NAMES,
    privileged=st.booleans(),
    workdir=st.sampled_from(["", "/srv"]),
)
RANK = st.tuples(FLAGS, ENV, CONTAINER)
LAUNCH = st.tuples(RANK, RANK).map(
    lambda ranks: make_launch(
        ranks=tuple(
            make_rank(
                number,
                argv=("vllm", "serve", "m", *(word for flag in flags for word in flag)),
                env=env,
                container=container,
            )
            for number, (flags, env, container) in enumerate(ranks)
        )
    )
)


@given(LAUNCH)
def test_a_launch_does_not_differ_from_itself(launch: Launch) -> None:
    assert difference(launch, launch) == []


@given(LAUNCH, LAUNCH)
def test_the_changes_lead_from_one_launch_to_the_other(before: Launch, after: Launch) -> None:
    made = apply(before, difference(before, after))
    assert difference(made, after) == []
    assert variables(made) is not None
    way_back = difference(made, before)
    assert difference(apply(made, way_back), before) == []


@given(LAUNCH, LAUNCH)
def test_with_like_the_words_are_the_same_too(before: Launch, after: Launch) -> None:
    made = apply(before, difference(before, after), like=after)
    assert [rank.argv for rank in made.ranks] == [rank.argv for rank in after.ranks]
    assert [list(rank.env.items()) for rank in made.ranks] == [list(rank.env.items()) for rank in after.ranks]
    assert [rank.container for rank in made.ranks] == [rank.container for rank in after.ranks]


def test_order_and_spelling_mean_nothing() -> None:
    left = make_rank(
        0, argv=("vllm", "serve", "m", "-tp", "8", "-ac", '{"a":1,"b":2}'), env={"A": "1", "B": "2"}
    )
    right = make_rank(
        0,
        argv=("vllm", "serve", "m", "--attention-config", '{"b": 2, "a": 1}', "--tensor_parallel_size=8"),
        env={"B": "2", "A": "1"},
    )
    assert difference(make_launch(ranks=(left,)), make_launch(ranks=(right,))) == []


def test_a_change_on_all_ranks_is_one_change() -> None:
    before = make_launch()
    after = make_launch(ranks=tuple(replace(r, env={**r.env, "NCCL_DEBUG": "INFO"}) for r in before.ranks))
    (change,) = difference(before, after)
    assert (change.variable.scope, change.before, change.after) == ("", None, "INFO")
    assert change.text == "NCCL_DEBUG: not set -> NCCL_DEBUG=INFO"


def test_a_change_on_one_rank_names_it() -> None:
    before = make_launch()
    worker = replace(before.ranks[1], argv=(*before.ranks[1].argv, "--no-enable-prefix-caching"))
    (change,) = difference(before, make_launch(ranks=(before.ranks[0], worker)))
    assert change.text == "rank 1: --enable-prefix-caching: not set -> --no-enable-prefix-caching"
    assert change.as_dict()["scope"] == "1"


def test_on_to_off_is_one_change() -> None:
    on = make_launch(ranks=(make_rank(0, argv=("vllm", "serve", "m", "--enable-prefix-caching")),))
    off = make_launch(ranks=(make_rank(0, argv=("vllm", "serve", "m", "--no-enable-prefix-caching")),))
    (change,) = difference(on, off)
    assert change.text == "--enable-prefix-caching -> --no-enable-prefix-caching"


def test_what_follows_from_the_words_follows() -> None:
    before = make_launch()
    after = replace(before, ranks=(replace(before.ranks[0], argv=("vllm", "serve", "x", "-tp", "4", "--port", "9")),
                                   before.ranks[1]))  # fmt: skip
    made = apply(before, difference(before, after))
    assert (made.ranks[0].api_port, made.topology.tensor_parallel, made.model) == (9, 4, "x")
    assert (made.ranks[1].api_port, made.ranks[1].headless) == (None, True)


def test_image_and_diagnostics_are_variables() -> None:
    before = make_launch()
    after = make_launch(image=Image("r", "sha256:" + "b" * 64), diagnostics="logs")
    assert {(c.variable.kind, c.variable.name) for c in difference(before, after)} == {
        ("image", "image"),
        ("topology", "diagnostics"),
    }
    assert difference(apply(before, difference(before, after)), after) == []


def test_another_launch_group_is_no_step() -> None:
    before, after = make_launch(), make_launch(ranks=(make_rank(0, host="other"), make_rank(1)))
    with pytest.raises(BaselineError, match="launch group"):
        apply(before, difference(before, after))


def test_a_process_differs_by_its_executable() -> None:
    ranks = [make_rank(0, container=None, process=ProcessOptions(path)) for path in ("/a/vllm", "/b/vllm")]
    before, after = (make_launch(engine="process", image=None, ranks=(rank,)) for rank in ranks)
    (change,) = difference(before, after)
    assert (change.before, change.after) == ("/a/vllm", "/b/vllm")
    assert apply(before, [change]).ranks[0].process == ranks[1].process
