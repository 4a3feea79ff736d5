# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Callable

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _packages
from hypothesis import given
from hypothesis import strategies as st

DPKG = (
    "nvidia-driver-580-open\t580.173.02-0ubuntu1\tamd64\tinstalled\thold\n"
    "libnvidia-compute-580\t580.159.04-0ubuntu1\tamd64\thalf-configured\tinstall\n"
    "nvidia-driver-575\t575.57\tamd64\tconfig-files\tdeinstall\n"
    "docker-ce\t5:28.0.1\tarm64\tinstalled\tinstall\n"
    "tzdata\t2026a\tall\tinstalled\tinstall\n"
    "a line of another kind\n"
)


def test_dpkg_s_rows_with_holds_and_half_installed_ones() -> None:
    packages = _packages.parse_dpkg(DPKG)
    assert [package["name"] for package in packages] == [
        "nvidia-driver-580-open",
        "libnvidia-compute-580",
        "docker-ce",
        "tzdata",
    ]
    assert [package["name"] for package in packages if package["held"]] == ["nvidia-driver-580-open"]
    assert _packages.unfinished(packages) == ["libnvidia-compute-580"]
    assert [package["name"] for package in _packages.relevant(packages)] == [
        "docker-ce",
        "libnvidia-compute-580",
        "nvidia-driver-580-open",
    ]


def test_rpm_s_rows_with_the_time_of_installation() -> None:
    text = "nvidia-driver\t3:580.173.02-1.el9\tx86_64\t1796070315\nkernel\t0:5.14.0-611.el9\tx86_64\t(none)\n"
    packages = _packages.parse_rpm(text)
    assert [(package["version"], package["installed"]) for package in packages] == [
        ("3:580.173.02-1.el9", 1796070315.0),
        ("5.14.0-611.el9", None),
    ]


@pytest.mark.parametrize(
    ("name", "matters"),
    [
        ("nvidia-fabricmanager", True),
        ("libnccl2", True),
        ("linux-image-6.8.0-90-generic", True),
        ("bash", False),
    ],
)
def test_packages_that_matter(name: str, matters: bool) -> None:
    assert bool(_packages.relevant([{"name": name, "version": ""}])) is matters


@pytest.mark.parametrize("parse", [_packages.parse_dpkg, _packages.parse_rpm])
@given(text=st.one_of(st.text(), st.text(alphabet="a\t\n:0")))
def test_any_text_is_read_without_an_error(parse: Callable[[str], object], text: str) -> None:
    parse(text)


def test_t15_the_queries_change_nothing() -> None:
    assert _packages.DPKG[:2] == ("dpkg-query", "-W")
    assert _packages.RPM[:2] == ("rpm", "-qa")
