# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule about the CUDA in the image (private to the collection, controller only; pure).

Of an engine, the newest of what its image and its torch tell counts; before there is one, what the image itself
says by its variables or labels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured, first_ok
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import as_version
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._driver_rules import compare_cuda
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._engines import (
    over_engines,
    without_engine,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Engine, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._image_rules import same_image
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    NOT_APPLICABLE,
    REQUIRED,
    Answer,
    Case,
    Rule,
    passed,
    unmeasured,
)

# The first condition of NVIDIA_REQUIRE_CUDA; what follows it are brands and drivers that may do with less.
_REQUIRES = re.compile(r"^\s*cuda>=(\d+\.\d+)")
COMPAT_FLAG = "VLLM_ENABLE_CUDA_COMPATIBILITY"


def model_image(case: Case, host: HostFacts) -> Mapping[str, Any] | None:
    """The image of the boundary among those of the host, for a host on which nothing was created from it yet."""
    wanted = str(case.boundary.value("image") or "")
    for image in host.value("images") or ():
        names = (*(image.get("tags") or ()), *(image.get("digests") or ()))
        if wanted and any(same_image(str(name), wanted) for name in names):
            found: Mapping[str, Any] = image
            return found
    return None


def _inspected(image: Mapping[str, Any], host: HostFacts) -> Measured:
    """What the image itself tells; a fact that was not measured when it was not inspected."""
    told = image.get("inspected")
    source = host.fact("images").source
    if isinstance(told, Mapping):
        return Measured(told, source=source)
    return Measured(None, ABSENT, source, "the image was not inspected")


def image_cuda(case: Case, host: HostFacts) -> Answer:
    """The CUDA in the image is not newer than what the driver offers."""
    none = without_engine(case, host)
    image = model_image(case, host) if none is not None and none.verdict == NOT_APPLICABLE else None
    if none is not None and image is None:
        return none
    ceiling = first_ok(host.fact("cuda_ceiling"), host.fact("cuda_shown"))
    wanted = "CUDA of the image not newer than the driver's"
    if not ceiling.ok:
        return unmeasured("the CUDA version that the driver offers", ceiling).want(wanted)
    if image is not None:
        return _image_alone(image, host, ceiling).want(wanted)
    answers, told = [], []
    for engine in host.engines:
        answer = _engine_cuda(engine, str(ceiling.value), ceiling)
        told.append(answer.found)
        if answer.verdict != "pass":
            answers.append((engine, answer))
    return over_engines(answers, passed("; ".join(dict.fromkeys(told)), ceiling)).want(wanted)


def _image_alone(image: Mapping[str, Any], host: HostFacts, ceiling: Measured) -> Answer:
    """The CUDA of an image from which no container was made yet, by its own variables or labels."""
    fact = _inspected(image, host)
    if not fact.ok:
        return unmeasured("the CUDA version in the image", fact)
    told = fact.value.get("variables") or {}
    needed = str(told.get("CUDA_VERSION") or "")
    if not as_version(needed):
        least = _REQUIRES.search(str(told.get("NVIDIA_REQUIRE_CUDA") or ""))
        needed = least.group(1) if least else ""
    if not needed:
        absent = Measured(
            None, ABSENT, fact.source, "neither CUDA_VERSION nor NVIDIA_REQUIRE_CUDA in the image"
        )
        return unmeasured("the CUDA version in the image", absent)
    return compare_cuda(
        str(ceiling.value), ".".join(needed.split(".")[:2]), "the image on the host", ceiling, fact
    )


def _engine_cuda(engine: Engine, ceiling: str, *facts: Measured) -> Answer:
    versions = engine.cuda.value or {}
    image = versions.get("image_cuda_version") or engine.environment.get("CUDA_VERSION")
    torch = versions.get("torch_build")
    known = [
        (f"{what} ({version})", str(version))
        for what, version in (("image", image), ("torch", torch))
        if version
    ]
    known = [(what, version) for what, version in known if as_version(version)]
    if not known:
        fact = (
            engine.cuda
            if not engine.cuda.ok
            else Measured(None, ABSENT, engine.cuda.source, "no version found")
        )
        return unmeasured("the CUDA version in the image", fact)
    compat = _compat_in_use(engine)
    newest = max((version for _what, version in known), key=as_version)
    newest = ".".join(newest.split(".")[:2])
    told = ", ".join(what for what, _version in known)
    answer = compare_cuda(ceiling, newest, f"the image's {told}", *facts, engine.cuda)
    note = f"; compat library: {compat}" if compat else ""
    reason = answer.reason
    if compat and answer.verdict != "pass":
        reason += (
            f"; a compat libcuda is in use ({compat}), which may lift this or fail with error 803 or 804"
        )
    found = f"driver {ceiling}, {told}{note}"
    return Answer(**{**vars(answer), "found": found, "reason": reason})


def _compat_in_use(engine: Engine) -> str:
    """The compat library that the engine's processes loaded or would be pointed to."""
    for library in engine.libraries.value or ():
        path = str(library.get("path", ""))
        if "libcuda.so" in path and "compat" in path:
            return path
    if "compat" in engine.environment.get("LD_LIBRARY_PATH", ""):
        return "by LD_LIBRARY_PATH"
    if engine.environment.get(COMPAT_FLAG, "0") not in ("", "0"):
        return f"by {COMPAT_FLAG}"
    return ""


RULES = (Rule("image.cuda", "CUDA in the image", REQUIRED, host=image_cuda, reads=("cuda", "cuda_ceiling")),)
