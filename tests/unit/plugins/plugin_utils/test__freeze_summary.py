# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The screen at the end of a freeze fits a terminal, whatever the fleet."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _freeze_summary as summary
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._freeze_summary import HostResult
from hypothesis import given
from hypothesis import strategies as st

GOOD = {
    "devices": "4 x NVIDIA GB300",
    "driver": "580.159.04",
    "image": "sha256:3f2a9c0b1d2e",
    "engine": "vllm 0.27.1",
    "failure": "weights",
}
WHERE = [
    ("Run", "/root/repro/run-001"),
    ("Next", "tar -xzOf /root/repro/run-001/hosts/n1.tar.gz five-questions.txt"),
]


def frozen(host: str, **other: str) -> HostResult:
    return HostResult(host, "frozen", short={**GOOD, **other}, probes_ok=41, probes=44)


def screen(*results: HostResult) -> str:
    return "\n".join(summary.render("Freeze run-001", results, WHERE))


def test_equal_hosts_share_a_row():
    text = screen(frozen("n1"), frozen("n2"))
    assert "n1, n2    4 x NVIDIA GB300  580.159.04" in text
    assert "Odd host out" not in text


def test_the_odd_host_is_named_with_what_the_others_have():
    text = screen(frozen("n1"), frozen("n2"), frozen("n3", driver="575.51.03"))
    assert "Odd host out  n3: driver 575.51.03 (the others: 580.159.04)" in text


def test_two_halves_have_no_odd_one():
    text = screen(frozen("n1"), frozen("n2", driver="575.51.03"))
    assert "Odd host out" not in text
    assert "Hosts differ  driver: 575.51.03: n2; 580.159.04: n1" in text


def test_t7_a_dead_host_stands_there_with_its_reason():
    text = screen(frozen("n1"), HostResult("n3", "unreachable", "Connection timed out"))
    assert "Not frozen    n3: unreachable: Connection timed out" in text


def test_what_was_not_measured_names_its_hosts():
    missing = "image: the Docker socket did not answer within 10 s"
    text = screen(*[HostResult(f"n{n}", "frozen", short=GOOD, not_measured=[missing]) for n in range(3)])
    assert f"Not measured  n0, n1, n2: {missing}" in text


def test_a_command_is_never_cut():
    path = "/very/long" * 20
    lines = summary.render("t", [frozen("n1")], [("Run", path)])
    assert lines[-1] == f"Run           {path}"


def test_no_host_at_all():
    assert "no host was frozen" in screen()


def test_64_hosts_that_all_differ_fit_on_one_screen():
    results = [frozen(f"tray-{n:02d}.rack-7.cluster.example.org", driver=f"580.{n}") for n in range(64)]
    lines = summary.render("Freeze run-001 of repro: 64 of 64 hosts frozen", results, WHERE * 2)
    assert len(lines) <= 25
    assert any("56 more hosts" in line for line in lines)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=150)


@given(
    st.lists(
        st.builds(
            HostResult,
            st.text("abc-.0123 ", min_size=1, max_size=80),
            st.sampled_from(["frozen", "failed", "unreachable", "quarantined"]),
            words,
            st.dictionaries(st.sampled_from(sorted(GOOD)), words),
            words,
            st.lists(words, max_size=4),
        ),
        max_size=40,
    )
)
def test_the_screen_is_at_most_25_lines_of_100_columns(results):
    lines = summary.render(
        "Freeze",
        results,
        [("Coverage", "x"), ("Run", "/r"), ("Summary", "/s"), ("Next", "n"), ("Verify", "v")],
    )
    assert len(lines) <= 25
    assert max(len(line) for line in lines) <= 100


@pytest.mark.parametrize("width", [5, 10, 30, 60])
def test_names_fit_and_lose_no_host(width):
    hosts = [f"host-{n}" for n in range(20)]
    text = summary.names(hosts, width)
    assert len(text) <= width


def test_the_full_text_shortens_nothing():
    text = "\n".join(summary.full_text([frozen("n1", failure="weights: " + "long " * 40)]))
    assert text.count("long") == 40


def test_an_address_as_the_name_of_a_host_is_not_cut():
    wide = {"devices": "4 x NVIDIA GB300 NVL", "image": "sha256:1 | sha256:2", "failure": "x" * 60}
    text = screen(frozen("172.30.200.111", **wide))
    assert "\n172.30.200.111  4 x" in text
    assert max(len(line) for line in text.splitlines() if "tar " not in line) <= 100


def test_one_machine_under_two_names_is_said():
    text = screen(frozen("a", machine="n1, boot 7"), frozen("b", machine="n1, boot 7"), frozen("c"))
    assert "Same machine  a, b: all of them are n1, boot 7" in text
