# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.module_utils import _changes
from ansible_collections.gpufleet.baseline.plugins.module_utils._changes import Source, event

NOW = 1796070315.0


def test_events_of_all_sources_stand_in_their_order_with_their_source() -> None:
    document = _changes.timeline(
        [
            Source("dpkg log", events=[event(NOW, "upgrade nvidia-driver-580", "package")]),
            Source(
                "journal boots", events=[event(NOW - 10, "boot a", "boot"), event(None, "boot b", "boot")]
            ),
        ]
    )
    assert [(change["at"], change["what"], change["source"]) for change in document["events"]] == [
        (None, "boot b", "journal boots"),
        ("2026-11-30T20:25:05Z", "boot a", "journal boots"),
        ("2026-11-30T20:25:15Z", "upgrade nvidia-driver-580", "dpkg log"),
    ]
    assert document["schema"] == "gpufleet.baseline/changes/1"


def test_a_source_that_is_not_there_or_begins_late_is_a_gap_and_not_silence() -> None:
    document = _changes.timeline(
        [
            Source("yum log", "absent", "there is no /var/log/yum.log"),
            Source("journal boots", "timeout", "no answer within 30 s"),
            Source("dpkg log", events=[event(NOW, "upgrade x", "package")], begins=NOW - 60),
            Source("kernel log", begins=NOW),
        ]
    )
    assert document["gaps"] == [
        "yum log: not there (there is no /var/log/yum.log)",
        "journal boots: timeout: no answer within 30 s",
        "dpkg log: silent before 2026-11-30T20:24:15Z",
        "kernel log: silent before 2026-11-30T20:25:15Z",
    ]


def test_the_latest_events_are_kept_and_the_rest_is_counted() -> None:
    many = [event(NOW + number, "change %d" % number, "package") for number in range(1200)]
    document = _changes.timeline([Source("dpkg log", events=many)])
    assert (len(document["events"]), document["left_out"]) == (1000, 200)
    assert document["events"][-1]["what"] == "change 1199"


def test_further_sources_are_added_in_their_place() -> None:
    first = _changes.timeline([Source("dpkg log", events=[event(NOW, "upgrade x", "package")])])
    document = _changes.add(
        first,
        [Source("containers", "denied", "no access", [event(NOW - 1, "container a started", "container")])],
    )
    assert [change["what"] for change in document["events"]] == ["container a started", "upgrade x"]
    assert [source["source"] for source in document["sources"]] == ["dpkg log", "containers"]
    assert document["gaps"] == ["containers: denied: no access"]
