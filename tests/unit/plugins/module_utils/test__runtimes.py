# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs a process is named by its cgroup, variables, ancestors and root."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._runtimes import container_ids, name_runtimes
from hypothesis import given
from hypothesis import strategies as st

ID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4
POD = "3f1c0d52-6a7b-4c8d-9e0f-112233445566"

CASES = {
    "Docker, systemd driver": (f"0::/system.slice/docker-{ID}.scope", ["Docker"], ID),
    "Docker, cgroupfs driver": (f"11:devices:/docker/{ID}\n1:name=systemd:/docker/{ID}", ["Docker"], ID),
    "Docker in a container": (f"0::/docker/{OTHER}/docker/{ID}", ["Docker"], ID),
    "rootless Docker": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{ID}.scope",
        ["Docker"],
        ID,
    ),
    "Podman": (f"0::/machine.slice/libpod-{ID}.scope/container", ["Podman"], ID),
    "containerd in Kubernetes, systemd": (
        f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
        ["containerd (Kubernetes)"],
        ID,
    ),
    "containerd in Kubernetes, cgroupfs": (
        f"9:memory:/kubepods/besteffort/pod{POD}/{ID}",
        ["containerd (Kubernetes)"],
        ID,
    ),
    "CRI-O": (
        f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-{ID}.scope",
        ["CRI-O (Kubernetes)"],
        ID,
    ),
    "nerdctl": (f"0::/system.slice/nerdctl-{ID}.scope", ["containerd (nerdctl)"], ID),
    "containerd alone": (f"0::/default/{ID}", ["containerd"], ID),
    "Slurm": ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", ["Slurm"], "4711"),
    "Slurm, version 1": ("9:memory:/slurm/uid_1000/job_4711/step_batch/task_0", ["Slurm"], "4711"),
    "systemd unit": ("0::/system.slice/vllm.service", ["systemd unit"], "vllm.service"),
    "unit of a user": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service",
        ["systemd unit"],
        "vllm.service",
    ),
    "login session": ("0::/user.slice/user-1000.slice/session-3.scope", ["login session"], "session-3.scope"),
    "bare": ("0::/", ["bare"], ""),
}


@pytest.mark.parametrize("case", CASES)
def test_runtime_of_a_cgroup(case: str) -> None:
    cgroup, names, identifier = CASES[case]
    runtimes = name_runtimes(cgroup, {}, [])
    assert [runtime.name for runtime in runtimes] == names
    assert runtimes[0].identifier == identifier


def test_the_pod_is_named() -> None:
    cgroup = CASES["containerd in Kubernetes, systemd"][0]
    assert name_runtimes(cgroup, {}, [])[0].details == {"pod_uid": POD}


def test_enroot_in_a_slurm_job_is_both() -> None:
    runtimes = name_runtimes(
        "0::/system.slice/slurmstepd.scope/job_12/step_0",
        {"SLURM_JOB_ID": "12"},
        ["slurmstepd"],
        "700 699 0:55 / / rw - overlay overlay rw,lowerdir=/run/enroot/pyxis_12.0,upperdir=/x",
    )
    assert [(runtime.name, runtime.identifier) for runtime in runtimes] == [
        ("enroot", "pyxis_12.0"),
        ("Slurm", "12"),
    ]


def test_enroot_with_its_root_on_a_disk() -> None:
    line = "700 699 259:1 /var/lib/enroot/data/user-1000/kimi / rw,relatime - ext4 /dev/nvme0n1p1 rw"
    assert name_runtimes("0::/user.slice/user-1000.slice/session-3.scope", {}, [], line)[0].name == "enroot"


def test_a_terminal_multiplexer_is_an_ancestor_and_its_session_a_variable() -> None:
    cgroup = "0::/user.slice/user-0.slice/session-3.scope"
    (tmux, session) = name_runtimes(
        cgroup, {"TMUX": "/tmp/tmux-0/default,1,0"}, ["bash", "tmux: server", "systemd"]
    )
    assert (tmux.name, tmux.identifier, tmux.evidence) == (
        "tmux",
        "/tmp/tmux-0/default,1,0",
        "ancestor tmux: server",
    )
    assert session.name == "login session"


def test_a_unit_that_was_started_from_tmux_says_that_tmux_is_no_ancestor() -> None:
    runtimes = name_runtimes("0::/system.slice/vllm.service", {"TMUX": "x"}, ["systemd"])
    assert runtimes[0].evidence == "variable TMUX, but no such ancestor"
    assert runtimes[-1].name == "systemd unit"


def test_ids_of_nested_containers_the_innermost_first() -> None:
    assert container_ids(f"0::/docker/{OTHER}/docker/{ID}") == [ID, OTHER]


@given(st.text(), st.dictionaries(st.text(), st.text()), st.lists(st.text()), st.text())
def test_there_is_always_an_answer(
    cgroup: str, environment: dict[str, str], above: list[str], mount: str
) -> None:
    assert name_runtimes(cgroup, environment, above, mount)
