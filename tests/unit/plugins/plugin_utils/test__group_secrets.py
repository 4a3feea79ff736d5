# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's own texts lose the secrets that only the hosts know."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._group_secrets import GroupSecrets
from hypothesis import given
from hypothesis import strategies as st

KEY = bytes(range(32))
SECRET = "Zq8LxW4tNv7RkPc2Ym5Hs9Bd"


def on_the_host() -> Redactor:
    redactor = Redactor(KEY)
    redactor.learn(SECRET.encode(), "API_KEY")
    return redactor


def secrets() -> GroupSecrets:
    return GroupSecrets(KEY, on_the_host().digests())


@pytest.mark.parametrize("around", ["{}", "say {}.", "'{}'", "a={}&b", "x_{}_y", "<{}>", "ä{}ö"])
def test_a_value_of_a_host_becomes_the_stand_in_of_its_record(around):
    assert on_the_host().redact_text(SECRET) in secrets().redact(around.format(SECRET))
    assert SECRET not in secrets().redact(around.format(SECRET))


def test_nested_documents_keep_their_shape():
    document = {"who": "me", "list": [1, None, f"say {SECRET}"]}
    found = secrets().redact(document)
    assert found == {"who": "me", "list": [1, None, f"say {on_the_host().redact_text(SECRET)}"]}


def test_without_digests_names_and_forms_still_count():
    text = GroupSecrets(KEY).redact_text('{"api_key": "Kx7pQ2mN9vB4tL6w"}')
    assert "Kx7p" not in text


@given(st.text(), st.text())
def test_the_value_never_survives_and_twice_changes_nothing(before, after):
    once = secrets().redact_text(f"{before} {SECRET} {after}")
    assert SECRET not in once
    assert secrets().redact_text(once) == once


@given(st.text(alphabet="abcdefgh -_./:", max_size=80))
def test_other_texts_stay_as_they_are(text):
    assert secrets().redact_text(text) == text
