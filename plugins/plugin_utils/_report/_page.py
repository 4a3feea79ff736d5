# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a run: one HTML file that asks for nothing outside (private to the collection, controller only).

All texts come from hosts and logs and are escaped by Jinja2; a section gives values, its template only shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._plain import plain
from markupsafe import Markup

TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class Section:
    """A part of the page: its heading, its template, and the values for it."""

    heading: str
    template: str
    values: Mapping[str, Any]

    @property
    def anchor(self) -> str:
        """The section's place in links."""
        return self.heading.lower().replace(" ", "-")


def _shown(value: Any) -> Any:
    """Texts lose what acts on a terminal or turns the direction of writing; what is marked as HTML already did."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(title: str, verdict: str, summary: str, sections: Sequence[Section], verify: str) -> bytes:
    """The page; ``verdict`` is one word, ``verify`` the command that checks the checksums."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    page: str = environment.get_template("page.html.j2").render(
        title=title, verdict=verdict, summary=summary, sections=sections, verify=verify
    )
    # Half a character, as in a file name that is no text, cannot be written as UTF-8.
    return page.encode("utf-8", "backslashreplace")
