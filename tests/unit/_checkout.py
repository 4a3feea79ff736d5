# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the checkout, for the tests that read all of them."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files(*folders: str) -> list[Path]:
    """All files that git knows or would add, below the folders or everywhere, relative to the checkout."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(Path(name) for name in set(names) if name and (ROOT / name).is_file())


def python_files(*folders: str) -> list[Path]:
    """The Python files among them."""
    return [path for path in files(*folders) if path.suffix == ".py"]


def modules() -> list[Path]:
    """The modules of the collection."""
    return [path for path in python_files("plugins/modules") if path.name != "__init__.py"]


def tree(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse((ROOT / path).read_text("utf-8"), str(path))


def is_documentation(node: ast.AST) -> bool:
    """Whether a statement sets one of the documentation strings of a module."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(target, ast.Name) and target.id in {"DOCUMENTATION", "EXAMPLES", "RETURN"}


def documentation(path: Path) -> dict[str, str]:
    """The documentation strings of a module by name."""
    found = {}
    for node in tree(path).body:
        if is_documentation(node):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


def prose(parsed: ast.Module) -> set[ast.Constant]:
    """The strings of a file that only people read: docstrings and documentation."""
    found = set()
    for node in ast.walk(parsed):
        alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if alone or is_documentation(node):
            found.add(node.value)
    return found
