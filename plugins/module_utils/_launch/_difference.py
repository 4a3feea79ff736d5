# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The difference of two launches as a list of changed variables, and back (private to the collection; pure).

Order of flags and variables means nothing, values of JSON are compared by their content.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._flags import parse
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Launch, RankLaunch
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._topology import settled
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._variables import (
    ALL,
    Key,
    Variable,
    of_launch,
    of_rank,
    with_variable,
)


@dataclass(frozen=True)
class Change:
    """One variable that is not the same in two launches; None where a launch does not have it."""

    variable: Variable
    before: Optional[str]
    after: Optional[str]

    @property
    def text(self) -> str:
        """For people, in one line."""
        values = [
            None if value is None else replace(self.variable, value=value, scope=ALL).text
            for value in (self.before, self.after)
        ]
        told = " -> ".join(value or "not set" for value in values)
        name = "" if all(values) or self.variable.kind not in ("env", "flag") else f"{self.variable.name}: "
        scope = f"rank {self.variable.scope}: " if self.variable.scope else ""
        return scope + name + told

    def as_dict(self) -> Dict[str, Any]:
        """For documents."""
        return {
            "kind": self.variable.kind,
            "name": self.variable.name,
            "scope": self.variable.scope,
            "before": self.before,
            "after": self.after,
            "text": self.text,
        }


def difference(before: Launch, after: Launch) -> List[Change]:
    """Every variable that differs; empty when both are the same launch by meaning."""
    changes = _changes(_single(of_launch(before)), _single(of_launch(after)))
    old = {str(rank.node_rank): of_rank(rank) for rank in before.ranks}
    new = {str(rank.node_rank): of_rank(rank) for rank in after.ranks}
    return [*changes, *_changes(old, new)]


def apply(launch: Launch, changes: Sequence[Change], like: Optional[Launch] = None) -> Launch:
    """The launch with these changes made.

    With ``like``, ranks that then mean the same as its own take over its order of words and variables.
    """
    for change in changes:
        variable = change.variable
        launch = with_variable(launch, variable.kind, variable.name, change.after, variable.scope)
    launch = settled(launch)
    if like is None:
        return launch
    others = {rank.node_rank: rank for rank in like.ranks}
    return replace(launch, ranks=tuple(_ordered(rank, others.get(rank.node_rank)) for rank in launch.ranks))


def _ordered(rank: RankLaunch, like: Optional[RankLaunch]) -> RankLaunch:
    if like is None:
        return rank
    if parse(rank.argv).meaning() == parse(like.argv).meaning():
        rank = replace(rank, argv=like.argv)
    if dict(rank.env) == dict(like.env):
        rank = replace(rank, env=like.env)
    if of_rank(rank) == of_rank(like):
        rank = replace(rank, container=like.container, process=like.process)
    return rank


def _single(values: Mapping[Key, str]) -> Dict[str, Dict[Key, str]]:
    return {ALL: dict(values)}


def _changes(old: Dict[str, Dict[Key, str]], new: Dict[str, Dict[Key, str]]) -> List[Change]:
    """Changes by scope; one for all scopes where both launches have one value on all of the same ranks."""
    scopes = list(dict.fromkeys([*old, *new]))
    keys = dict.fromkeys(key for ranks in (old, new) for values in ranks.values() for key in values)
    found: List[Change] = []
    for kind, name in keys:
        pairs = {
            scope: (old.get(scope, {}).get((kind, name)), new.get(scope, {}).get((kind, name)))
            for scope in scopes
        }
        if len(set(pairs.values())) == 1 and set(old) == set(new):
            pairs = {ALL: pairs[scopes[0]]}
        for scope, (before, after) in pairs.items():
            if before != after:
                value = after if after is not None else before
                found.append(Change(Variable(kind, name, value or "", scope), before, after))
    return found
