# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What containers, images and their files tell about earlier changes (private to the collection; pure).

Events are {time, what, source}, the time in UTC. The Engine keeps the last start and the last exit of a
container only; earlier ones are known by their number alone, and the event of the start says it.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._containers import name_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._discovery import Discovery
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import from_iso, utc

Event = Tuple[Optional[str], str, str]


def events(answers: Mapping[str, Probe], found: Discovery) -> List[Dict[str, str]]:
    """All events in the order of time."""
    listed: List[Event] = []
    for inspect in found.inspects.values():
        listed += _of_container(inspect)
    listed += _of_images(answers)
    listed += _of_files(answers)
    listed += _of_processes(answers, found)
    unique = sorted({event for event in listed if event[0]})
    return [{"time": str(time), "what": what, "source": source} for time, what, source in unique]


def _of_container(inspect: Mapping[str, Any]) -> Iterator[Event]:
    name = name_of(inspect)
    state = inspect.get("State") or {}
    source = "inspect of container %s" % name
    image = str((inspect.get("Config") or {}).get("Image", ""))
    yield _time(inspect.get("Created")), "container %s created from %s" % (name, image), source
    restarts = inspect.get("RestartCount") or 0
    count = ", restart %d by the Engine" % restarts if restarts else ""
    yield _time(state.get("StartedAt")), "container %s started%s" % (name, count), source
    if not state.get("Running") and _time(state.get("FinishedAt")):
        reason = ", killed for memory" if state.get("OOMKilled") else ""
        what = "container %s ended with exit code %s%s" % (name, state.get("ExitCode"), reason)
        yield _time(state.get("FinishedAt")), what, source


def _of_images(answers: Mapping[str, Probe]) -> Iterator[Event]:
    listed = answers.get("docker.images")
    for image in (listed.value if listed is not None else None) or []:
        if isinstance(image.get("Created"), int):
            yield utc(image["Created"]), "image %s built" % _image_name(image), "list of images"
    for name, answer in answers.items():
        if name.startswith("container.") and name.endswith(".image") and isinstance(answer.value, dict):
            tagged = (answer.value.get("Metadata") or {}).get("LastTagTime")
            what = "image %s pulled, loaded or tagged on this host" % _image_name(answer.value)
            yield _time(tagged), what, "inspect of the image"


def _image_name(image: Mapping[str, Any]) -> str:
    tags = [tag for tag in image.get("RepoTags") or [] if tag != "<none>:<none>"]
    return str(sorted(tags)[0]) if tags else str(image.get("Id", ""))[:19]


def _of_files(answers: Mapping[str, Probe]) -> Iterator[Event]:
    for name, answer in answers.items():
        if ".compose." in name and isinstance(answer.value, dict):
            yield (
                utc(answer.value["changed"]),
                "file %s last changed" % answer.value["path"],
                "its time stamp",
            )
        if name.endswith(".unit") and isinstance(answer.value, dict):
            for entry in answer.value["files"]:
                yield utc(entry["changed"]), "unit file %s last changed" % entry["path"], "its time stamp"


def _of_processes(answers: Mapping[str, Probe], found: Discovery) -> Iterator[Event]:
    for process in found.processes:
        answer = answers.get("process.%d.facts" % process.line.pid)
        if process.leader and answer is not None and isinstance(answer.value, dict):
            what = "process %d (%s) started" % (process.line.pid, process.line.command)
            yield utc(answer.value.get("started")), what, answer.source


def _time(value: Any) -> Optional[str]:
    """The Engine's time in UTC and whole seconds; its zero value is no time."""
    if not isinstance(value, str) or value.startswith("0001-"):
        return None
    return utc(from_iso(value))
