# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From answers to the document of a host: ``gpufleet.baseline/host/1`` (pure; private to the collection)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils import (
    _change_logs,
    _changes,
    _kernel_log,
    _packages,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import (
    Measured,
    from_probe,
    not_asked,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, OK, SKIPPED, Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import utc

SCHEMA = "gpufleet.baseline/host/1"

Answers = Mapping[str, Probe]

_KERNEL_LOGS = ("kernel.journal", "kernel.dmesg", "kernel.log_file")

_PLAIN = {
    "system": "host.system",
    "os": "host.os",
    "boot": "host.boot",
    "time": "host.time",
    "time_keeping": "host.chrony",
    "memory": "host.memory",
    "processors": "host.processors",
    "numa": "host.numa",
    "mounts": "host.mounts",
    "limits": "host.limits",
    "settings": "host.settings",
    "listening": "host.listening",
}

# One source of the timeline: its name for people, and the probe that gives its events.
_CHANGES = (
    ("dpkg log", "changes.dpkg"),
    ("apt history", "changes.apt"),
    ("dnf log", "changes.dnf"),
    ("yum log", "changes.yum"),
    ("journal boots", "changes.boots"),
    ("wtmp boots", "changes.last"),
    ("service starts", "changes.services"),
    ("times of files", "changes.files"),
)


def host_document(answers: Answers) -> Dict[str, Any]:
    """The document of the host itself."""
    facts = {key: from_probe(answers.get(name), name=name) for key, name in _PLAIN.items()}
    return {
        "schema": SCHEMA,
        **facts,
        "load": from_probe(answers.get("host.load"), str.strip, "host.load"),
        "space": _space(answers),
        "packages": _package_facts(answers),
        "services": {
            "units": from_probe(answers.get("services.units"), name="services.units"),
            "daemons": from_probe(answers.get("services.daemons"), name="services.daemons"),
        },
        "kernel_log": _kernel_facts(answers),
        "changes": read_changes(answers),
    }


def _space(answers: Answers) -> Dict[str, Measured]:
    prefix = "host.space."
    names = [name for name in answers if name.startswith(prefix)]
    return {name[len(prefix) :]: from_probe(answers[name]) for name in names}


def _package_facts(answers: Answers) -> Dict[str, Measured]:
    """Packages of whichever package tools the host has; both may be there."""
    asked = [from_probe(answers.get(name), name=name) for name in ("packages.dpkg", "packages.rpm")]
    best = _one_of(asked)
    rows = [row for fact in asked if fact.ok for row in fact.value]

    def about(value: Any) -> Measured:
        return Measured(value if best.ok else None, best.outcome, best.source, best.message)

    return {
        "count": about(len(rows)),
        "relevant": about(_packages.relevant(rows)),
        "held": about(sorted(row["name"] for row in rows if row["held"])),
        "unfinished": about(_packages.unfinished(rows)),
        "reboot_required": _reboot_required(answers.get("packages.reboot_required")),
    }


def _one_of(facts: Sequence[Measured]) -> Measured:
    """Of tools of which a host has one or the other: one that failed counts more than an absent one."""
    failed = [fact for fact in facts if fact.outcome not in (OK, ABSENT, SKIPPED)]
    good = [fact for fact in facts if fact.ok]
    return (failed or good or list(facts))[0]


def _reboot_required(probe: Optional[Probe]) -> Measured:
    """The packages that wait for a reboot. That the file is not there is an answer: none does."""
    if probe is None:
        return not_asked("packages.reboot_required")
    if probe.outcome == ABSENT:
        return Measured([], OK, probe.source or probe.name, "there is no such file")
    return from_probe(probe, lambda text: sorted(set(text.split())))


def kernel_events(answers: Answers) -> Tuple[List[Dict[str, Any]], Measured]:
    """The events of all kernel logs together, and how reading them went: one good log is enough."""
    asked = [from_probe(answers.get(name), name=name) for name in _KERNEL_LOGS]
    events = _kernel_log.merge(*(fact.value["events"] if fact.value else [] for fact in asked))
    good = [fact for fact in asked if fact.ok]
    if good:
        return events, Measured(None, OK, ", ".join(fact.source for fact in good))
    worst = next((fact for fact in asked if fact.outcome not in (ABSENT, SKIPPED)), asked[0])
    return events, Measured(None, worst.outcome, worst.source, worst.message)


def _kernel_facts(answers: Answers) -> Dict[str, Any]:
    events, fact = kernel_events(answers)
    kept, left_out = _kernel_log.condense(events)
    shown = [{"at": utc(event["time"]), **event} for event in kept]
    return {
        "events": Measured(shown, fact.outcome, fact.source, fact.message),
        "left_out": left_out,
        "counts": Measured(_kernel_log.count(events), fact.outcome, fact.source, fact.message),
    }


def read_changes(answers: Answers) -> Dict[str, Any]:
    """The timeline of earlier changes, of everything but containers."""
    sources = [_source(title, answers.get(name)) for title, name in _CHANGES]
    rpm = answers.get("packages.rpm")
    if rpm is not None and rpm.outcome == OK:
        sources.append(_changes.Source("rpm database", events=_change_logs.rpm_events(rpm.value)))
    events, fact = kernel_events(answers)
    loads = [
        _changes.event(event["time"], "kernel module nvidia %s was loaded" % event["meaning"], "driver")
        for event in events
        if event["kind"] == "driver load"
    ]
    sources.append(_changes.Source("kernel log", fact.outcome, fact.message, loads, _kernel_begins(answers)))
    return _changes.timeline(sources)


def _kernel_begins(answers: Answers) -> Optional[float]:
    """The earliest line of any kernel log."""
    probes = (answers.get(name) for name in _KERNEL_LOGS)
    begins = [probe.value["begins"] for probe in probes if probe is not None and probe.value]
    return min((time for time in begins if time is not None), default=None)


def _source(title: str, probe: Optional[Probe]) -> _changes.Source:
    if probe is None:
        return _changes.Source(title, SKIPPED, "not asked in this run")
    value = probe.value or {"events": (), "begins": None}
    return _changes.Source(title, probe.outcome, probe.message, value["events"], value["begins"])
