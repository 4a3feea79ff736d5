# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections import Counter

import pytest

_CONFUSION = pytest.StashKey[Counter[tuple[str, str, str]]]()


@pytest.fixture(scope="session")
def confusion(request: pytest.FixtureRequest) -> Counter[tuple[str, str, str]]:
    """Counts (expected class, class found, confidence) over the session."""
    return request.config.stash.setdefault(_CONFUSION, Counter())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The confusion table of the worked cases; a star marks another class than the preferred one."""
    counted = terminalreporter.config.stash.get(_CONFUSION, None)
    if not counted:
        return
    terminalreporter.section("first failure: expected class, found class, confidence, cases")
    for (expected, found, confidence), count in sorted(counted.items()):
        mark = " " if expected == found else "*"
        terminalreporter.write_line(f"{mark} {expected:34} {found:34} {confidence:8} {count:3}")
