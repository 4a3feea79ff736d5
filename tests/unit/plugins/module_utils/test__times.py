# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from typing import Iterator, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _times
from hypothesis import given
from hypothesis import strategies as st

NOW = 1796070315.0  # 2026-11-30 20:25:15 UTC


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-30T20:25:15Z", NOW),
        ("2026-11-30T20:25:15.250+0000", NOW + 0.25),
        ("2026-11-30T21:25:15+01:00", NOW),
        ("2026-11-30 15:25:15,5 -0500", NOW + 0.5),
        ("2026-02-30T00:00:00Z", None),
        ("yesterday", None),
    ],
)
def test_iso_times_with_a_zone(text: str, seconds: Optional[float]) -> None:
    assert _times.from_iso(text) == seconds


@pytest.mark.usefixtures("berlin")
def test_local_times_are_the_host_s_own_also_in_summer() -> None:
    assert _times.utc(_times.from_iso("2026-11-30 21:25:15")) == "2026-11-30T20:25:15Z"
    assert _times.utc(_times.from_iso("2026-07-01 12:00:00")) == "2026-07-01T10:00:00Z"
    assert _times.utc(_times.from_words("Mon Nov 30 21:25:15 2026", NOW)) == "2026-11-30T20:25:15Z"


@pytest.mark.parametrize(
    ("text", "year"), [("Nov 30 20:25:15", 2026), ("Dec 24 20:25:15", 2025), ("Jan  2 01:00:00", 2026)]
)
def test_a_time_without_a_year_is_the_latest_that_has_been(text: str, year: int) -> None:
    found = _times.from_words(text, NOW)
    assert found is not None
    assert time.localtime(found).tm_year == year


def test_the_29th_of_february_without_a_year_is_found_in_a_leap_year() -> None:
    leap = 1709251200.0  # 2024-03-01
    found = _times.from_words("Feb 29 12:00:00", leap)
    assert found is not None
    assert time.localtime(found)[:3] == (2024, 2, 29)


@given(
    st.one_of(st.text(), st.from_regex(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(Z|[+-]\d\d\d\d)?", fullmatch=True))
)
def test_any_text_is_read_as_a_time_or_as_none(text: str) -> None:
    _times.utc(_times.from_iso(text))
    _times.utc(_times.from_words(text, NOW))


@given(st.integers(0, 4102444800))
def test_a_written_time_is_read_back(seconds: int) -> None:
    written = _times.utc(seconds)
    assert written is not None
    assert _times.from_iso(written) == seconds
