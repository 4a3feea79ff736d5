# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections import Counter

import pytest

CONFUSION: Counter[tuple[str, str, str]] = Counter()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The confusion table of the worked cases: expected class, class found, how sure."""
    if not CONFUSION:
        return
    terminalreporter.section("first failure: expected class, found class, confidence, cases")
    for (expected, found, confidence), count in sorted(CONFUSION.items()):
        mark = " " if expected == found else "*"
        terminalreporter.write_line(f"{mark} {expected:34} {found:34} {confidence:8} {count:3}")
