# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate over 1,000 recorded hosts, against the time that Python's own JSON reader takes for the same documents.

Prints wall time and processor time of each part: reading the documents, the rules' view of them, judging, and writing
gate.json, JUnit, the page and the table. The budget is for the view and the judgement.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Callable
from typing import TypeVar

from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate import (
    _documents,
    _judge,
    _junit,
    _report,
    _table,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import Case, RecipeState
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report import _page
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._report._gate_section import gate_section
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate import _made

BUDGET_SECONDS = 2.0
T = TypeVar("T")
TOOK: dict[str, tuple[float, float]] = {}


def timed(name: str, work: Callable[[], T]) -> T:
    """Do the work and note how long it took."""
    wall, used = time.perf_counter(), time.process_time()
    result = work()
    TOOK[name] = (time.perf_counter() - wall, time.process_time() - used)
    return result


def main() -> None:
    """Make the hosts, judge them, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    count = parser.parse_args().hosts
    texts = [json.dumps(_made.with_engine(_made.document(number))) for number in range(count)]
    pin = _boundary_pin.load("kimi-k3")
    choice = pin.choice()
    documents = timed("json.loads", lambda: [json.loads(text) for text in texts])
    hosts = timed(
        "view",
        lambda: tuple(
            _documents.host_facts(f"h{number}", made, "run-001", "2026-11-30T12:00:00Z")
            for number, made in enumerate(documents)
        ),
    )
    case = Case(
        pin.boundary(choice), hosts, pin.launch(choice), RecipeState(pin.name, 0), today=datetime.date.today()
    )
    result = timed("judge", lambda: _judge.judge(case))
    document = _report.document(result, {"sources": []}, [], {})
    timed("gate.json", lambda: json.dumps(document, indent=1, sort_keys=True))
    timed("JUnit", lambda: _junit.junit(result, "gate", "2026-11-30T12:00:00Z"))
    timed("page", lambda: _page.render("gate", result.verdict, "", [gate_section(document)], ""))
    timed("table", lambda: _table.render(result, "gate", []))
    print(
        f"{'part':<12}{'wall s':>10}{'cpu s':>10}   gate over {count} hosts, {sum(map(len, texts)) >> 20} MiB"
    )
    for name, (wall, used) in TOOK.items():
        print(f"{name:<12}{wall:>10.2f}{used:>10.2f}")
    spent = TOOK["view"][1] + TOOK["judge"][1]
    words = "within" if spent <= BUDGET_SECONDS else "OVER"
    print(f"view + judge {spent:.2f} s cpu, {words} {BUDGET_SECONDS:g} s; verdict {result.verdict}")


if __name__ == "__main__":
    main()
