# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each known way to go wrong, of a collector of evidence (T1 to T27), of a gate (T28 to T37) and of its score (T52),
has a test that is named after it.
"""

from __future__ import annotations

import re

from ansible_collections.gpufleet.baseline.tests.unit._checkout import ROOT, python_files

TRAPS = {*range(1, 38), 52}


def test_every_trap_has_a_test() -> None:
    tested: set[int] = set()
    for path in python_files("tests", "molecule"):
        for traps in re.findall(r"^\s*def test((?:_t\d+)+)_", (ROOT / path).read_text("utf-8"), re.MULTILINE):
            tested |= {int(number) for number in re.findall(r"\d+", traps)}
    without = sorted(TRAPS - tested)
    assert without == []
