#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate_probe
short_description: Find out what only a start can tell about the GPUs of a host
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Starts a container or a process for a moment, which no other part of the gate does. Use it only where
    that is wanted.
  - The container has all GPUs, no network and an entrypoint of its own; its image is named by id, nothing
    is pulled, and it is removed whatever happens.
  - CUDA is initialised and asked for its devices. No context is created and no memory is taken.
  - Refused on a host on which any process holds a GPU, or where that is not known.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.actiongroup_all
  - gpufleet.baseline._docker_dep
attributes:
  check_mode:
    support: full
    details:
      - Starts nothing in check mode.
  diff_mode:
    support: none
  idempotent:
    support: full
    details:
      - Leaves nothing behind.
options:
  container:
    description:
      - Ask C(nvidia-smi -L) in a throw-away container which GPUs it sees.
    type: bool
    default: false
  cuda:
    description:
      - Initialise CUDA in a throw-away container of O(image), or on the host without an image.
    type: bool
    default: false
  image:
    description:
      - Name or id of an image that is on the host.
    type: str
    default: ""
  deadline:
    description:
      - Seconds that one start may take.
    type: float
    default: 60.0
  nvml_deadline:
    description:
      - Seconds for asking the driver who holds the GPUs.
    type: float
    default: 60.0
  carried_libraries:
    description:
      - Python libraries that travel with the task. Filled by the action plugin.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Does CUDA initialise on the host
  gpufleet.baseline.gate_probe:
    cuda: true
  register: asked

- name: It does, on all GPUs
  ansible.builtin.assert:
    that:
      - asked.probe.cuda.value.init == 0
      - asked.probe.cuda.value.count == 8

- name: Which GPUs does a container of this image see
  gpufleet.baseline.gate_probe:
    container: true
    image: vllm/vllm-openai:kimi-k3
"""

RETURN = r"""
probe:
  description: The document C(gpufleet.baseline/probe/1).
  returned: always
  type: dict
  contains:
    container:
      description: UUIDs of the GPUs that a new container sees, as C(value) beside C(outcome), C(source), C(message).
      returned: always
      type: dict
      sample: {"value": null, "outcome": "skipped", "source": "", "message": "not asked for"}
    cuda:
      description: What CUDA answered, in the same form.
      returned: always
      type: dict
      sample: {"value": {"init": 0, "count": 8}, "outcome": "ok", "source": "cuInit on the host", "message": ""}
    started:
      description: Everything that was started, and whether it was removed.
      returned: always
      type: list
      elements: dict
      sample: [{"what": "process", "name": "cuInit, and a list of CUDA's devices", "removed": true}]
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import find_socket
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._gate_probe import probe


def argument_spec() -> Dict[str, Any]:
    """The options of the module."""
    return {
        "container": {"type": "bool", "default": False},
        "cuda": {"type": "bool", "default": False},
        "image": {"type": "str", "default": ""},
        "deadline": {"type": "float", "default": 60.0},
        "nvml_deadline": {"type": "float", "default": 60.0},
        "docker_socket": {"type": "str", "default": ""},
        "docker_deadline": {"type": "float", "default": 30.0},
        "carried_libraries": {"type": "str", "default": "", "no_log": True},
    }


def connect(params: Dict[str, Any]) -> Any:
    """A client of the Engine that may also create and remove."""
    import docker
    import docker.errors

    socket = find_socket(params["docker_socket"], os.environ)
    if not socket.path:
        raise BaselineError("expected a container engine for the image, found none: %s" % socket.chosen)
    deadline = int(params["docker_deadline"])
    try:
        client = docker.APIClient(base_url="unix://" + socket.path, version="auto", timeout=deadline)
    except docker.errors.DockerException as error:
        raise BaselineError(
            "expected an answer of the engine at %s, found: %s" % (socket.path, error)
        ) from error
    client.trust_env = False
    return client


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False, probe={})
    try:
        with carried(module.params["carried_libraries"]):
            document = probe(module.params, lambda: connect(module.params))
    except BaselineError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, probe=document)


if __name__ == "__main__":
    main()
