# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every document that the collection writes or reads names its schema, and docs/ describes it."""

from __future__ import annotations

import ast
import re

from ansible_collections.gpufleet.baseline.tests.unit._checkout import ROOT, files, python_files, tree

SCHEMA = re.compile(r"gpufleet\.baseline/[a-z_-]+/\d+")


def schemas_of_plugins() -> dict[str, str]:
    """Each schema with a file that has it."""
    found: dict[str, str] = {}
    for path in python_files("plugins"):
        for node in ast.walk(tree(path)):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and SCHEMA.fullmatch(node.value)
            ):
                found[node.value] = str(path)
    return found


def test_docs_describe_every_schema_and_no_other() -> None:
    known = schemas_of_plugins()
    assert {"gpufleet.baseline/run/1", "gpufleet.baseline/manifest/1"} <= set(known)
    text = "\n".join((ROOT / path).read_text("utf-8") for path in files("docs") if path.suffix == ".md")
    described = set(SCHEMA.findall(text))
    assert {schema: path for schema, path in known.items() if schema not in described} == {}
    assert described - set(known) == set()
