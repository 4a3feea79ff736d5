# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of a launch: the one id that every host holds (private to the collection, controller only; pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._launch._model import Image


def one_image(reference: str, ids: Mapping[str, str], hosts: Sequence[str]) -> Image:
    """The image by its id; an error names the hosts that have none or another one."""
    missing = [host for host in hosts if not ids.get(host)]
    if missing:
        raise BaselineError(
            f"expected the image {reference} on every host, found none on {', '.join(missing)}; pull or load it there "
            f"(docker pull {reference})"
        )
    found: dict[str, list[str]] = {}
    for host in hosts:
        found.setdefault(ids[host], []).append(host)
    if len(found) > 1:
        told = "; ".join(f"{identifier} on {', '.join(names)}" for identifier, names in found.items())
        raise BaselineError(
            f"expected one id of the image {reference} on all hosts, found {told}; bring the same image to all of them"
        )
    return Image("" if reference.startswith("sha256:") else reference, next(iter(found)))


def id_in_facts(reference: str, facts: Any) -> str:
    """The id of an image among the facts of a host, by tag, digest or id; empty when it is not there."""
    engine = facts.get("engine") if isinstance(facts, Mapping) else None
    images = engine.get("images") if isinstance(engine, Mapping) else None
    listed = images.get("value") if isinstance(images, Mapping) else None
    for image in listed or []:
        names = [image.get("id"), *(image.get("tags") or []), *(image.get("digests") or [])]
        if reference in names or (":" not in reference.rpartition("/")[2] and f"{reference}:latest" in names):
            return str(image["id"])
    return ""
