# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any, Dict, List, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _kernel_log
from hypothesis import given
from hypothesis import strategies as st

NOW = 1796070315.0  # 2026-11-30 20:25:15 UTC
BOOT = NOW - 1000

OOM_REASON = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/docker/a,"
    "task_memcg=/docker/a,task=python3,pid=4242,uid=0"
)
XID_79 = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def read(*lines: str, source: str = "dmesg") -> List[Dict[str, Any]]:
    return _kernel_log.parse("\n".join(lines), source, BOOT, NOW)


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("[  100.500000] " + XID_79, BOOT + 100.5),
        ("[  100.500000] [   T1234] " + XID_79, BOOT + 100.5),
        ("<3>[  100.500000] " + XID_79, BOOT + 100.5),
        ("2026-11-30T20:10:15.250000+0000 gpu1 kernel: " + XID_79, NOW - 900 + 0.25),
        ("2026-11-30T21:10:15+01:00 gpu1 kernel: [  100.5] " + XID_79, NOW - 900),
    ],
)
def test_a_message_is_dated_in_every_form_of_the_log(line: str, time: float) -> None:
    [event] = read(line)
    assert (event["kind"], event["code"], event["pci_address"]) == ("xid", 79, "0000:3b:00.0")
    assert event["time"] == pytest.approx(time)
    assert event["text"] == XID_79


def test_a_line_of_syslog_without_a_year_is_in_the_last_twelve_months() -> None:
    [event] = read("Dec 24 20:25:15 gpu1 kernel: [  100.5] " + XID_79, source="/var/log/kern.log")
    assert event["time"] is not None
    assert NOW - 366 * 86400 < event["time"] <= NOW


@pytest.mark.parametrize(
    ("message", "code", "address", "pid", "process"),
    [
        (XID_79, 79, "0000:3b:00.0", None, None),
        (
            "NVRM: Xid (PCI:0018:06:00): 94, pid=4242, name=VLLM::Worker_TP, Ch 8",
            94,
            "0018:06:00.0",
            4242,
            "VLLM::Worker_TP",
        ),
        (
            "NVRM: Xid (PCI:0000:65:00): 31, Ch 0000001b, engmask 00000101",
            31,
            "0000:65:00.0",
            None,
            None,
        ),
        ("NVRM: Xid (PCI:0000:65:00 GPU-I:05): 43, pid=17, Ch 1", 43, "0000:65:00.0", 17, None),
        ("NVRM: Xid (0000:03:00): 62, 2ae9 6d2c", 62, "0000:03:00.0", None, None),
        ("NVRM: Xid (PCI:0008:01:00): 149", 149, "0008:01:00.0", None, None),
    ],
)
def test_the_forms_of_an_xid(
    message: str, code: int, address: str, pid: Optional[int], process: Optional[str]
) -> None:
    event = _kernel_log.classify(message)
    assert event is not None
    found = (event["kind"], event["code"], event["pci_address"], event["pid"], event["process"])
    assert found == ("xid", code, address, pid, process)
    assert not event["harmless"]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 44 PRIV error",
            "sxid",
        ),
        ("Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB", "oom kill"),
        ("Memory cgroup out of memory: Killed process 4242 (VLLM::EngineCor) total-vm:1kB", "oom kill"),
        (OOM_REASON, "oom reason"),
        ("NVRM: API mismatch: the client has the version 580.173.02, but", "version mismatch"),
        ("INFO: task nvidia-smi:4242 blocked for more than 120 seconds.", "hung task"),
        ("NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x26:0x56:1463)", "gpu did not start"),
        ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "driver probe failed"),
        ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "gpu off the bus"),
        ("pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0", "pci error"),
        ("mce: [Hardware Error]: Machine check events logged", "machine check"),
        ("mlx5_core 0000:5e:00.0: Port module event: error: module 0, Link down", "network card"),
        ("python3[4242]: segfault at 0 ip 00007f sp 00007f error 4 in libcuda.so", "segfault"),
    ],
)
def test_what_else_concerns_a_gpu_host(message: str, kind: str) -> None:
    event = _kernel_log.classify(message)
    assert event is not None
    assert (event["kind"], event["harmless"]) == (kind, False)
    [read_back] = read("[    1.000000] " + message)
    assert read_back["kind"] == kind


