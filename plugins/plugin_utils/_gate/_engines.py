# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules about engines share: which engines there are to judge, and one answer for all of a host
(private to the collection, controller only; pure).
"""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Engine, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    NOT_APPLICABLE,
    VERDICTS,
    Answer,
    Case,
    not_applicable,
    unmeasured,
)

NO_ENGINE = "no engine on any host of the launch group yet: judged when there is one"


def without_engine(case: Case, host: HostFacts) -> Answer | None:
    """Why there is no engine to judge on a host; None when there is one.

    An engine is wanted on every host as soon as one host has one; before that there is nothing to judge.
    """
    if not host.engines_read.ok and not host.engines:
        return unmeasured("the engines of the host", host.engines_read)
    if host.engines:
        return None
    if case.has_engine:
        fact = Measured(None, ABSENT, host.engines_read.source, "no engine on this host, others have one")
        return unmeasured(
            "the engine", fact, "create the engine on this host too, or take it out of the group"
        )
    return not_applicable(NO_ENGINE)


def without_container(case: Case, host: HostFacts) -> Answer | None:
    """Why there is no container to judge on a host; None when there is one."""
    none = without_engine(case, host)
    if none is None and not containers(host):
        return not_applicable("no container on this host")
    return none


def hosts_with_engines(case: Case) -> tuple[list[HostFacts], dict[str, Measured]] | None:
    """The hosts of a group to compare by their engines, and those on which that is not known, with the reason.

    None when it is known that there is no engine yet.
    """
    hosts: list[HostFacts] = []
    unread: dict[str, Measured] = {}
    for host in case.measured:
        none = without_engine(case, host)
        if none is None:
            hosts.append(host)
        elif none.verdict != NOT_APPLICABLE:
            unread[host.name] = none.facts[0]
    return None if case.measured and not hosts and not unread else (hosts, unread)


def containers(host: HostFacts) -> tuple[Engine, ...]:
    """The engines of a host that are containers."""
    return tuple(engine for engine in host.engines if engine.in_container)


def over_engines(answers: list[tuple[Engine, Answer]], good: Answer) -> Answer:
    """One answer for all engines of a host: the worst one."""
    if not answers:
        return good
    engine, answer = max(answers, key=lambda item: VERDICTS.index(item[1].verdict))
    found = f"{engine.name}: {answer.found}" if answer.found else engine.name
    return Answer(**{**vars(answer), "found": found})


def version_of(engine: Engine, name: str) -> str:
    """A named version in an engine; several copies of it are told together."""
    found = (engine.versions.value or {}).get(name) or []
    return ", ".join(str(version) for version in (found if isinstance(found, list) else [found]))
