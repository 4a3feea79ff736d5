# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container that is made for one question and removed again (private to the collection).

The image is named by its id, nothing is pulled, the entrypoint is replaced (that of a vLLM image would
serve a model), there is no network and no restart, and the container goes away whatever happens. Only the
gate's probe uses it, and only when asked. API: https://docs.docker.com/reference/api/engine/
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    ERROR,
    TIMEOUT,
    ProbeFailure,
)

LABEL = "gpufleet.baseline.probe"
LIMIT_BYTES = 256 * 1024


@dataclass
class Ended:
    """How the container ended, and what it printed."""

    code: int
    output: str


def image_id(client: Any, name: str) -> str:
    """The id of an image that is on the host; raises ProbeFailure when it is not."""
    import docker.errors

    try:
        return str(client.inspect_image(name)["Id"])
    except docker.errors.ImageNotFound as error:
        raise ProbeFailure(ABSENT, "the image %s is not on the host, and nothing is pulled" % name) from error


def run(
    client: Any,
    image: str,
    command: Sequence[str],
    deadline: float,
    started: List[Dict[str, Any]],
    label: str = "",
) -> Ended:
    """Run one command in a new container with all GPUs.

    ``started`` gets an entry for what was begun, with ``label`` in place of a long command.
    """
    name = "gpufleet-probe-" + os.urandom(6).hex()
    told = label or " ".join(command)
    entry: Dict[str, Any] = {"what": "container", "name": name, "image": image, "command": told}
    with _errors(), _container(client, name, image, command, entry, started) as identifier:
        client.start(identifier)
        code = _wait(client, identifier, deadline)
        output = client.logs(identifier, stdout=True, stderr=True)[:LIMIT_BYTES]
    return Ended(code, output.decode("utf-8", "backslashreplace"))


@contextmanager
def _container(
    client: Any,
    name: str,
    image: str,
    command: Sequence[str],
    entry: Dict[str, Any],
    started: List[Dict[str, Any]],
) -> Iterator[str]:
    import docker.errors
    import docker.types

    gpus = docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])
    host_config = client.create_host_config(device_requests=[gpus], network_mode="none")
    made = client.create_container(
        image=image,
        entrypoint=[command[0]],
        command=list(command[1:]),
        name=name,
        labels={LABEL: "1"},
        host_config=host_config,
    )
    entry["removed"] = False
    started.append(entry)
    try:
        yield made["Id"]
    finally:
        try:
            client.remove_container(made["Id"], force=True, v=True)
            entry["removed"] = True
        except (docker.errors.APIError, OSError) as error:
            entry["why"] = str(error)


def _wait(client: Any, identifier: str, deadline: float) -> int:
    import requests

    try:
        return int(client.wait(identifier, timeout=deadline)["StatusCode"])
    except (requests.exceptions.Timeout, requests.exceptions.ConnectionError) as error:
        raise ProbeFailure(TIMEOUT, "the container did not end within %g s" % deadline) from error


@contextmanager
def _errors() -> Iterator[None]:
    """The Engine's refusals as outcomes."""
    import docker.errors

    try:
        yield
    except docker.errors.APIError as error:
        raise ProbeFailure(ERROR, "the Engine refused: %s" % (error.explanation or error)) from error
