# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the documents of a host to the answers of the five questions (pure; private to the collection)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._questions import EngineAnswers, HostAnswers

# What a start was asked for, out of all that stands in a long command.
_OPTIONS_SHOWN = 40


def of_host(
    host: str, documents: Mapping[str, Any], verdicts: Mapping[str, Any], notes: Sequence[str]
) -> HostAnswers:
    """The answers of one host; ``verdicts`` is the document of the first failures."""
    gpu, about, engine = documents["gpu"], documents["host"], documents["engine"]
    why: Dict[str, str] = {}
    driver = _driver(gpu, why)
    devices = _devices(gpu, why)
    engines = [_container(item, verdicts) for item in engine["containers"]]
    processes = {item["pid"]: item for item in engine["processes"]}
    engines += [
        _plain_process(item, processes.get(item["pid"], {}), verdicts) for item in engine["plain_processes"]
    ]
    return HostAnswers(
        host=host,
        identity=_identity(host, about),
        devices=devices,
        driver="driver " + driver if driver else "",
        short={
            "devices": _short_devices(gpu),
            "driver": driver or _short_missing(gpu),
            "machine": _machine(about),
        },
        engines=engines,
        no_engine="; ".join(notes) or "no container and no process of an engine was found",
        notes=notes,
        why=why,
    )


def _identity(host: str, about: Mapping[str, Any]) -> str:
    """The host as it names itself."""
    system = about["system"]["value"] or {}
    boot = about["boot"]["value"] or {}
    parts = [host]
    if system.get("hostname") and system["hostname"] != host:
        parts.append("names itself %s" % system["hostname"])
    if system.get("kernel"):
        parts.append("kernel %s %s" % (system["kernel"], system.get("architecture", "")))
    if boot.get("id"):
        parts.append("boot %s" % boot["id"])
    return ", ".join(parts)


def _machine(about: Mapping[str, Any]) -> str:
    """The same for one machine under two names, and for no two machines."""
    name, boot = (about["system"]["value"] or {}).get("hostname"), (about["boot"]["value"] or {}).get("id")
    return "%s, boot %s" % (name, boot) if name and boot else ""


def _driver(gpu: Mapping[str, Any], why: Dict[str, str]) -> str:
    for name in ("loaded", "told_by_the_driver"):
        fact = gpu["driver"][name]
        if fact["outcome"] == "ok" and fact["value"]:
            return str(fact["value"])
    fact = gpu["driver"]["loaded"]
    why["driver"] = _reason(fact)
    return ""


def _devices(gpu: Mapping[str, Any], why: Dict[str, str]) -> List[str]:
    lines = []
    for item in gpu["gpus"]:
        index = item["index"]["value"]
        lines.append(
            "GPU %s %s %s at %s"
            % (
                "?" if index is None else index,
                item["identity"]["name"]["value"] or "of unknown name",
                item["identity"]["uuid"]["value"] or "(UUID not measured)",
                item["pci_address"],
            )
        )
    if not lines:
        if gpu["vendors"]["outcome"] == "ok":
            lines.append("no NVIDIA GPU: %s" % gpu["summary"])
        else:
            why["devices"] = _reason(gpu["vendors"])
    return lines + ["problem: " + problem for problem in gpu["problems"]]


def _short_devices(gpu: Mapping[str, Any]) -> str:
    names = Counter(str(item["identity"]["name"]["value"] or "NVIDIA GPU") for item in gpu["gpus"])
    if names:
        return ", ".join("%d x %s" % (count, name) for name, count in names.items())
    return "no GPU" if gpu["vendors"]["outcome"] == "ok" else "not measured"


def _short_missing(gpu: Mapping[str, Any]) -> str:
    return "none" if gpu["driver"]["loaded"]["outcome"] == "absent" else "not measured"


def _reason(fact: Mapping[str, Any]) -> str:
    """Why a fact has no value: outcome and message, and where it was looked for."""
    text = "%s%s" % (fact["outcome"], ", " + fact["message"] if fact["message"] else "")
    return text if not fact["source"] or fact["source"] in text else "%s (%s)" % (text, fact["source"])


def _container(item: Mapping[str, Any], verdicts: Mapping[str, Any]) -> EngineAnswers:
    state, image, request = item["state"], item["image"], item["gpu_request"]
    found = EngineAnswers("container %s (%s)" % (item["name"], str(item["id"])[:12]))
    found.devices = _container_devices(item, request)
    if image["id"]:
        found.image = "%s, image id %s" % (image["name"], image["id"])
        found.image += (
            ", digest %s" % ", ".join(image["digests"]) if image["digests"] else ", no registry digest"
        )
        found.image += ", the tag has moved since" if image["tag_moved"] else ""
    else:
        found.why["image"] = "the inspect has no image id"
    found.command = " ".join(item["command"]) or "an empty command"
    found.environment = (
        "%d variables, state %s%s, restarts %d; docker-run.sh in the record starts it again"
        % (
            len(item["environment"]),
            state["status"],
            "" if state["exit_code"] is None else " with exit code %s" % state["exit_code"],
            item["restart_count"],
        )
    )
    _build(found, item)
    _failure(found, "container:" + str(item["id"]), verdicts, item["engine_command"])
    digest = (image["digests"] or [image["id"] or ""])[0].rpartition("sha256:")[2][:12]
    found.short["image"] = "sha256:" + digest if digest else "not measured"
    return found


