# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts of hosts on a screen: nothing in them moves the cursor."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import clip, plain
from hypothesis import given
from hypothesis import strategies as st

ODD = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x200E, 0x202E, 0x2028, 0x2066]))
PIECES = st.lists(
    st.one_of(
        st.text(),
        st.text(ODD),
        st.sampled_from(
            ["\x1b[2J", "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x9b5A", "\x1b"]
        ),
    )
).map("".join)


@given(PIECES)
def test_nothing_but_printable_characters_is_left(text):
    found = plain(text)
    assert all(character.isprintable() for character in found)
    assert "\u202e" not in found


@given(PIECES)
def test_what_is_plain_stays_as_it_is(text):
    once = plain(text)
    assert plain(once) == once


@given(st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126)))
def test_plain_words_lose_nothing(text):
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO ready", "(APIServer pid=1) INFO ready"),
        ("\x1b]0;owned\x07text", "text"),
        ("\x1b]52;c;ZWNobyBoaQ==\x1b\\text", "text"),
        ("a\x08\x08b", "ab"),
        ("tab\tstop", "tab stop"),
        ("one\nline\r\nonly", "one line  only"),
        ("\x1b]0;never ended\nthe next line", " the next line"),
        ("\x9b31mred", "red"),
        ("\x1b(Bplain", "plain"),
    ],
)
def test_known_sequences(text, shown):
    assert plain(text) == shown


def test_what_fits_is_whole_and_the_rest_says_that_it_is_cut():
    assert clip("a" * 100) == "a" * 100
    assert clip("a" * 101) == "a" * 97 + "..."
