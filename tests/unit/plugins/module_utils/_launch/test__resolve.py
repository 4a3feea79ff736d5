# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open names are filled per host, and no $ is left."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._resolve import resolve
from hypothesis import given
from hypothesis import strategies as st

VALUES = {"HEAD_IP": "10.0.0.1", "IFACE_NAME": "eth0", "PREFILL_NODE_1": "10.0.0.7", "HOME": "/root"}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("$HEAD_IP", "10.0.0.1"),
        ("http://${PREFILL_NODE_1}:8001", "http://10.0.0.7:8001"),
        ("~/.cache/huggingface", "/root/.cache/huggingface"),
        ("~", "/root"),
        ("a~b", "a~b"),
        ("~user/x", "~user/x"),
        ("plain", "plain"),
    ],
)
def test_filled(word: str, told: str) -> None:
    assert resolve(word, VALUES, "tray0") == told


@pytest.mark.parametrize(
    "word", ["$OTHER", "${OTHER}", "$", "a$", "$1", "$HEAD_IP$", "$(hostname)", "${HEAD_IP"]
)
def test_what_is_left_is_refused_with_host_and_word(word: str) -> None:
    with pytest.raises(BaselineError) as raised:
        resolve(word, VALUES, "tray7")
    assert "tray7" in str(raised.value)
    assert repr(word) in str(raised.value)


def test_advice_for_the_interface() -> None:
    with pytest.raises(BaselineError, match="gpufleet_interface"):
        resolve("$IFACE_NAME", {}, "tray0")


def test_no_home_is_told() -> None:
    with pytest.raises(BaselineError, match="gpufleet_home"):
        resolve("~/x", {}, "tray0")


@given(
    st.text("ab{}1 $", max_size=8),
    st.dictionaries(st.text("ab", min_size=1, max_size=2), st.text("xyz", min_size=1)),
)
def test_nothing_open_is_ever_left(word: str, values: dict[str, str]) -> None:
    try:
        told = resolve(word, values, "host")
    except BaselineError:
        told = ""
    assert "$" not in told
    assert told == word or "$" in word
