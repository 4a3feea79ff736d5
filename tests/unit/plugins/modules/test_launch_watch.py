# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
import yaml
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.modules import launch_watch

HANDLE = {"rank": 0, "process": {"pid": 2**22 + 5, "start_ticks": 1}, "log": {"path": "/nothing"}}


def params(**given):
    spec = launch_watch.argument_spec()
    return {**{name: option.get("default") for name, option in spec.items()}, "ranks": [HANDLE], **given}


def test_the_documented_options_are_those_of_the_spec() -> None:
    documented = yaml.safe_load(launch_watch.DOCUMENTATION)["options"]
    spec = launch_watch.argument_spec()
    assert set(documented) == set(spec)
    for name, option in spec.items():
        for key in ("type", "default", "choices", "required"):
            assert documented[name].get(key) == option.get(key), (name, key)


def test_what_must_not_be_logged_is_not() -> None:
    spec = launch_watch.argument_spec()
    assert {name for name, option in spec.items() if option.get("no_log")} == {
        "secrets",
        "redaction_key",
        "carried_libraries",
    }


def test_a_process_that_is_over_is_told() -> None:
    result = launch_watch.answer(params(redaction_key="6b" * 32, wait_seconds=0.0))
    assert result["ended"]
    assert result["ranks"][0]["state"]["running"] is False


@pytest.mark.parametrize(("key", "words"), [("", "found none"), ("xyz", "hexadecimal")])
def test_no_line_without_a_key(key: str, words: str) -> None:
    with pytest.raises(BaselineError, match=words):
        launch_watch.answer(params(redaction_key=key))


def test_evidence_of_a_process_that_is_over_is_empty() -> None:
    for collect in ("evidence", "python_stacks"):
        assert launch_watch.answer(params(collect=collect))["evidence"]["ranks"] == {"0": []}
