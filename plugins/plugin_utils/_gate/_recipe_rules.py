# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the boundary itself: how old, from where, what changed (private to the collection, controller
only; pure).
"""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    Answer,
    Case,
    Rule,
    days_ago,
    not_applicable,
    passed,
    warned,
)

RENEW = "check the recipe and renew the pin (docs/adding-a-boundary.md), or give gate_recipe"


def pin_age(case: Case) -> Answer:
    """A person checked the pinned boundary not long ago, or the recipe was read for this run."""
    state = case.recipe
    if state.pin_age_days is None:
        return not_applicable("no pinned boundary is in use")
    found = f"{state.pin} was checked {days_ago(state.pin_age_days)}"
    wanted = f"checked within {case.options.stale_after_days} days"
    if state.pin_age_days > case.options.stale_after_days and not state.live_read_at:
        reason = f"{found}; what the recipe says now is not known"
        return warned(found, reason, RENEW).want(wanted)
    if state.pin_age_days < 0:
        return warned(found, "the pin's day lies in the future", RENEW).want(wanted)
    return passed(found).want(wanted)


def recipe_live(case: Case) -> Answer:
    """The configured recipe was read again for this run."""
    state = case.recipe
    if not state.configured:
        return not_applicable("no recipe is configured (gate_recipe): the pin alone holds")
    wanted = "read for this run"
    if state.unreachable:
        remedy = "give the controller a way to the recipe, or a local copy of it"
        return warned("not read, the pin holds", state.unreachable, remedy).want(wanted)
    commit = f", commit {state.live_commit[:12]}" if state.live_commit else ""
    return passed(f"read at {state.live_read_at}{commit}").want(wanted)


def recipe_drift(case: Case) -> Answer:
    """Pin and recipe say the same."""
    state = case.recipe
    if not state.live_read_at or not state.pin:
        return not_applicable("there are no two boundaries to compare")
    wanted = "pin and recipe agree"
    if state.differences:
        texts = "; ".join(difference.text for difference in state.differences)
        reason = f"the recipe and the pin differ: {texts}"
        many = f"{len(state.differences)} limits differ" if len(state.differences) > 1 else "a limit differs"
        return warned(many, reason, RENEW).want(wanted)
    return passed("agree").want(wanted)


def recipe_changed(case: Case) -> Answer:
    """The recipe is the one of the last run: a changed recipe is a changed variable."""
    if case.recipe.changed_since_last_run:
        reason = case.recipe.changed_since_last_run
        remedy = "count it as a changed variable, or read the recipe at a fixed commit"
        return warned("changed", reason, remedy).want("as in the last run")
    if not case.recipe.live_read_at:
        return not_applicable("no recipe was read for this run")
    return passed("as in the last run, or the first one").want("as in the last run")


RULES = (
    Rule("recipe.pin", "age of the pin", ADVISORY, group=pin_age),
    Rule("recipe.live", "recipe read", ADVISORY, group=recipe_live),
    Rule("recipe.drift", "pin and recipe", ADVISORY, group=recipe_drift),
    Rule("recipe.changed", "recipe since last run", ADVISORY, group=recipe_changed),
)