def test_a_loading_driver_tells_its_version() -> None:
    message = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build"
    event = _kernel_log.classify(message)
    assert event is not None
    assert (event["kind"], event["meaning"], event["harmless"]) == ("driver load", "580.159.04", True)


@pytest.mark.parametrize(
    "message",
    [
        "NVRM: installed in this system is not supported by the",
        "nvidia 0000:3b:00.1: not supported by the NVIDIA 580.159.04 driver release",
    ],
)
def test_t36_a_line_about_one_unsupported_function_is_harmless_by_itself(message: str) -> None:
    event = _kernel_log.classify(message)
    assert event is not None
    assert (event["kind"], event["harmless"]) == ("unsupported function", True)


@pytest.mark.parametrize("message", ["eth0: link up", "usb 1-1: new device", "EXT4-fs (vda): mounted", ""])
def test_other_messages_are_left_alone(message: str) -> None:
    assert _kernel_log.classify(message) is None


def test_one_message_in_two_logs_is_counted_once_with_both_sources() -> None:
    dmesg = read("[  100.5] " + XID_79)
    journal = read("2026-11-30T20:10:16.100000+0000 gpu1 kernel: " + XID_79, source="journal")
    [event] = _kernel_log.merge(journal, dmesg)
    assert event["sources"] == ["journal", "dmesg"]


def test_one_message_twice_in_one_log_is_counted_twice() -> None:
    log = read("[  100.5] " + XID_79, "[  101.5] " + XID_79)
    assert len(_kernel_log.merge(log)) == 2
    assert (
        len(_kernel_log.merge(log, read("[  100.6] " + XID_79, "[  101.6] " + XID_79, source="journal"))) == 2
    )


def test_the_same_message_of_another_boot_is_another_event() -> None:
    journal = read("2026-11-28T20:10:16+0000 gpu1 kernel: " + XID_79, source="journal")
    assert len(_kernel_log.merge(journal, read("[  100.5] " + XID_79))) == 2


def test_a_log_is_silent_before_its_first_line_though_that_is_about_something_else() -> None:
    assert _kernel_log.begins("\n[    2.500000] usb 1-1: new device\n[ 9.0] x\n", BOOT, NOW) == BOOT + 2.5
    assert _kernel_log.begins("", BOOT, NOW) is None


def test_events_are_in_their_order_in_time() -> None:
    merged = _kernel_log.merge(read("[  200.5] " + XID_79), read("[  100.5] " + XID_79.replace("79", "74")))
    assert [event["code"] for event in merged] == [74, 79]


def test_a_storm_of_messages_is_shortened_in_its_middle_and_the_number_is_told() -> None:
    events = read(*("[  %d.0] %s" % (number, XID_79) for number in range(1000)))
    kept, left_out = _kernel_log.condense(events, 10)
    assert (len(kept), left_out) == (10, 990)
    assert [kept[0]["time"], kept[-1]["time"]] == [BOOT, BOOT + 999]
    [row] = _kernel_log.count(events)
    assert (row["count"], row["first"], row["last"]) == (1000, BOOT, BOOT + 999)


FRAGMENTS = st.sampled_from(
    [
        "NVRM: Xid (PCI:",
        "0000:3b:00",
        "): ",
        "79",
        ", pid=",
        "[  1.5] ",
        " kernel: ",
        "oom-kill:constraint=",
        "Out of memory",
        "\n",
    ]
)


@given(st.one_of(st.text(), st.lists(st.one_of(FRAGMENTS, st.text(max_size=5))).map("".join)))
def test_any_text_is_read_and_merged_without_an_error(text: str) -> None:
    events = _kernel_log.parse(text, "dmesg", BOOT, NOW)
    merged = _kernel_log.merge(events, events)
    assert len(merged) == len(events)
    assert sum(row["count"] for row in _kernel_log.count(merged)) == len(merged)