def _container_devices(item: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    modes = ", ".join(request["modes"]) or "no GPU asked for"
    seen = item["visible_devices"]
    if seen["outcome"] == "ok":
        uuids = seen["value"]["uuids"] or seen["value"]["minors"]
        return "%s; sees %d GPUs%s" % (modes, len(uuids), ": " + ", ".join(map(str, uuids)) if uuids else "")
    return "%s; what it sees was not measured: %s" % (modes, seen["message"] or seen["outcome"])


def _plain_process(
    item: Mapping[str, Any], process: Mapping[str, Any], verdicts: Mapping[str, Any]
) -> EngineAnswers:
    found = EngineAnswers("process %d" % item["pid"])
    runtimes = ", ".join(runtime["name"] for runtime in process.get("runtimes", []))
    seen = item["visible_devices"]
    if seen["outcome"] == "ok":
        found.devices = "runs as %s; sees %d GPUs" % (
            runtimes or "a plain process",
            len(seen["value"]["minors"]),
        )
    else:
        found.why["devices"] = _reason(seen)
    found.image = "no image: it runs as %s" % (runtimes or "a plain process")
    found.command = " ".join(process.get("argv") or [])
    if process.get("environment") is None:
        found.why["environment"] = "; ".join(
            "%s: %s" % pair for pair in sorted(process.get("refused", {}).items())
        )
    else:
        found.environment = "%d variables, in processes/%d/process.json" % (
            len(process["environment"]),
            item["pid"],
        )
    _build(found, item)
    _failure(found, "process:%d" % item["pid"], verdicts, item["engine_command"])
    found.short["image"] = "no image"
    return found


def _build(found: EngineAnswers, item: Mapping[str, Any]) -> None:
    """Versions of vLLM, torch, its CUDA, and NCCL."""
    versions = item["versions"]
    if versions["outcome"] != "ok" or not versions["value"]:
        found.why["build"] = _no_versions(versions)
        found.short["engine"] = "not measured"
        return
    value = versions["value"]
    shown = ["%s %s" % (name, "/".join(value[name])) for name in sorted(value)]
    cuda = (item["cuda"]["value"] or {}) if item["cuda"]["outcome"] == "ok" else {}
    shown += ["torch's CUDA %s" % cuda["torch_build"]] if cuda.get("torch_build") else []
    shown += ["image's CUDA %s" % cuda["image_cuda_version"]] if cuda.get("image_cuda_version") else []
    found.build = ", ".join(shown)
    found.short["engine"] = "vllm " + "/".join(value["vllm"]) if "vllm" in value else "no vllm"


def _no_versions(versions: Mapping[str, Any]) -> str:
    if versions["outcome"] != "ok":
        return _reason(versions)
    return "neither vllm, torch nor another library of an engine is in %s" % (
        versions["source"] or "its Python"
    )


def _failure(
    found: EngineAnswers, key: str, verdicts: Mapping[str, Any], command: Optional[Mapping[str, Any]]
) -> None:
    entry = verdicts["engines"].get(key, {"why": "its log was not read", "verdict": None, "member": ""})
    verdict = entry["verdict"]
    if verdict is None:
        found.why["failure"] = entry["why"]
        _active_by_command(found, command, entry["why"])
        return
    stage = str(verdict["stage"])
    found.failed = verdict["outcome"] in ("failed", "hung")
    if found.failed:
        place = " at line %s of %s" % (verdict["line"], verdict["path"]) if verdict["line"] else ""
        found.failure = "%s in stage %s (%s, confidence %s)%s: %s" % (
            verdict["outcome"],
            stage,
            verdict["failure_class"],
            verdict["confidence"],
            place,
            verdict["message"],
        )
        found.short["failure"] = "%s: %s" % (stage, verdict["failure_class"])
    else:
        found.failure = "none found: %s (%s)" % (verdict["outcome"], verdict["reason"])
        found.short["failure"] = str(verdict["outcome"])
        _failed_before(found, verdict.get("runs") or [])
    found.active = _active(verdict.get("active") or {})
    if not found.active:
        _active_by_command(found, command, "the log names neither start options nor a request")


def _failed_before(found: EngineAnswers, runs: Sequence[Mapping[str, Any]]) -> None:
    """A container that starts again and again is between two failures: the last one before this start is told."""
    before = [run for run in runs if not run["judged"] and run["outcome"] in ("failed", "hung")]
    if before:
        last = before[-1]
        words = (len(before), last["outcome"], last["stage"], last["failure_class"], last["first_line"])
        found.failure += (
            "; %d starts before this one failed, the last %s in stage %s (%s, from line %s)" % words
        )
        found.short["failure"] = "%s: %s, started again" % (last["stage"], last["failure_class"])
        found.failed = True


def _active_by_command(found: EngineAnswers, command: Optional[Mapping[str, Any]], why: str) -> None:
    """Without a log that tells, as of a headless rank, the command at least says what the start was asked for."""
    options = (command or {}).get("options") or {}
    if not options:
        found.why["active"] = why
        return
    shown = ["--" + name if value is None else "--%s %s" % (name, value) for name, value in options.items()]
    found.active = "start options of its command %s (%s)" % (" ".join(shown[:_OPTIONS_SHOWN]), why)


def _active(active: Mapping[str, Any]) -> str:
    options = list((active.get("options") or {}).items())
    shown = ["%s=%s" % pair for pair in options[:_OPTIONS_SHOWN]]
    parts = ["start options %s" % ", ".join(shown)] if shown else []
    requests = active.get("requests") or []
    if requests:
        parts.append("%d requests in flight: %s" % (len(requests), "; ".join(map(str, requests[:5]))))
    return "; ".join(parts)
