# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads an official recipe: the boundary of a model, its launch, and what was read (private to the
collection).

Controller only. A model file in YAML gives the boundary; the launch is published by the recipe site only,
as JSON. From a model's JSON the reader follows the site's own links to the file of the hardware, strategy
and variant that are asked for, and from such a file it goes back to the model's, which lies at a place that
the format fixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import (
    _recipe_launch,
    _recipe_model,
    _recipe_source,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Boundary, Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import Document, parse
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_launch import Launch
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_source import Source

Read = Callable[[str], Source]

# ROOT/ORGANISATION/MODEL.json, and below it the files of hardware and strategies.
_LAUNCH_PLACE = re.compile(
    r"^(?P<root>.*?)/(?P<model>[^/]+/[^/]+)/(?:hw/[^/]+(?:/strategies/[^/]+)?|strategies/[^/]+)\.json$"
)
_LINK = re.compile(r"^(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)+\.json$")
_MODEL_YAML = re.compile(r"^(?P<root>.*)/models/[^/]+/[^/]+\.ya?ml$")


@dataclass
class Recipe:
    """What was read of a recipe; the launch is None where the source holds none."""

    boundary: Boundary
    launch: Launch | None
    sources: list[Source]
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The form that the lookup returns."""
        return {
            "boundary": self.boundary.as_dict(),
            "launch": self.launch.as_dict() if self.launch else None,
            "source": {
                **self.sources[0].as_dict(),
                "files": [source.as_dict() for source in self.sources],
                "notes": self.notes,
            },
        }


class _Files:
    """The files of one recipe, each read once."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.sources: dict[str, Source] = {}
        self.documents: dict[str, Document] = {}

    def document(self, location: str) -> Document:
        if location not in self.documents:
            source = self.read(location)
            self.sources[location] = source
            self.documents[location] = parse(_recipe_source.shown(location), source.content)
        return self.documents[location]


def read_recipe(location: str, choice: Choice, read: Read = _recipe_source.read) -> Recipe:
    """Read a recipe for one choice; every part that cannot be found as asked is an error."""
    files = _Files(read)
    first = files.document(location)
    launch_part = _recipe_launch.published(first)
    if launch_part is None:
        if not _recipe_model.is_model(first):
            raise BaselineError(
                f"{_recipe_source.shown(location)}: expected a model file of the recipes or the JSON that "
                "the recipe site publishes, found neither; see https://github.com/vllm-project/recipes"
            )
        return _from_yaml(files, location, first, choice)
    return _from_json(files, location, first, choice)


def _from_yaml(files: _Files, location: str, model: Document, choice: Choice) -> Recipe:
    notes = ["a model file holds no launch: give the JSON that the recipe site publishes for it"]
    chosen = Choice(
        choice.hardware or model.text("meta", "default_hardware"), choice.strategy, choice.variant
    )
    profile = None
    place = _MODEL_YAML.match(location)
    if place and chosen.hardware:
        profile = _profile(files, place.group("root") + "/taxonomy.yaml", chosen.hardware, notes)
    boundary = _recipe_model.boundary_of(model, chosen, profile)
    return Recipe(boundary, None, list(files.sources.values()), notes)


def _profile(files: _Files, location: str, hardware: str, notes: list[str]) -> dict[str, Any] | None:
    """The taxonomy's profile of a hardware, where the taxonomy lies beside the model file."""
    try:
        return files.document(location).mapping("hardware_profiles", hardware) or None
    except BaselineError as error:
        notes.append(f"hosts and GPU memory by the collection's own table: {error}")
        return None


def _from_json(files: _Files, location: str, first: Document, choice: Choice) -> Recipe:
    root, model_at = _places(location, first)
    model = files.document(model_at)
    if not _recipe_model.is_model(model):
        raise BaselineError(
            f"{model.location}: expected the model that {first.location} belongs to, found none"
        )
    variant = choice.variant
    if variant not in ("default", _part(first).text("variant")):
        # The site publishes each variant as a model of its own, in which it is the default.
        location = _follow(root, _variant_link(model, variant), model)
        first, variant = files.document(location), "default"
    found = _find_launch(files, root, first, Choice(choice.hardware, choice.strategy, variant))
    launch = _recipe_launch.launch_of(found)
    profile = found.mapping("hardware_profile") or _profile_of(files, root, model_at, launch.hardware)
    chosen = Choice(launch.hardware, launch.strategy, choice.variant)
    boundary = _recipe_model.boundary_of(model, chosen, profile or None)
    return Recipe(boundary, launch, list(files.sources.values()), _contradictions(boundary, launch))


def _variant_link(model: Document, variant: str) -> str:
    if variant not in model.mapping("variants"):
        raise BaselineError(
            f"{model.location}: expected as variant one of "
            f"{', '.join(model.mapping('variants'))}; found {variant}"
        )
    return model.need_text("variants", variant, "json")


def _places(location: str, first: Document) -> tuple[str, str]:
    """The root of the site and the place of the model's file, from the place of any file of the model."""
    place = _LAUNCH_PLACE.match(location)
    if place:
        return place.group("root"), f"{place.group('root')}/{place.group('model')}.json"
    name = first.text("hf_id")
    tail = f"/{name}.json"
    return (location.removesuffix(tail) if name and location.endswith(tail) else ""), location


def _follow(root: str, link: str, document: Document) -> str:
    """The place of a link of the site: below its root, nowhere else."""
    if not root:
        raise BaselineError(
            f"{document.location}: expected the file at ORGANISATION/MODEL.json as its hf_id says, so that "
            f"its links can be followed; found a link to {link}"
        )
    if not _LINK.match(link) or ".." in link:
        raise BaselineError(
            f"{document.location}: expected a link to a JSON file of the site, found {link[:80]!r}"
        )
    return root + link


def _find_launch(files: _Files, root: str, first: Document, choice: Choice) -> Document:
    """The published launch that was asked for, at the end of the site's links."""
    part = _part(first)
    for what, asked, links in (
        ("hardware", choice.hardware, "by_hardware"),
        ("strategy", choice.strategy, "alternatives"),
    ):
        if asked and part.text(what) != asked:
            if asked not in part.mapping(links):
                _not_published(part, what, asked, links)
            part = _part(files.document(_follow(root, part.text(links, asked), part)))
    for what, asked in (
        ("hardware", choice.hardware),
        ("strategy", choice.strategy),
        ("variant", choice.variant),
    ):
        if asked and part.text(what) != asked:
            part.wrong(asked, part.text(what), what)
    return part


def _part(document: Document) -> Document:
    part = _recipe_launch.published(document)
    if part is None:
        raise BaselineError(f"{document.location}: expected a published launch, found none")
    return part


def _not_published(part: Document, what: str, asked: str, links: str) -> None:
    known = dict.fromkeys([part.text(what), *part.mapping(links)])
    of = f" for {part.text('hardware')}" if what == "strategy" else ""
    raise BaselineError(f"{part.location}: expected as {what}{of} one of {', '.join(known)}; found {asked}")


def _profile_of(files: _Files, root: str, model_at: str, hardware: str) -> dict[str, Any]:
    """The hardware's profile stands in the file of the hardware, not in those of its strategies."""
    at = f"{model_at.removesuffix('.json')}/hw/{hardware}.json"
    try:
        return _part(files.document(at)).mapping("hardware_profile") if root else {}
    except BaselineError:
        return {}


def _contradictions(boundary: Boundary, launch: Launch) -> list[str]:
    """Where the published launch does not fit the model's own limits."""
    notes = []
    image = boundary.value("image")
    if image and image != launch.image:
        notes.append(f"the published launch has the image {launch.image}, the model's texts name {image}")
    hosts = boundary.value("hosts")
    if hosts and launch.hosts < hosts:
        needed = boundary.limit("gpu_count")
        notes.append(
            f"the published launch has {launch.hosts} hosts; by the recipe's own numbers {needed.value} GPUs "
            f"({needed.where}) need {hosts}"
        )
    return notes
