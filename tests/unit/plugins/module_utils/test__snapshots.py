# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers of a container in containerd's own database, from a recording made with containerd 1.6.20.

Eight layers of an image and sixty snapshots over them, made by `ctr snapshots prepare`; the directory of each
was told by `ctr snapshots mounts`.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._bolt import BoltError, Bucket, open_bolt
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure
from ansible_collections.gpufleet.baseline.plugins.module_utils._snapshots import find_layers, layers_in
from hypothesis import given
from hypothesis import strategies as st

RECORDING = Path(__file__).resolve().parents[3] / "fixtures" / "containerd" / "metadata-1.6.20.db.gz"
DATABASE = gzip.decompress(RECORDING.read_bytes())
PAGE = 4096


@pytest.fixture
def snapshotter(tmp_path: Path) -> Path:
    directory = tmp_path / "io.containerd.snapshotter.v1.overlayfs"
    directory.mkdir()
    (directory / "metadata.db").write_bytes(DATABASE)
    return directory


def numbers(layers: list[str]) -> list[int]:
    return [int(Path(layer).parent.name) for layer in layers]


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        (f"{0xDEADBEEF + 30:064x}", [39, 7, 6, 5, 4, 3, 2, 1]),
        (f"{0xDEADBEEF + 1:064x}", [10, 7, 6, 5, 4, 3, 2, 1]),
        (f"{0xDEADBEEF + 60:064x}", [69, 7, 6, 5, 4, 3, 2, 1]),
        ("c0ffee" + "0" * 58, [8, 2, 1]),
        ("c0ffee", []),
        ("f" * 64, []),
    ],
)
def test_chain_of_a_container(snapshotter: Path, identifier: str, expected: list[int]) -> None:
    assert numbers(layers_in(str(snapshotter), identifier)) == expected


def test_layers_are_the_directories_of_the_snapshotter(snapshotter: Path) -> None:
    layers = layers_in(str(snapshotter), "c0ffee" + "0" * 58)
    assert layers[0] == f"{snapshotter}/snapshots/8/fs"


def test_every_place_that_was_tried_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailure) as caught:
        find_layers("f" * 64, "overlayfs", str(tmp_path))
    assert caught.value.reading.outcome == "absent"
    assert (
        f"{tmp_path}/containerd/daemon/io.containerd.snapshotter.v1.overlayfs" in caught.value.reading.message
    )


def test_a_docker_daemon_with_its_own_containerd(tmp_path: Path) -> None:
    directory = tmp_path / "containerd" / "daemon" / "io.containerd.snapshotter.v1.overlayfs"
    directory.mkdir(parents=True)
    (directory / "metadata.db").write_bytes(DATABASE)
    assert numbers(find_layers("c0ffee" + "0" * 58, "overlayfs", str(tmp_path))) == [8, 2, 1]


def test_a_head_that_was_being_written_is_not_trusted() -> None:
    """Each head alone leads to a whole database; with both broken it is none."""
    for broken in (0, PAGE):
        content = bytearray(DATABASE)
        content[broken + 40] ^= 0xFF
        assert open_bolt(bytes(content)).bucket(b"v1") is not None
        content[PAGE - broken + 40] ^= 0xFF
        with pytest.raises(BoltError, match="neither head is whole"):
            open_bolt(bytes(content))


def test_a_database_cut_off_is_an_error_and_names_its_file(snapshotter: Path) -> None:
    (snapshotter / "metadata.db").write_bytes(DATABASE[: 3 * PAGE])
    with pytest.raises(ProbeFailure) as caught:
        layers_in(str(snapshotter), "f" * 64)
    assert caught.value.reading.outcome == "error"
    assert caught.value.reading.message.startswith(f"{snapshotter}/metadata.db: ")


@given(st.integers(2 * PAGE, len(DATABASE) - 1), st.binary(min_size=1, max_size=64))
def test_no_damage_hangs_or_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, start: int, damage: bytes
) -> None:
    content = DATABASE[:start] + damage + DATABASE[start + len(damage) :]
    try:
        walk(open_bolt(content), 0)
    except BoltError:
        return


def walk(bucket: Bucket, depth: int) -> None:
    for _key, value, is_bucket in bucket.items():
        if is_bucket and depth < 5:
            walk(bucket.opened(value), depth + 1)
