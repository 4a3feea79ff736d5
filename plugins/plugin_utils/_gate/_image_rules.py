# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the image and the versions in it (private to the collection, controller only; pure).

Four things are called the CUDA version; they are kept apart: what the driver offers, the image's
CUDA_VERSION, the build of torch, and the compilers' packages. An image's id is compared within one
architecture and one kind of image store only.
"""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.baseline.plugins.module_utils._measured import Measured
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ABSENT
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import as_version
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._engines import (
    NO_ENGINE,
    containers,
    hosts_with_engines,
    over_engines,
    version_of,
    without_container,
    without_engine,
)
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._facts import HostFacts
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._rule import (
    ADVISORY,
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
        elif not any(same_image(other, str(wanted)) for other in names):
            reason = f"the engine runs {name or 'an image without a name'}, the model asks for {wanted}"
            answers.append((engine, warned(name or "no name", reason, f"use {wanted}")))
    return over_engines(answers, passed(str(wanted))).want(str(wanted))


def same_image(name: str, wanted: str) -> bool:
    """Whether a name means the wanted image: a registry before it (a mirror) does not matter."""
    return name == wanted or name.endswith("/" + wanted)


def image_pinned(case: Case, host: HostFacts) -> Answer:
    """The image has a digest that tells it from another build of the same tag."""
    none = without_container(case, host)
    if none is not None:
        return none
    wanted = "a digest, or an image named by it"
    answers = []
    for engine in containers(host):
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
    none = without_container(case, host)
    if none is not None:
        return none
    wanted = "the tag means the image that runs"
    answers = []
    for engine in containers(host):
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
    found = hosts_with_engines(case)
    if found is None:
        return not_applicable(NO_ENGINE)
    hosts, unread = found
    for host in hosts:
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


def versions_equal(case: Case) -> Answer:
    """vLLM, torch and NCCL are the same on all hosts."""
    wanted = "the same vLLM, torch and NCCL on all hosts"
    values: dict[str, str] = {}
    found = hosts_with_engines(case)
    if found is None:
        return not_applicable(NO_ENGINE)
    hosts, unread = found
    for host in hosts:
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
    Rule("engine.vllm", "version of vLLM", REQUIRED, host=engine_vllm, reads=("versions",)),
    Rule(
        "engine.versions", "same versions on all hosts", REQUIRED, group=versions_equal, reads=("versions",)
    ),
)
