# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all unit tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

ROOT = Path(__file__).resolve().parents[2]

# Programs that a test starts import the collection too: from ansible-test's copy of the tree, or by the link.
COLLECTIONS = ROOT.parents[2] if ROOT.parts[-3] == "ansible_collections" else ROOT / ".cache" / "tree"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(COLLECTIONS), os.environ.get("PYTHONPATH")]))

# No deadline: a busy machine is not a wrong answer. CI tries the same examples each time, others new ones.
settings.register_profile(
    "baseline",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
    database=None
    if "CI" in os.environ
    else DirectoryBasedExampleDatabase(str(ROOT / ".cache" / "hypothesis")),
)
settings.load_profile("baseline")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder beside the checkout with real captures and worked cases."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder ../shared beside the checkout: its captures and cases are not tested")
    return folder
