# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the image and the versions in it (private to the collection, controller only; pure).

Four things are called the CUDA version; they are kept apart: what the driver offers, the image's
CUDA_VERSION, the build of torch, and the compilers' packages. An image's id is compared within one
architecture and one kind of image store only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured, first_ok
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import as_version
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._driver_rules import compare_cuda
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import Engine, HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
    NOT_APPLICABLE,
    REQUIRED,
    VERDICTS,
    Answer,
    Case,
    Rule,
    equal_over,
    failed,
    not_applicable,
    passed,
    unmeasured,
    warned,
)

NO_ENGINE = "no engine on any host of the launch group yet: judged when there is one"
# The first condition of NVIDIA_REQUIRE_CUDA; what follows it are brands and drivers that may do with less.
_REQUIRES = re.compile(r"^\s*cuda>=(\d+\.\d+)")
COMPAT_FLAG = "VLLM_ENABLE_CUDA_COMPATIBILITY"


def without_engine(case: Case, host: HostFacts) -> Answer | None:
    """Why there is no engine to judge on a host; None when there is one.

    An engine is wanted on every host as soon as one host has one; before that there is nothing to judge.
    """
    if not host.engines_read.ok and not host.engines:
        return unmeasured("the engines of the host", host.engines_read)
    if host.engines:
        return None
    if case.has_engine:
        fact = Measured(None, ABSENT, host.engines_read.source, "no engine on this host, others have one")
        return unmeasured(
            "the engine", fact, "create the engine on this host too, or take it out of the group"
        )
    return not_applicable(NO_ENGINE)


def model_image(case: Case, host: HostFacts) -> Mapping[str, Any] | None:
    """The image of the boundary among those of the host, for a host on which nothing was created from it yet."""
    wanted = str(case.boundary.value("image") or "")
    for image in host.value("images") or ():
        names = (*(image.get("tags") or ()), *(image.get("digests") or ()))
        if wanted and any(_same_image(str(name), wanted) for name in names):
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


def containers(host: HostFacts) -> tuple[Engine, ...]:
    """The engines of a host that are containers."""
    return tuple(engine for engine in host.engines if engine.in_container)


def over_engines(answers: list[tuple[Engine, Answer]], good: Answer) -> Answer:
    """One answer for all engines of a host: the worst one."""
    if not answers:
        return good
    engine, answer = max(answers, key=lambda item: VERDICTS.index(item[1].verdict))
    found = f"{engine.name}: {answer.found}" if answer.found else engine.name
    return Answer(**{**vars(answer), "found": found})


def image_name(case: Case, host: HostFacts) -> Answer:
    """The engine runs the image that the model asks for."""
    wanted = case.boundary.value("image")
    if wanted is None:
        return not_applicable("the boundary names no image")
    none = without_engine(case, host)
    if none is not None:
        return none.want(str(wanted))
    answers = []
    for engine in host.engines:
        name = str(engine.image.get("name") or "")
        names = {name, *engine.image.get("tags", ()), *engine.image.get("digests", ())}
        if not engine.in_container:
            reason = "vLLM runs outside of a container, which is not equivalent to the official image"
            answers.append((engine, warned("no image", reason, f"use {wanted}")))
        elif not any(_same_image(other, str(wanted)) for other in names):
            reason = f"the engine runs {name or 'an image without a name'}, the model asks for {wanted}"
            answers.append((engine, warned(name or "no name", reason, f"use {wanted}")))
    return over_engines(answers, passed(str(wanted))).want(str(wanted))


def _same_image(name: str, wanted: str) -> bool:
    """Whether a name means the wanted image: a registry before it (a mirror) does not matter."""
    return name == wanted or name.endswith("/" + wanted)


def image_pinned(case: Case, host: HostFacts) -> Answer:
    """The image has a digest that tells it from another build of the same tag."""
    none = without_engine(case, host)
    if none is not None:
        return none
    wanted = "a digest, or an image named by it"
    mine = containers(host)
    if not mine:
        return not_applicable("no container on this host")
    answers = []
    for engine in mine:
        name = str(engine.image.get("name") or "")
        if "@sha256:" in name or name.startswith("sha256:"):
            continue
        if not engine.image.get("digests"):
            reason = "the image has no digest (built here or loaded): equal tags may be different builds"
            answers.append((engine, warned(f"{name}, no digest", reason, "pull the image by its digest")))
        else:
            reason = "the container was started from a tag, which can move to another build"
            digest = str(engine.image["digests"][0]).rpartition("@")[2]
            answers.append(
                (engine, warned(f"{name} ({digest[:19]})", reason, "name the image by its digest"))
            )
    return over_engines(answers, passed("by digest")).want(wanted)


def image_tag(case: Case, host: HostFacts) -> Answer:
    """The name in the container's command still means the image that runs."""
    none = without_engine(case, host)
    if none is not None:
        return none
    wanted = "the tag means the image that runs"
    mine = containers(host)
    if not mine:
        return not_applicable("no container on this host")
    answers = []
    for engine in mine:
        moved = engine.image.get("tag_moved")
        name = str(engine.image.get("name") or "")
        if moved:
            reason = f"{name} means another image now: the next start runs another build"
            answers.append((engine, warned("tag moved", reason, "name the image by its digest")))
        elif moved is None and not ("@" in name or name.startswith("sha256:")):
            fact = Measured(None, ABSENT, "image inspect", "what the tag means now was not read")
            answers.append((engine, unmeasured("the tag", fact)))
    return over_engines(answers, passed("not moved")).want(wanted)


