# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shown lines: nothing in them moves the cursor, and they fit."""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import WIDTH, plain
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._watch_lines import (
    amounts,
    clean_command,
    message,
    rank_line,
)
from hypothesis import given
from hypothesis import strategies as st

ODD = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x202E, 0x2028, 0x2066]))
PIECES = st.lists(
    st.one_of(
        st.text(),
        st.text(ODD),
        st.sampled_from(
            ["\x1b[2J", "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x9b5A", "\x1b"]
        ),
    )
).map("".join)


@given(PIECES, st.integers(0, 10**6), PIECES)
def test_a_line_of_a_rank_fits(host, rank, text):
    assert len(rank_line(host, rank, "engine", "graph-capture", plain(text))) <= WIDTH


def test_of_a_redrawn_bar_the_last_state():
    line = "2026-12-01T01:02:03.123456789Z stderr \rGraphs: 10%| 1/10\rGraphs: 20%| 2/10\r"
    assert message(line) == "Graphs: 20%| 2/10"


def test_amounts():
    sample = {
        "rank_gpu_memory": {"A": 2 * 1024**3, "B": 1024**3},
        "bytes_read": 5 * 1024**3,
        "bytes_from_disk": 0,
    }
    assert amounts("12/62", sample) == "12/62, GPU memory 3.0 GiB on 2, read 5.0 GiB"
    assert amounts("", {"gpu_memory": None, "bytes_read": None}) == ""


def test_the_command_can_be_pasted():
    assert clean_command("/srv/my run/run-001", ["inventories/gb300"]) == (
        "ansible-playbook gpufleet.baseline.clean -i inventories/gb300 -e 'run=/srv/my run/run-001'"
    )
