# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the hosts' own documents, clocks and ports (private to the collection, controller only;
pure).
"""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    REQUIRED,
    Answer,
    Case,
    Rule,
    not_applicable,
    passed,
    undecided,
    unmeasured,
    warned,
)


def facts_there(_case: Case, host: HostFacts) -> Answer:
    """There are facts of this host, and they are of this run."""
    wanted = "facts of this run"
    if host.reason:
        remedy = "make the host reachable and run the gate over the whole launch group"
        return undecided("none", host.reason, remedy).want(wanted)
    return passed(f"measured at {host.time}" if host.time else "there").want(wanted)


def clock(case: Case, host: HostFacts) -> Answer:
    """The host's clock agrees with the controller's: logs of several hosts are read side by side."""
    wanted = f"within {case.options.clock_skew_seconds:g} s"
    fact = host.fact("clock")
    if not fact.ok:
        return unmeasured("the host's clock", fact).want(wanted)
    heard = case.options.heard_between.get(host.name)
    if heard is None:
        return not_applicable("recorded facts: there is no clock to compare with")
    asked, answered = heard
    now = float(fact.value["now"])
    # The clock was read some time between question and answer: only what lies outside of that is certain.
    off = now - answered if now > answered else now - asked if now < asked else 0.0
    if abs(off) > case.options.clock_skew_seconds:
        side = "ahead of" if off > 0 else "behind"
        reason = f"the host's clock is {abs(off):.1f} s {side} the controller's"
        return warned(f"{off:+.1f} s", reason, "let chrony or another service keep the time", fact).want(
            wanted
        )
    return passed("agrees with the controller's", fact).want(wanted)


def clocks_together(case: Case) -> Answer:
    """Something keeps the time on every host."""
    loose = []
    for host in case.measured:
        kernel = (host.value("clock") or {}).get("kernel") or {}
        if kernel.get("synchronized") is False:
            loose.append(host.name)
    wanted = "every clock kept in step"
    if loose:
        reason = "nothing keeps these clocks in step: times of several hosts cannot be put in order"
        answer = warned(", ".join(loose[:6]), reason, "run chrony or systemd-timesyncd")
        return Answer(**{**vars(answer), "hosts": tuple(loose)}).want(wanted)
    unread = [host.name for host in case.measured if not host.fact("clock").ok]
    if unread or not case.measured:
        return undecided("not measured", "the clock was not read", "measure again").want(wanted)
    return passed(f"{len(case.measured)} hosts").want(wanted)


def ports(case: Case, host: HostFacts) -> Answer:
    """The launch's ports are free, or an engine of the group listens there."""
    if not case.options.ports:
        return not_applicable("no ports were named")
    wanted = "free: " + ", ".join(str(port) for port in case.options.ports)
    fact = host.fact("listening")
    if not fact.ok:
        return unmeasured("the ports in use", fact).want(wanted)
    taken = sorted({int(row["port"]) for row in fact.value} & set(case.options.ports))
    if not taken:
        return passed("free", fact).want(wanted)
    found = ", ".join(str(port) for port in taken)
    if any(engine.running for engine in host.engines):
        return passed(f"{found} in use while an engine runs", fact).want(wanted)
    reason = f"the port {found} is in use and no engine runs: the next start fails to bind it"
    return warned(found, reason, "find the process that listens there", fact).want(wanted)


RULES = (
    Rule("facts.there", "facts of this run", REQUIRED, host=facts_there),
    Rule("host.clock", "clock", ADVISORY, host=clock, reads=("clock",)),
    Rule("host.time_service", "time service", ADVISORY, group=clocks_together, reads=("clock",)),
    Rule("host.ports", "ports free", ADVISORY, host=ports, reads=("listening",)),
)
