# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Linters and type checks of the whole checkout; none of them asks a server."""

from __future__ import annotations

from _step import Step

HOST_CODE = ["plugins/module_utils", "plugins/modules"]
OWN_REFERENCES = ["--validate-collection-refs", "self"]
CHECKS = {
    "ruff": ["ruff", "check", "--output-format", "concise", "."],
    "mypy": ["mypy", "-p", "ansible_collections.gpufleet.baseline.plugins"],
    # Syntax and library of the oldest Python of a host, also where no such Python is found to run the tests.
    "vermin": ["vermin", "--target=3.9-", "--no-tips", "--violations", *HOST_CODE],
    "ansible-lint": ["ansible-lint", "--offline", "--nocolor"],
    "antsibull-docs": ["antsibull-docs", "lint-collection-docs", "--plugin-docs", *OWN_REFERENCES, "."],
    "antsibull-changelog": ["antsibull-changelog", "lint"],
}

if __name__ == "__main__":
    step = Step("lint")
    for title, command in CHECKS.items():
        step.run(title, command)
    step.end()
