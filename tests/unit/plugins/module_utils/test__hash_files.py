# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hashing a model: at a limited rate, damaged files seen, one path costs itself only."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import List

from ansible_collections.gpufleet.baseline.plugins.module_utils import _hash_files
from ansible_collections.gpufleet.baseline.plugins.module_utils._hash_files import MIB, Pace, hash_paths


class Clock:
    """Time that goes on by sleeping only."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: List[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def pace(mib_per_second: float = 1e6) -> Pace:
    clock = Clock()
    return Pace(mib_per_second, lambda: clock.now, clock.sleep)


def test_every_file_below_the_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.bin").write_bytes(b"a")
    (tmp_path / "sub" / "b.bin").write_bytes(b"bb")
    document = hash_paths([str(tmp_path), str(tmp_path / "none")], pace())
    files = document["paths"][str(tmp_path)]["value"]
    assert {name: entry["bytes"] for name, entry in files.items()} == {"a.bin": 1, "sub/b.bin": 2}
    assert files["a.bin"]["sha256"] == hashlib.sha256(b"a").hexdigest()
    assert document["paths"][str(tmp_path / "none")]["outcome"] == "absent"


def test_a_file_in_a_cache_has_the_name_of_its_blob(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / ("a" * 64)
    blob.parent.mkdir()
    blob.write_bytes(b"x")
    model = tmp_path / "model"
    model.mkdir()
    (model / "m.safetensors").symlink_to(blob)
    files = hash_paths([str(model)], pace())["paths"][str(model)]["value"]
    assert files["m.safetensors"]["blob"] == "a" * 64


def test_a_broken_link_and_an_empty_directory_are_told(tmp_path: Path) -> None:
    assert hash_paths([str(tmp_path)], pace())["paths"][str(tmp_path)]["outcome"] == "error"
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    answer = hash_paths([str(tmp_path)], pace())["paths"][str(tmp_path)]
    assert answer["outcome"] == "absent"
    assert "gone" in answer["message"]


def test_the_rate_is_limited(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(b"\0" * (3 * _hash_files.BLOCK))
    clock = Clock()
    hash_paths([str(tmp_path)], Pace(2.0, lambda: clock.now, clock.sleep))
    assert sum(clock.slept) == 3 * _hash_files.BLOCK / MIB / 2.0


def test_a_slow_disk_is_not_slowed_further() -> None:
    clock = Clock()
    slow = Pace(1.0, lambda: clock.now, clock.sleep)
    clock.now += 60
    slow.passed(MIB)
    assert clock.slept == []
