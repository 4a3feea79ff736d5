# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of a pinned and a live boundary the stricter limit holds, and every difference is told."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import (
    LIMITS,
    Boundary,
    Choice,
    Limit,
    as_version,
    stricter,
)
from hypothesis import given
from hypothesis import strategies as st


def boundary(**limits: Any) -> Boundary:
    return Boundary("a/b", Choice("gb300"), {name: Limit(value, "field") for name, value in limits.items()})


@pytest.mark.parametrize(
    ("pin", "live", "used", "different"),
    [
        (580, 580, 580, False),
        (580, 590, 590, True),
        (580, 570, 580, True),  # a changed sentence never lowers the floor without a word
        (580, None, 580, True),
        (None, 580, 580, True),
    ],
)
def test_driver_branch(pin: Any, live: Any, used: Any, different: bool) -> None:
    held, differences = stricter(boundary(driver_branch=pin), boundary(driver_branch=live))
    assert held.value("driver_branch") == used
    assert [difference.limit for difference in differences] == (["driver_branch"] if different else [])


def test_names_cannot_be_ranked_and_the_pin_holds() -> None:
    held, (difference,) = stricter(boundary(image="a:1"), boundary(image="a:2"))
    assert held.value("image") == "a:1"
    assert difference.text == "image: pinned a:1, recipe now a:2; a:1 holds"


def test_versions_are_compared_as_versions() -> None:
    held, differences = stricter(boundary(vllm="0.27.1", cuda="13.0"), boundary(vllm="0.100.0", cuda="13"))
    assert held.value("vllm") == "0.100.0"
    assert [difference.limit for difference in differences] == ["vllm"]


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("0.27.1", "0.27.2"),
        ("0.9.0", "0.10.0"),
        ("0.27.1rc1", "0.27.1"),
        ("0.27.2rc1.dev5+g1234", "0.27.2"),
        ("0.27.1", "0.27.1.post1"),
        ("0.27.1", "0.27.2.dev0"),
        ("580.65.06", "580.159.04"),
    ],
)
def test_order_of_versions(lower: str, higher: str) -> None:
    assert as_version(lower) < as_version(higher)


def test_equal_versions() -> None:
    assert as_version("0.27.1+cu130") == as_version("v0.27.1") == as_version("0.27.1.0")
    assert as_version("soon") == ()


limit_values = st.one_of(st.none(), st.integers(1, 999))


@given(
    st.fixed_dictionaries(dict.fromkeys(("driver_branch", "gpu_count", "memory_gb"), limit_values)),
    st.fixed_dictionaries(dict.fromkeys(("driver_branch", "gpu_count", "memory_gb"), limit_values)),
)
def test_the_stricter_is_never_below_either(pin: dict[str, Any], live: dict[str, Any]) -> None:
    held, differences = stricter(boundary(**pin), boundary(**live))
    told = {difference.limit for difference in differences}
    for name in pin:
        values = [value for value in (pin[name], live[name]) if value is not None]
        assert held.value(name) == max(values, default=None)
        assert (name in told) == (pin[name] != live[name])


def test_document_says_of_every_limit_how_it_was_come_by() -> None:
    document = boundary(driver_branch=580).as_dict()
    assert set(document["sources"]) == set(LIMITS)
    assert document["sources"]["vllm"]["how"] == "not stated"
    assert document["vllm"] is None


def test_endless_digits_are_no_version() -> None:
    assert as_version("9" * 5000) == as_version("13." + "9" * 5000) == ()
    assert as_version("20260801123456.1") > as_version("13.0")
