# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The view of a terminal: each frame over the one before, from the files alone."""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_files import Events, events_path
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_view import View


def test_frames(tmp_path):
    view = View(tmp_path)
    assert view.frame(0.0) == ""
    one, two = (Events(events_path(tmp_path, f"tray-{host}", n)) for n, host in enumerate("ab"))
    one.append({"time": 10.0, "kind": "stage", "stage": "weights", "substage": "load"})
    one.append({"time": 11.0, "kind": "progress", "what": "counted", "text": "12/62"})
    two.append({"time": 11.0, "kind": "state", "running": True})
    first = view.frame(12.0)
    assert first.count("\n") == 2
    assert not first.startswith("\x1b[")
    assert "tray-a         rank 0   weights/load           12/62\x1b[K\n" in first
    two.append({"time": 50.0, "kind": "end", "outcome": "failed", "reason": "exit code 1\x1b[2J"})
    second = view.frame(60.0)
    assert second.startswith("\x1b[2F")
    assert "12/62, quiet for 49 s" in second
    assert "failed: exit code 1\x1b[K" in second
    assert "\x1b[2J" not in second


def test_a_lost_connection_comes_back(tmp_path):
    view, events = View(tmp_path), Events(events_path(tmp_path, "a", 0))
    events.append({"time": 1.0, "kind": "connection lost", "text": "x"})
    assert "connection lost" in view.frame(2.0)
    events.append({"time": 3.0, "kind": "sample", "gpu_memory": {"A": 1024**3}})
    assert "GPU memory 1.0 GiB" in view.frame(4.0)
    events.append({"time": 5.0, "kind": "ready"})
    assert "ready" in view.frame(6.0)
