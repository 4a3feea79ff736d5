# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

from ansible_collections.gpufleet.baseline.plugins.module_utils import _services
from hypothesis import given
from hypothesis import strategies as st

SHOW = """Id=docker.service
Description=Docker Application Container Engine
LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
Result=success
MainPID=1234
NRestarts=2
ExecMainStatus=0
ActiveEnterTimestamp=Mon 2026-11-30 20:25:15 UTC
FragmentPath=/lib/systemd/system/docker.service
DropInPaths=/etc/systemd/system/docker.service.d/a.conf /etc/systemd/system/docker.service.d/b.conf
NeedDaemonReload=yes

Id=nvidia-imex.service
LoadState=not-found
ActiveState=inactive

Id=nvidia-fabricmanager.service
LoadState=loaded
ActiveState=failed
MainPID=0
Result=exit-code
ExecMainStatus=1
"""


def test_units_that_exist_with_their_state() -> None:
    docker, manager = _services.parse_show(SHOW)
    assert (docker["name"], docker["active"], docker["pid"], docker["restarts"]) == (
        "docker.service",
        "active",
        1234,
        2,
    )
    assert docker["drop_ins"] == [
        "/etc/systemd/system/docker.service.d/a.conf",
        "/etc/systemd/system/docker.service.d/b.conf",
    ]
    assert docker["needs_daemon_reload"]
    assert (manager["active"], manager["pid"], manager["exit_status"]) == ("failed", None, 1)


def test_t15_systemd_is_asked_and_never_told() -> None:
    command = _services.show_command(["vllm.service"])
    assert command[:3] == ["systemctl", "show", "--no-pager"]
    assert command[-1] == "vllm.service"
    assert command.index("--") < command.index("docker.service")


def test_daemons_are_found_where_no_systemd_is(tmp_path: Path) -> None:
    for pid, name in (("20", "dockerd"), ("3", "nvidia-persiste"), ("7", "bash")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "comm").write_text(name + "\n")
    (tmp_path / "proc" / "30").mkdir()  # one that ended meanwhile
    assert _services.find_daemons(str(tmp_path)) == [
        {"name": "docker", "pid": 20},
        {"name": "nvidia-persistenced", "pid": 3},
    ]


def test_names_of_daemons_are_as_long_as_the_kernel_keeps_them() -> None:
    assert all(len(name) <= 15 for name in _services.DAEMONS)


@given(st.one_of(st.text(), st.text(alphabet="Id=LoadStatenf\n")))
def test_any_text_is_read_without_an_error(text: str) -> None:
    _services.parse_show(text)
