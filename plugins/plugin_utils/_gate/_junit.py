# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement as JUnit XML, which pipelines show as tests (private to the collection, controller only;
pure).

One test case per rule and host. A required rule that failed is a failure, one that is undecided an error;
what does not apply is skipped. Attributes as https://github.com/testmoapp/junitxml describes them.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._judge import Finding, Result
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    FAIL,
    GROUP,
    NOT_APPLICABLE,
    PASS,
    UNDECIDED,
)

# Characters that XML 1.0 cannot hold.
_FOREIGN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: Result, name: str, time: str) -> bytes:
    """The document."""
    suites: dict[str, list[ElementTree.Element]] = {}
    for finding in result.findings:
        if finding.rule.scope == GROUP:
            suites.setdefault("launch group", []).append(_case(finding, "launch group"))
            continue
        for host in finding.hosts:
            suites.setdefault(host, []).append(_case(finding, host))
    root = ElementTree.Element("testsuites", {"name": _clean(name)})
    for suite, cases in suites.items():
        counts = {kind: str(sum(case.find(kind) is not None for case in cases))
                  for kind in ("failure", "error", "skipped")}  # fmt: skip
        attributes = {
            "name": _clean(suite),
            "tests": str(len(cases)),
            "failures": counts["failure"],
            "errors": counts["error"],
            "skipped": counts["skipped"],
            "timestamp": time.rstrip("Z"),
        }
        ElementTree.SubElement(root, "testsuite", attributes).extend(cases)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _case(finding: Finding, owner: str) -> ElementTree.Element:
    answer = finding.answer
    case = ElementTree.Element("testcase", {"classname": _clean(owner), "name": finding.rule.id})
    text = _clean(f"wanted: {answer.wanted}\nfound: {answer.found}\n{answer.reason}\ndo: {answer.remedy}")
    message = {"message": _clean(answer.reason or answer.found)}
    counted = finding.counts_as
    if counted == FAIL:
        ElementTree.SubElement(case, "failure", {**message, "type": "fail"}).text = text
    elif counted == UNDECIDED:
        ElementTree.SubElement(case, "error", {**message, "type": "undecided"}).text = text
    elif counted == NOT_APPLICABLE:
        ElementTree.SubElement(case, "skipped", message)
    elif answer.verdict != PASS:
        waived = f"\nwaived until {finding.waiver.until}: {finding.waiver.reason}" if finding.waiver else ""
        ElementTree.SubElement(case, "system-out").text = _clean(f"{answer.verdict}: {text}{waived}")
    return case


def _clean(text: str) -> str:
    return _FOREIGN.sub("?", text)
