# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a container are found as the container finds them, whatever its links and layers are."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_files import (
    FileTree,
    process_tree,
    stopped_tree,
    storage_name,
    told_layers,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One layer with a file, and a file of the same path on this host that must never be read."""
    layer = tmp_path / "layer"
    (layer / "etc").mkdir(parents=True)
    (layer / "etc" / "name").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    return layer


def tree(*layers: Path, mounts: list[tuple[str, str]] | None = None) -> FileTree:
    return FileTree([str(layer) for layer in layers], mounts or [])


def outcome(files: FileTree, path: str) -> str:
    with pytest.raises(ProbeFailure) as caught:
        files.read(path)
    return caught.value.reading.outcome


def test_an_absolute_link_points_into_the_container(root: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to("/etc/name")
    (root / "etc" / "out").symlink_to(str(tmp_path / "secret"))
    assert tree(root).read("/link") == b"inside"
    assert outcome(tree(root), "/etc/out") == "absent"


def test_a_relative_link_cannot_climb_out(root: Path) -> None:
    (root / "etc" / "out").symlink_to("../../../../../../secret")
    (root / "etc" / "in").symlink_to("../../../etc/name")
    assert outcome(tree(root), "/etc/out") == "absent"
    assert outcome(tree(root), "/../../secret") == "absent"
    assert tree(root).read("/etc/in") == b"inside"


def test_a_link_to_a_directory_is_followed_in_the_middle(root: Path) -> None:
    (root / "usr").symlink_to("etc")
    assert tree(root).read("/usr/../usr/name") == b"inside"
    assert tree(root).find("/usr/name").path == "/etc/name"


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert outcome(tree(root), "/a") == "error"


def test_the_last_link_is_kept_when_asked(root: Path) -> None:
    (root / "link").symlink_to("/nowhere")
    assert stat.S_ISLNK(tree(root).find("/link", follow=False).status.st_mode)


def test_layers_lie_over_one_another(root: Path, tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "etc").mkdir(parents=True)
    (upper / "etc" / "name").write_text("newer")
    (upper / "etc" / "added").write_text("new")
    (root / "etc" / "below").write_text("old")
    files = tree(upper, root)
    assert files.read("/etc/name") == b"newer"
    assert files.names("/etc") == ["added", "below", "name"]
    assert sorted(path for path, _status in files.walk("/")) == ["/etc/added", "/etc/below", "/etc/name"]


def test_a_file_over_a_directory_hides_it(root: Path, tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "etc").write_text("now a file")
    assert tree(upper, root).read("/etc") == b"now a file"
    assert outcome(tree(upper, root), "/etc/name") == "absent"


def test_a_directory_over_a_file_hides_it(root: Path, tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "etc" / "name").mkdir(parents=True)
    assert tree(upper, root).names("/etc/name") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="a whiteout is a device file, which only root can make")
def test_a_whiteout_removes_what_lies_below(root: Path, tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "etc").mkdir(parents=True)
    os.mknod(upper / "etc" / "name", stat.S_IFCHR | 0o600, os.makedev(0, 0))
    assert outcome(tree(upper, root), "/etc/name") == "absent"
    assert tree(upper, root).names("/etc") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="the mark of an opaque directory can be set by root alone")
def test_an_opaque_directory_hides_those_below(root: Path, tmp_path: Path) -> None:
    upper = tmp_path / "upper"
    (upper / "etc").mkdir(parents=True)
    os.setxattr(upper / "etc", "trusted.overlay.opaque", b"y")
    assert tree(upper, root).names("/etc") == []
    assert outcome(tree(upper, root), "/etc/name") == "absent"


def test_a_mount_covers_the_layers_and_the_deepest_wins(root: Path, tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    for directory in (outer, inner):
        directory.mkdir()
        (directory / "file").write_text(directory.name)
    files = tree(root, mounts=[("/etc", str(outer)), ("/etc/deep/er", str(inner))])
    assert files.read("/etc/file") == b"outer"
    assert files.read("/etc/deep/er/file") == b"inner"
    assert outcome(files, "/etc/name") == "absent"


def test_a_named_pipe_does_not_block(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert outcome(tree(root), "/pipe") == "absent"


def test_no_more_than_the_limit_is_read(root: Path) -> None:
    assert tree(root).read("/etc/name", 3) == b"ins"


def test_a_process_is_read_through_its_root() -> None:
    content = Path("/etc/passwd").read_bytes()
    assert process_tree(os.getpid()).read("/etc/passwd") == content


def test_layers_and_mounts_of_a_stopped_container() -> None:
    inspect = {
        "Id": "0123456789abcdef",
        "GraphDriver": {"Name": "overlay2", "Data": {"UpperDir": "/u", "LowerDir": "/l1:/l2"}},
        "Mounts": [{"Source": "/models", "Destination": "/m/"}, {"Type": "tmpfs", "Destination": "/t"}],
    }
    files = stopped_tree(inspect, told_layers(inspect))
    assert files.layers == ["/u", "/l1", "/l2"]
    assert files.mounts == [("/m", "/models")]
    assert files.label == "the storage of container 0123456789ab"


@pytest.mark.parametrize(
    ("inspect", "name"),
    [
        ({"Storage": {"RootFS": {"Snapshot": {"Name": "overlayfs"}}}}, "overlayfs"),
        ({"GraphDriver": {"Name": "overlayfs", "Data": None}}, "overlayfs"),
        ({"GraphDriver": {"Name": "zfs", "Data": {"Dataset": "x"}}}, "zfs"),
        ({}, ""),
    ],
)
def test_storage_that_tells_no_layers(inspect: dict[str, Any], name: str) -> None:
    assert told_layers(inspect) == []
    assert storage_name(inspect) == name


@given(
    st.text(alphabet=st.sampled_from("ab./"), max_size=20),
    st.text(alphabet=st.sampled_from("ab./"), min_size=1, max_size=20),
)
def test_no_path_and_no_link_leads_outside(
    tmp_path_factory: pytest.TempPathFactory, path: str, target: str
) -> None:
    base = tmp_path_factory.mktemp("base")
    (base / "root" / "a").mkdir(parents=True)
    (base / "root" / "b").symlink_to(target)
    try:
        places = tree(base / "root").find(path).places
    except ProbeFailure:
        return
    assert all((place + "/").startswith(str(base / "root") + "/") for place in places)
