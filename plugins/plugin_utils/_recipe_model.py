# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a model file of the recipes to its compatibility boundary (private to the collection, controller
only).

Pure. The official YAML and the JSON that the recipe site publishes for a model have the same parts where
this file reads. Every limit says how it was come by: a field of the file, its prose, or arithmetic over
these. What the file does not state has no value; nothing is filled in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _recipe_prose as prose
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import (
    Boundary,
    Choice,
    Limit,
    as_version,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary_hardware import HARDWARE, NVIDIA
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import Document
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe_document import prose as texts_of

FACTS = ("architecture", "parameter_count", "active_parameters", "context_length", "nightly_required")


def is_model(document: Document) -> bool:
    """Whether a document is a model of the recipes: it has a model id and variants."""
    return isinstance(document.get("model"), dict) and isinstance(document.get("variants"), dict)


def boundary_of(document: Document, choice: Choice, profile: dict[str, Any] | None = None) -> Boundary:
    """The boundary of a model for one choice of hardware, strategy and variant; ``profile`` is the
    taxonomy's.
    """
    _check_choice(document, choice, profile)
    finds = prose.find(texts_of(document))
    limits: dict[str, Limit] = {}
    notes: list[str] = []
    limits["vllm"] = _vllm(document, choice.variant)
    limits["memory_gb"] = _memory(document, choice.variant)
    limits["driver_branch"] = _highest(finds, prose.DRIVER, notes)
    limits["cuda"] = _highest(finds, prose.CUDA, notes)
    limits["image"] = _image(document, choice, finds, notes)
    per_host, per_gpu = _shape(choice.hardware, profile)
    limits["gpu_count"] = _gpu_count(document, choice, finds, limits["memory_gb"], per_gpu, notes)
    limits["hosts"] = _hosts(limits["gpu_count"], per_host)
    limits["gpu_model"] = Limit(choice.hardware or None, "choice" if choice.hardware else "", "hardware")
    _note_status(document, choice, notes)
    return Boundary(
        model=_model_id(document, choice.variant),
        choice=choice,
        limits=limits,
        features=_features(document),
        facts={
            key: value for key in FACTS if isinstance(value := document.get("model", key), (str, int, float))
        },
        notes=tuple(notes),
        dates={key: text for key in ("date_added", "date_updated") if (text := document.text("meta", key))},
    )


def strategies_of(document: Document, hardware: str) -> list[str]:
    """The strategies that a model file lists for a hardware; none for published JSON, which links launches
    instead.
    """
    listed = document.texts("compatible_strategies")
    if not listed:
        return []
    for strategy in document.mapping("strategy_hardware"):
        status = document.mapping("strategy_hardware", strategy).get(hardware)
        if status == "unsupported":
            listed = [name for name in listed if name != strategy]
        elif status is not None and strategy not in listed:
            listed.append(strategy)
    return listed


def _check_choice(document: Document, choice: Choice, profile: dict[str, Any] | None) -> None:
    document.need_text("model", "model_id")
    variants = document.mapping("variants")
    if choice.variant not in variants:
        _unknown(document, "variant", choice.variant, list(variants))
    known = [*document.mapping("meta", "hardware"), *HARDWARE]
    if choice.hardware and choice.hardware not in known and profile is None:
        _unknown(document, "hardware", choice.hardware, list(dict.fromkeys(known)))
    listed = strategies_of(document, choice.hardware)
    if choice.strategy and listed and choice.strategy not in listed:
        _unknown(document, f"strategy for {choice.hardware or 'any hardware'}", choice.strategy, listed)


def _unknown(document: Document, what: str, found: str, known: Sequence[str]) -> None:
    raise BaselineError(f"{document.location}: expected as {what} one of {', '.join(known)}; found {found}")


def _model_id(document: Document, variant: str) -> str:
    return document.text("variants", variant, "model_id") or document.need_text("model", "model_id")


def _memory(document: Document, variant: str) -> Limit:
    path = ("variants", variant, "vram_minimum_gb")
    value = document.number(*path)
    return Limit() if value is None else Limit(value, "field", ".".join(path))


def _vllm(document: Document, variant: str) -> Limit:
    """The higher of the model's and the variant's own minimum."""
    found = [
        Limit(text, "field", ".".join(path))
        for path in (("variants", variant, "min_vllm_version"), ("model", "min_vllm_version"))
        if (text := document.text(*path))
    ]
    for limit in found:
        if not as_version(str(limit.value)):
            document.wrong("a version", limit.value, *limit.where.split("."))
    return max(found, key=lambda limit: as_version(str(limit.value)), default=Limit())


def _highest(finds: Sequence[prose.Find], name: str, notes: list[str]) -> Limit:
    """The strictest of what the sentences say; two places that disagree are noted."""
    said = [find for find in finds if find.limit == name]
    if not said:
        return Limit()
    strictest = max(said, key=lambda find: as_version(find.value))
    values = sorted({find.value for find in said}, key=as_version)
    if len(values) > 1:
        notes.append(f"the recipe's texts disagree on {name}: {', '.join(values)}; the strictest is used")
    where = ", ".join(dict.fromkeys(find.where for find in said if find.value == strictest.value))
    value: Any = int(strictest.value) if name == prose.DRIVER else strictest.value
    return Limit(value, "prose", where, strictest.sentence)


def _image(document: Document, choice: Choice, finds: Sequence[prose.Find], notes: list[str]) -> Limit:
    """The image that the model asks for: a field, else the one that its texts name for this brand of GPU."""
    brand = HARDWARE[choice.hardware].brand if choice.hardware in HARDWARE else NVIDIA
    for path in (("variants", choice.variant, "docker_image"), ("model", "docker_image")):
        stated = document.get(*path)
        if isinstance(stated, dict):
            stated = stated.get(brand) or (
                next(iter(stated.values())) if len(stated) == 1 and brand == NVIDIA else None
            )
            if brand == NVIDIA and stated and _is_amd(str(stated)):
                stated = None
        if stated is not None and not isinstance(stated, str):
            document.wrong("an image's name or a mapping of them", stated, *path)
        if stated:
            return Limit(stated, "field", ".".join(path))
    said = [find for find in finds if find.limit == prose.IMAGE and _for_brand(find.value, brand)]
    names = list(dict.fromkeys(find.value for find in said))
    if len(names) == 1:
        where = ", ".join(dict.fromkeys(find.where for find in said))
        return Limit(names[0], "prose", where, said[0].sentence)
    if names:
        notes.append(f"the recipe's texts name several images, so that none is the limit: {', '.join(names)}")
    return Limit()


def _is_amd(image: str) -> bool:
    return "rocm" in image


def _for_brand(image: str, brand: str) -> bool:
    if brand != NVIDIA:
        return _is_amd(image)
    return not any(other in image.partition(":")[0] for other in ("rocm", "cpu", "xpu", "tpu"))


def _shape(hardware: str, profile: dict[str, Any] | None) -> tuple[int, float | None]:
    """GPUs per host, and memory of one GPU by the recipe's own numbers."""
    known = HARDWARE.get(hardware)
    if profile:
        count, memory = profile.get("gpu_count"), profile.get("vram_gb")
        if not isinstance(count, int) or not isinstance(memory, (int, float)) or count < 1:
            raise BaselineError(
                f"expected gpu_count and vram_gb in the profile of {hardware}, found {count} and {memory}"
            )
        return count, memory / count
    return (known.gpus_per_host if known else 0), None


def _gpu_count(
    document: Document,
    choice: Choice,
    finds: Sequence[prose.Find],
    memory: Limit,
    per_gpu: float | None,
    notes: list[str],
) -> Limit:
    """The most GPUs that any part of the recipe asks for."""
    found = []
    for key in (choice.strategy, choice.hardware):
        count = document.number("strategy_min_gpus", key) if key else None
        if count is not None:
            found.append(Limit(int(count), "field", f"strategy_min_gpus.{key}"))
    for find in finds:
        if find.limit != prose.GPUS:
            continue
        if choice.hardware in find.gpus or not choice.hardware:
            found.append(Limit(int(find.value), "prose", find.where, find.sentence))
        elif any(HARDWARE[name].brand == NVIDIA for name in find.gpus if name in HARDWARE):
            other = f"{find.value} x {'/'.join(find.gpus)}"
            notes.append(f"the text asks for {other}, not for {choice.hardware}: {find.where}")
    if memory.value is not None and per_gpu:
        found.append(
            Limit(math.ceil(memory.value / per_gpu), "arithmetic", f"{memory.where} / {per_gpu:g} GB per GPU")
        )
    return max(found, key=lambda limit: (limit.value, limit.how == "prose"), default=Limit())


def _hosts(count: Limit, per_host: int) -> Limit:
    if count.value is None or not per_host:
        return Limit()
    return Limit(math.ceil(count.value / per_host), "arithmetic", f"{count.where} / {per_host} GPUs per host")


def _note_status(document: Document, choice: Choice, notes: list[str]) -> None:
    listed = document.mapping("meta", "hardware")
    if choice.hardware and choice.hardware not in listed:
        notes.append(
            f"the recipe does not list {choice.hardware} among its hardware: {', '.join(listed) or 'none'}"
        )
    elif choice.hardware and listed[choice.hardware] != "verified":
        notes.append(f"the recipe calls {choice.hardware} {listed[choice.hardware]}, not verified")
    if document.get("model", "nightly_required") is True:
        notes.append("the recipe asks for a nightly build of vLLM")


def _features(document: Document) -> dict[str, Any]:
    """What can be switched on: its flags, and whether the official launch leaves it out unless asked."""
    opt_in = document.texts("opt_in_features")
    found = {}
    for name in document.mapping("features"):
        found[name] = {
            "description": document.text("features", name, "description"),
            "args": document.texts("features", name, "args"),
            "strategies": document.texts("features", name, "strategies"),
            "opt_in": name in opt_in,
        }
    return found
