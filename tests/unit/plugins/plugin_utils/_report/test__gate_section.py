# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's page and the gate's section in it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report._gate_section import (
    gate_section,
    score_section,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report._page import render
from hypothesis import given
from hypothesis import strategies as st

VOID = {"meta", "link", "br", "img", "hr", "input"}
SCORE = {
    "points": 9, "most": 14, "next": "collect the missing evidence first", "meaning": "how well it compares",
    "criteria": [{"name": "fixed request", "points": 1, "missing": ["what it gave"]}],
}  # fmt: skip


def finding(rule: str, verdict: str, hosts: list[str], **more: Any) -> dict[str, Any]:
    return {
        "rule": rule, "title": f"title of {rule}", "verdict": verdict, "hosts": hosts, "wanted": "580 or newer",
        "found": "575", "reason": "", "remedy": "install it", **more,
    }  # fmt: skip


def gate(hosts: list[str], findings: list[dict[str, Any]], verdict: str = "fail") -> dict[str, Any]:
    return {
        "verdict": verdict,
        "hosts": {host: {"verdict": "pass", "reason": "", "time": "", "run": ""} for host in hosts},
        "findings": findings,
        "odd_hosts": {},
        "boundary": {"model": "moonshotai/Kimi-K3", "hardware": "gb300"},
        "sources": [{"location": "https://example.org/recipe"}],
    }


def page(document: dict[str, Any], title: str = "Gate run-001") -> str:
    sections = [gate_section(document), score_section(SCORE)]
    return render(title, document["verdict"], "gate: fail", sections, "sha256sum -c SHA256SUMS").decode()


class Reader(HTMLParser):
    """Every element is closed by its own end; texts and addresses are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("href", "src"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            assert not name.startswith("on")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def rows(text: str) -> dict[str, list[str]]:
    """The matrix: signs by rule."""
    body = text[text.index("<caption>") :]
    return {
        re.sub("<.*?>", "", row[0]): re.findall(r"<td[^>]*>(.*?)</td>", row[1])
        for row in re.findall(
            r'<tr><th scope="row"[^>]*>(.*?)</th>(.*?)</tr>', body[: body.index("</table>")]
        )
    }


def test_the_matrix_shows_every_judged_rule_on_every_host_the_worst_first() -> None:
    document = gate(
        ["tray1", "tray2"],
        [
            finding("driver.equal", "pass", []),
            finding("driver.branch", "pass", ["tray1"]),
            finding("driver.branch", "fail", ["tray2"]),
            finding("gpu.mig", "undecided", ["tray1"]),
            finding("host.ports", "not applicable", ["tray1", "tray2"], reason="no ports were named"),
        ],
    )
    text = page(document)
    found = rows(text)
    assert list(found) == ["verdict", "driver.branch", "gpu.mig", "driver.equal"]
    assert (found["driver.branch"], found["gpu.mig"], found["driver.equal"]) == (
        ["ok", "FAIL"],
        ["?", "-"],
        ["ok", "ok"],
    )
    assert "1 rules did not apply" in text
    assert "install it" in text


def test_nothing_outside_is_asked_for_and_every_link_leads_somewhere() -> None:
    reader = read(page(gate(["tray1"], [finding("driver.branch", "fail", ["tray1"])])))
    assert all(address == "data:," or address.startswith("#") for address in reader.addresses)
    assert {address[1:] for address in reader.addresses if address.startswith("#")} <= set(reader.ids)
    assert not {"script", "iframe", "object", "img"} & set(reader.tags)


@given(st.text(max_size=80), st.text(max_size=80))
def test_whatever_a_host_says_stays_text(host: str, said: str) -> None:
    told = f"{said}<script>alert(1)</script><img src=x onerror=alert(1)>&{{ '{{' }} 7*7 {{ '}}' }}"
    bad = finding("driver.branch", "fail", [host], found=told, reason=told, remedy=told, wanted=told)
    text = page(gate([host], [bad]), title=told)
    assert not {"script", "img"} & set(read(text).tags)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", text)


def test_sixty_four_hosts_with_long_names_stand_in_a_part_that_scrolls_by_itself() -> None:
    hosts = [f"tray-{number:02d}.a-very-long-name-of-a-rack.example.org" for number in range(64)]
    text = page(gate(hosts, [finding("driver.branch", "fail", hosts[3:4])]))
    assert len(rows(text)["driver.branch"]) == 64
    assert text.index('<div class="wide" tabindex="0"') < text.index("<caption>")


@pytest.mark.parametrize("verdict", ["fail", "undecided", "warn", "pass"])
def test_the_verdict_comes_first_in_words_and_not_in_colour_alone(verdict: str) -> None:
    text = page(gate(["tray1"], [finding("driver.branch", verdict, ["tray1"])], verdict))
    assert f'<p class="banner {verdict}">{verdict}</p>' in text
    assert text.index("banner ") < text.index("<h2")


def test_the_score_names_what_is_missing() -> None:
    text = page(gate(["tray1"], []))
    assert "9 of 14: collect the missing evidence first" in text
    assert "<td>1 of 2</td><td>what it gave</td>" in text
