# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fact with how it was come by: "not measured" never looks like a value (private to the collection).

In a document every fact is ``{"value": ..., "outcome": ..., "source": ..., "message": ...}``. The outcome is
one of the six of a probe. A fact whose outcome is not ok may still carry a value: what was seen before the
end, with the message saying why it is not to be trusted as whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT, OK, SKIPPED, Probe


@dataclass(frozen=True)
class Measured:
    """A fact: its value, one of the six outcomes, where it was read, and why it is not ok."""

    value: Any = None
    outcome: str = OK
    source: str = ""
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether the value was measured, whole."""
        return self.outcome == OK

    def as_dict(self) -> Dict[str, Any]:
        """The fact as it stands in a document."""
        return {"value": self.value, "outcome": self.outcome, "source": self.source, "message": self.message}


def not_asked(name: str) -> Measured:
    """The fact of a question that was not asked in this run."""
    return Measured(None, SKIPPED, "", "not asked: the probe %s was not part of this run" % name)


def from_probe(
    probe: Optional[Probe], pick: Optional[Callable[[Any], Any]] = None, name: str = ""
) -> Measured:
    """A probe's answer as a fact; ``pick`` takes the fact out of the value, None when it is not there.

    An answer that is not ok keeps its outcome and its reason; what was seen of it stays as the value.
    """
    if probe is None:
        return not_asked(name)
    source = probe.source or probe.name
    value = probe.value if pick is None or probe.value is None else pick(probe.value)
    if probe.outcome != OK:
        return Measured(value, probe.outcome, source, probe.message)
    if value is None:
        return Measured(None, ABSENT, source, probe.message or "%s does not tell it" % source)
    return Measured(value, OK, source, probe.message)


def first_ok(*facts: Measured) -> Measured:
    """The first fact that was measured; else the first that is more than absent; else the first."""
    for fact in facts:
        if fact.ok:
            return fact
    return next((fact for fact in facts if fact.outcome not in (ABSENT, SKIPPED)), facts[0])


def plain(value: Any) -> Any:
    """A document with every Measured in it turned into its dictionary."""
    if isinstance(value, Measured):
        return plain(value.as_dict())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
