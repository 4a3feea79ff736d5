# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any, Callable, List

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _change_logs
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import from_iso
from hypothesis import given
from hypothesis import strategies as st

NOW = 1796070315.0


def whats(events: List[Any]) -> List[str]:
    return [event["what"] for event in events]


def test_dpkg_s_log_of_the_packages_that_matter() -> None:
    text = (
        "2026-11-29 06:12:01 startup archives unpack\n"
        "2026-11-29 06:12:02 upgrade nvidia-driver-580-open:amd64 580.159.04-1 580.173.02-1\n"
        "2026-11-29 06:12:02 status half-configured nvidia-driver-580-open:amd64 580.159.04-1\n"
        "2026-11-29 06:12:03 install linux-image-6.8.0-91-generic:amd64 <none> 6.8.0-91.92\n"
        "2026-11-29 06:12:04 upgrade tzdata:all 2026a 2026b\n"
        "2026-11-29 06:12:05 remove nvidia-imex:amd64 580.159.04 <none>\n"
    )
    events = _change_logs.parse_dpkg_log(text)
    assert whats(events) == [
        "upgrade nvidia-driver-580-open 580.159.04-1 -> 580.173.02-1",
        "install linux-image-6.8.0-91-generic 6.8.0-91.92",
        "remove nvidia-imex 580.159.04",
    ]
    assert events[0]["time"] == from_iso("2026-11-29 06:12:02")


def test_a_run_of_apt_with_who_asked_for_it() -> None:
    text = (
        "\nStart-Date: 2026-11-29  06:12:01\nCommandline: /usr/bin/unattended-upgrade\n"
        "Upgrade: nvidia-driver-580-open:amd64 (580.159.04-1, 580.173.02-1), tzdata:all (2026a, 2026b)\n"
        "End-Date: 2026-11-29  06:13:01\n\n"
        "Start-Date: 2026-11-30  10:00:00\nCommandline: apt-get remove vim\nRequested-By: ml (1000)\n"
        "Remove: vim:amd64 (1)\nEnd-Date: 2026-11-30  10:00:01\n"
    )
    events = _change_logs.parse_apt_history(text)
    assert whats(events) == [
        "apt: /usr/bin/unattended-upgrade (upgrade 2): nvidia-driver-580-open",
        "apt: apt-get remove vim by ml (1000) (remove 1)",
    ]
    assert events[0]["time"] == from_iso("2026-11-29 06:12:01")


def test_the_rpm_logs_of_dnf_and_yum() -> None:
    text = (
        "2026-11-29T06:12:01+0000 SUBDEBUG Upgrade: nvidia-driver-3:580.173.02-1.el9.x86_64\n"
        "2026-11-29T06:12:01+0000 SUBDEBUG Upgraded: nvidia-driver-3:580.159.04-1.el9.x86_64\n"
        "2026-11-29T06:12:01+0000 INFO --- logging initialized ---\n"
        "Nov 29 06:12:01 Installed: docker-ce-3:28.0.1-1.el9.x86_64\n"
        "Nov 29 06:12:01 Updated: tzdata-2026b\n"
    )
    events = _change_logs.rpm_log_parser(NOW)(text)
    assert whats(events) == [
        "upgrade nvidia-driver-3:580.173.02-1.el9.x86_64",
        "upgrade nvidia-driver-3:580.159.04-1.el9.x86_64",
        "install docker-ce-3:28.0.1-1.el9.x86_64",
    ]
    assert events[0]["time"] == from_iso("2026-11-29T06:12:01Z")


def test_the_rpm_database_tells_when_a_package_came() -> None:
    packages = [
        {"name": "nvidia-driver", "version": "580", "installed": NOW},
        {"name": "docker-ce", "version": "28", "installed": None},
        {"name": "bash", "version": "5", "installed": NOW},
    ]
    assert whats(_change_logs.rpm_events(packages)) == ["installed nvidia-driver 580"]


@pytest.mark.parametrize(
    "line",
    [
        " -1 6ab8e2c4000040008000000000000000 Mon 2026-11-30 10:00:00 UTC\u2014Mon 2026-11-30 20:25:15",
        "  -1 6ab8e2c4000040008000000000000000 Mon 2026-11-30 10:00:00 UTC Mon 2026-11-30 20:25:15 UTC",
    ],
)
def test_boots_as_journals_of_any_age_list_them(line: str) -> None:
    heading = "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n"
    [event] = _change_logs.parse_boots(heading + line)
    assert (event["what"], event["time"]) == (
        "boot 6ab8e2c4000040008000000000000000",
        from_iso("2026-11-30 10:00:00"),
    )


def test_boots_in_wtmp() -> None:
    text = (
        "reboot   system boot  6.8.0-90-generic Mon Nov 30 10:00:00 2026   still running\n"
        "reboot   system boot  6.8.0-89-generic Sun Nov  1 10:00:00 2026 - Mon Nov 30 09:00:00 2026\n"
        "\nwtmp begins Sun Nov  1 10:00:00 2026\n"
    )
    events = _change_logs.last_parser(NOW)(text)
    assert whats(events) == ["boot of kernel 6.8.0-90-generic", "boot of kernel 6.8.0-89-generic"]
    assert events[1]["time"] == from_iso("2026-11-01 10:00:00")


