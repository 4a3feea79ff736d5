# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that hold for every file of the checkout: licence, size, names, nothing private."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.tests.unit._checkout import ROOT, files, prose, python_files

HEADER_KINDS = {".py", ".sh", ".yml", ".yaml", ".ini", ".toml", ".c", ".h", ".j2"}
HEADER_NAMES = {"Makefile", "run"}
# Recordings are kept as they were recorded; the changelog is written by its tool.
WITHOUT_HEADER = ("tests/fixtures/", "tests/lab/engine/recordings/", "changelogs/changelog.yaml")

MODULE_LIMIT, OTHER_LIMIT = 250, 300
# Files that may be longer, with the reason.
LONGER = {
    "tests/lab/engine/stand_in.py": "one file, for it is copied into an image and run there on its own",
}

PRIVATE_NAMES = {"module_utils", "plugin_utils", "doc_fragments"}
UNWANTED = {
    "a path of one machine": re.compile(rb"/work/(?:main|shared|\.library)"),
    "a package index by its host": re.compile(rb"(?:pypi|pythonhosted|npmjs|deb\.debian)\.(?:org|com)"),
}


def names(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths]


def with_header() -> list[Path]:
    wanted = [path for path in files() if path.suffix in HEADER_KINDS or path.name in HEADER_NAMES]
    return [path for path in wanted if not str(path).startswith(WITHOUT_HEADER)]


@pytest.mark.parametrize("path", names(with_header()))
def test_every_file_says_its_licence(path: str) -> None:
    beginning = (ROOT / path).read_text("utf-8").splitlines()[:6]
    assert any("Copyright (c) 2026, the gpufleet.baseline authors" in line for line in beginning)
    assert any("SPDX-License-Identifier: GPL-3.0-or-later" in line for line in beginning)


def lines_of_code(text: str) -> int:
    """Lines with code on them: no blank lines, comments, docstrings or documentation."""
    parsed = ast.parse(text)
    told = {
        line for node in prose(parsed) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    silent = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - told)


def test_lines_of_code_leaves_out_what_people_read() -> None:
    told = '"""Doc\n\nstring."""\n\n# comment\nDOCUMENTATION = r"""\na: 1\n"""\n\n'
    text = told + 'x = """a\nb"""  # why\n\n\ndef f():\n    return x\n'
    assert lines_of_code(text) == 4


@pytest.mark.parametrize("path", names(python_files()))
def test_no_file_is_too_long(path: str) -> None:
    limit = MODULE_LIMIT if path.startswith("plugins/modules/") else OTHER_LIMIT
    length = lines_of_code((ROOT / path).read_text("utf-8"))
    if path in LONGER:
        assert length > limit, f"{path} is short enough again: take it off the list"
    else:
        assert length <= limit, f"{path} has {length} lines of code, more than {limit}: split it by subject"


@pytest.mark.parametrize("path", names([p for p in python_files("plugins") if p.parts[1] in PRIVATE_NAMES]))
def test_shared_code_is_private(path: str) -> None:
    below = Path(path).parts[2:]
    assert below[-1] == "__init__.py" or below[0].startswith("_")
    parsed = ast.parse((ROOT / path).read_text("utf-8"))
    if below[-1] != "__init__.py":
        assert "private" in (ast.get_docstring(parsed) or "")


@pytest.mark.parametrize("path", names([p for p in python_files("plugins") if p.name != "__init__.py"]))
def test_annotations_are_never_evaluated(path: str) -> None:
    parsed = ast.parse((ROOT / path).read_text("utf-8"))
    future = [
        node for node in parsed.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    assert [alias.name for node in future for alias in node.names] == ["annotations"]


@pytest.mark.parametrize("path", names(files()))
def test_nothing_private_is_named(path: str) -> None:
    content = (ROOT / path).read_bytes()
    for what, pattern in UNWANTED.items():
        found = pattern.search(content)
        assert found is None, f"{path} names {what}: {found}"


def test_no_text_cites_the_notes_beside_the_checkout(shared: Path) -> None:
    notes = {path.name for path in shared.rglob("*.md") if path.name != "README.md"}
    assert notes, "expected notes in ../shared"
    pattern = re.compile("|".join(rf"(?<![\w-]){re.escape(name)}" for name in sorted(notes)).encode())
    citing = {
        str(path): found.group() for path in files() if (found := pattern.search((ROOT / path).read_bytes()))
    }
    assert not citing
