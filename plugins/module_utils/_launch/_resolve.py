# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill the names that an official launch leaves open, per host (private to the collection; pure).

``$NAME``, ``${NAME}`` and a leading ``~`` are filled from a mapping of the host; whatever ``$`` is left is
refused, for it would reach the engine as a literal one.
"""

from __future__ import annotations

import re
from typing import Mapping

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

HOME = "HOME"
_OPEN = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_]\w*)\}|(?P<plain>[A-Za-z_]\w*))")
_HOME = re.compile(r"^~(?=/|$)")


def resolve(word: str, values: Mapping[str, str], host: str) -> str:
    """A word with its open names filled; an error names the host, the word and the name."""

    def filled(found: re.Match[str]) -> str:
        name = found.group("braced") or found.group("plain")
        if not values.get(name):
            raise BaselineError(
                f"{host}: expected a value for ${name} in {word!r}, found none; {_advice(name)}"
            )
        return values[name]

    # A value that holds a $ itself is no open name: only what the word itself says is filled.
    pieces = _OPEN.split(word)
    if "$" in "".join(pieces[:: _OPEN.groups + 1]):
        raise BaselineError(
            f"{host}: expected no $ but those of open names, found {word!r}; write the value itself"
        )
    told = _OPEN.sub(filled, word)
    if not _HOME.match(word):
        return told
    if not values.get(HOME):
        raise BaselineError(
            f"{host}: expected the home directory for ~ in {word!r}, found none; set gpufleet_home of the host, or "
            "give launch_mounts with absolute paths"
        )
    return values[HOME] + told[1:]


def _advice(name: str) -> str:
    known = {
        "IFACE_NAME": "set gpufleet_interface of the host",
        "HEAD_IP": "set gpufleet_address of the first host",
        "OWN_IP": "set gpufleet_address of the host",
    }
    return known.get(name, f"give it in launch_placeholders ({name}: VALUE)")