def test_starts_stops_failures_and_reloads_of_services() -> None:
    text = (
        "2026-11-30T10:00:00.100000+0000 gpu1 systemd[1]: Started docker.service - Docker Engine.\n"
        "2026-11-30T10:00:01.100000+0000 gpu1 systemd[1]: Reloading.\n"
        "2026-11-30T10:00:02.100000+0000 gpu1 systemd[1]: nvidia-imex.service: Failed with result 'x'.\n"
        "2026-11-30T10:00:03.100000+0000 gpu1 systemd[1]: docker.service: Consumed 3s CPU time.\n"
    )
    events = _change_logs.parse_unit_lines(text)
    assert whats(events) == [
        "Started docker.service - Docker Engine.",
        "Reloading.",
        "nvidia-imex.service: Failed with result 'x'.",
    ]
    assert events[0]["time"] == from_iso("2026-11-30T10:00:00.1Z")


@pytest.mark.parametrize(
    ("text", "newest_first", "begins"),
    [
        (
            "2026-11-01 06:12:01 startup packages configure\n2026-11-29 06:12:02 x\n",
            False,
            "2026-11-01 06:12:01",
        ),
        ("\nStart-Date: 2026-11-02  06:12:01\n", False, "2026-11-02 06:12:01"),
        (
            "reboot Mon Nov 30 10:00:00 2026\n\nwtmp begins Sun Nov  1 10:00:00 2026\n",
            True,
            "2026-11-01 10:00:00",
        ),
        ("2026-11-03T06:12:01+0000 INFO --- logging initialized ---\n", False, "2026-11-03T06:12:01Z"),
    ],
)
def test_a_log_is_silent_before_its_oldest_line_whatever_that_line_tells(
    text: str, newest_first: bool, begins: str
) -> None:
    value = _change_logs.log(lambda text: [], NOW, newest_first)(text)
    assert value == {"events": [], "begins": from_iso(begins)}


def test_a_log_without_any_time_has_no_beginning() -> None:
    assert _change_logs.log(lambda text: [], NOW)("no time here\n")["begins"] is None


def test_files_of_the_set_up_and_when_they_were_written(tmp_path: Path) -> None:
    place = tmp_path / "etc/docker/daemon.json"
    place.parent.mkdir(parents=True)
    place.write_text("{}")
    os.utime(place, (NOW, NOW))
    (tmp_path / "etc/modprobe.d").mkdir()
    (tmp_path / "etc/modprobe.d/nvidia.conf").symlink_to("/nowhere")
    assert _change_logs.read_files(str(tmp_path)) == [
        {"time": NOW, "what": "/etc/docker/daemon.json was last written", "kind": "file"}
    ]


def rotated(folder: Path) -> str:
    (folder / "dpkg.log.2.gz").write_bytes(gzip.compress(b"oldest\n"))
    (folder / "dpkg.log.1").write_bytes(b"older\n")
    (folder / "dpkg.log").write_bytes(b"newest\n")
    for age, name in enumerate(("dpkg.log", "dpkg.log.1", "dpkg.log.2.gz")):
        os.utime(folder / name, (NOW - age, NOW - age))
    return str(folder / "dpkg.log*")


def test_a_rotated_log_is_read_from_its_oldest_part(tmp_path: Path) -> None:
    reading = _change_logs.read_rotated(rotated(tmp_path))
    assert (reading.value, reading.cut_bytes, reading.message) == ("oldest\nolder\nnewest\n", 0, "")


def test_of_a_long_log_the_newest_part_is_kept_and_the_cut_is_told(tmp_path: Path) -> None:
    reading = _change_logs.read_rotated(rotated(tmp_path), limit=10)
    assert (reading.value, reading.cut_bytes) == ("der\nnewest\n"[-10:], 10)


def test_a_broken_part_costs_that_part_and_is_named(tmp_path: Path) -> None:
    pattern = rotated(tmp_path)
    (tmp_path / "dpkg.log.2.gz").write_bytes(gzip.compress(b"oldest\n" * 100)[:30])
    reading = _change_logs.read_rotated(pattern)
    assert reading.value.endswith("older\nnewest\n")
    assert "dpkg.log.2.gz" in reading.message


def test_t1_a_log_that_is_not_there_is_absent(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailure) as failure:
        _change_logs.read_rotated(str(tmp_path / "none*"))
    assert failure.value.reading.outcome == "absent"


@pytest.mark.parametrize(
    "parse",
    [
        _change_logs.parse_dpkg_log,
        _change_logs.parse_apt_history,
        _change_logs.rpm_log_parser(NOW),
        _change_logs.parse_boots,
        _change_logs.last_parser(NOW),
        _change_logs.parse_unit_lines,
    ],
)
@given(
    text=st.one_of(
        st.text(),
        st.from_regex(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (install|upgrade) nvidia\S* \S+ \S+", fullmatch=True),
        st.from_regex(r"Start-Date: \S* ?\S*\nUpgrade: (nvidia\S* \([^)]*\), ?)+", fullmatch=True),
    )
)
def test_any_text_is_read_without_an_error(parse: Callable[[str], Any], text: str) -> None:
    for event in parse(text):
        assert event["what"]
