# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The worked cases: logs with the right answers beside them, in the folder shared with the checkout."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import Judge, LogSource

ROOT = Path(__file__).resolve().parents[5]
SHARED = ROOT.parent / "shared" / "cases"
MISSING = "the folder of worked cases is not beside this checkout"


@dataclass
class Case:
    """One case: its logs as bytes, and what is right."""

    name: str
    sources: list[LogSource]
    texts: list[bytes]
    expect: dict[str, Any]
    state: dict[str, Any] | None = None

    @property
    def stages(self) -> list[str]:
        return self.expect.get("acceptable_stages") or [self.expect["first_failed_stage"]]

    @property
    def classes(self) -> list[str]:
        return self.expect.get("acceptable_classes") or [self.expect["failure_class"]]

    def judge(self, texts: list[bytes] | None = None, **arguments: Any) -> dict[str, Any]:
        judge = Judge(self.sources, self.state, **arguments)
        for index, text in enumerate(self.texts if texts is None else texts):
            judge.feed(index, text)
            judge.end(index)
        return judge.verdict()


def load() -> list[Case]:
    """All cases, none when the folder is missing."""
    cases = []
    for folder in sorted(SHARED.glob("logs/*")) + sorted(SHARED.glob("real/*")):
        expect = yaml.safe_load((folder / "expect.yml").read_text(encoding="utf-8"))
        offsets = expect.get("clock_offset_seconds") or {}
        sources, texts = [], []
        for path in sorted(folder.glob("log*.txt")):
            node = int(path.stem.removeprefix("log-node")) if "node" in path.stem else 0
            kind = "kernel" if "kernel" in path.stem else "auto"
            offset = float(offsets.get(f"node{node}", 0)) if isinstance(offsets, dict) else 0.0
            sources.append(LogSource(path.name, node, offset, kind))
            texts.append(path.read_bytes())
        state = folder / "inspect-state.json"
        inspected = json.loads(state.read_text(encoding="utf-8")) if state.exists() else None
        cases.append(Case(folder.name, sources, texts, expect, inspected))
    return cases