def image_equal(case: Case) -> Answer:
    """All containers of one architecture run one image."""
    wanted = "one image id per architecture"
    by_kind: dict[str, dict[str, str]] = {}
    unread: dict[str, Measured] = {}
    for host in case.measured:
        none = without_engine(case, host)
        if none is not None:
            if none.verdict == NOT_APPLICABLE:
                return not_applicable(NO_ENGINE)
            unread[host.name] = none.facts[0]
            continue
        for engine in containers(host):
            kind = f"{engine.image.get('architecture') or 'unknown'} {_store(host)}"
            by_kind.setdefault(kind, {})[host.name] = _short(engine.image.get("id"))
    if not by_kind and not unread:
        return not_applicable("no container in the launch group")
    remedy = "pull one digest on all hosts and create the containers from it"
    answers = [
        equal_over(case, f"the image ({kind})", values, unread if not place else {}, remedy)
        for place, (kind, values) in enumerate(by_kind.items() or [("", {})])
    ]
    return max(answers, key=lambda answer: VERDICTS.index(answer.verdict)).want(wanted)


def _store(host: HostFacts) -> str:
    """The kind of image store: the containerd store names an image by another digest than the classic one."""
    info = host.value("engine_info") or {}
    status = str(info.get("DriverStatus") or "")
    return "containerd" if "containerd" in status else "classic"


def _short(identifier: Any) -> str:
    return str(identifier or "no id").removeprefix("sha256:")[:12]


def image_architecture(case: Case, host: HostFacts) -> Answer:
    """The image is made for the host's processor."""
    none = without_engine(case, host)
    if none is not None:
        return none
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(
        str((host.value("system") or {}).get("architecture")), ""
    )
    answers = []
    for engine in containers(host):
        architecture = engine.image.get("architecture")
        if not machine or not architecture:
            fact = Measured(None, ABSENT, "image inspect", "no architecture was read")
            answers.append((engine, unmeasured("the image's architecture", fact)))
        elif architecture != machine:
            reason = f"the image is made for {architecture}, the host is {machine}"
            answers.append((engine, failed(str(architecture), reason, f"pull the image for {machine}")))
    return over_engines(answers, passed(machine or "no container")).want(
        f"an image for {machine or 'the host'}"
    )


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


def engine_vllm(case: Case, host: HostFacts) -> Answer:
    """vLLM is as new as the model asks for."""
    wanted = case.boundary.value("vllm")
    if wanted is None:
        return not_applicable("the boundary states no version of vLLM")
    none = without_engine(case, host)
    if none is not None:
        return none.want(f"vLLM {wanted} or newer")
    answers, told = [], []
    for engine in host.engines:
        found = version_of(engine, "vllm")
        told.append(found)
        if not found:
            fact = engine.versions
            shown = (
                fact
                if not fact.ok
                else Measured(None, ABSENT, fact.source, "no vllm among the distributions")
            )
            answers.append((engine, unmeasured("the version of vLLM", shown)))
        elif as_version(found) < as_version(str(wanted)):
            reason = f"vLLM {found} is older than {wanted}, the first version with this model"
            answers.append(
                (engine, failed(found, reason, f"use the image {case.boundary.value('image') or ''}"))
            )
    return over_engines(answers, passed(", ".join(dict.fromkeys(told)))).want(f"vLLM {wanted} or newer")


def version_of(engine: Engine, name: str) -> str:
    """A named version in an engine; several copies of it are told together."""
    found = (engine.versions.value or {}).get(name) or []
    return ", ".join(str(version) for version in (found if isinstance(found, list) else [found]))


def versions_equal(case: Case) -> Answer:
    """vLLM, torch and NCCL are the same on all hosts."""
    wanted = "the same vLLM, torch and NCCL on all hosts"
    values: dict[str, str] = {}
    unread: dict[str, Measured] = {}
    for host in case.measured:
        none = without_engine(case, host)
        if none is not None:
            if none.verdict == NOT_APPLICABLE:
                return not_applicable(NO_ENGINE)
            unread[host.name] = none.facts[0]
            continue
        told = [[f"{name} {version_of(engine, name) or '-'}" for name in ("vllm", "torch", "nccl")]
                for engine in host.engines]  # fmt: skip
        read = [engine.versions for engine in host.engines if not engine.versions.ok]
        if read:
            unread[host.name] = read[0]
        else:
            values[host.name] = " | ".join(dict.fromkeys(", ".join(parts) for parts in told))
    return equal_over(case, "vLLM, torch or NCCL", values, unread, "run one image on all hosts").want(wanted)


RULES = (
    Rule("image.name", "image of the model", ADVISORY, host=image_name, reads=("engines",)),
    Rule("image.digest", "image pinned by digest", ADVISORY, host=image_pinned, reads=("engines",)),
    Rule("image.tag", "tag not moved", ADVISORY, host=image_tag, reads=("engines",)),
    Rule("image.equal", "same image on all hosts", REQUIRED, group=image_equal, reads=("engines",)),
    Rule(
        "image.architecture",
        "image for this processor",
        REQUIRED,
        host=image_architecture,
        reads=("engines", "system"),
    ),
    Rule("image.cuda", "CUDA in the image", REQUIRED, host=image_cuda, reads=("cuda", "cuda_ceiling")),
    Rule("engine.vllm", "version of vLLM", REQUIRED, host=engine_vllm, reads=("versions",)),
    Rule(
        "engine.versions", "same versions on all hosts", REQUIRED, group=versions_equal, reads=("versions",)
    ),
)
