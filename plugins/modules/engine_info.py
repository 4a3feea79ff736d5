#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_info
short_description: Describe the inference engines of a host, in containers and outside
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Describes containers in every state, with image and digests, the way they ask for GPUs, mounts, and the
    C(docker run) that starts the same container again.
  - Reads the versions of vLLM, torch, NCCL and every other Python distribution from files, also of a
    container that has ended, without running anything in it.
  - Describes the engine's processes in containers, in other runtimes and outside of any, with the libraries
    that they really loaded, open devices, environment, limits, ranks, and what runs them.
  - Names the model by path, revision and hashes of its small files, and the compile and kernel caches.
  - Only looks. Whatever could not be read stands in the result with its reason.
  - Values of secrets are replaced by stand-ins before the result leaves the host.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
  - gpufleet.baseline._docker_dep
options:
  containers:
    description:
      - Names or ids of the containers to describe.
      - Without names, those that look like vLLM or ask for GPUs, in whatever state.
    type: list
    elements: str
    default: []
  processes:
    description:
      - Ids of processes to describe as engines outside of a known container.
      - Without ids, every process that looks like vLLM, unless O(containers) says what to look at.
    type: list
    elements: int
    default: []
  secret_names:
    description:
      - Further names of variables or keys whose values are secrets.
    type: list
    elements: str
    default: []
  redaction_key:
    description:
      - Key of the stand-ins, 64 hexadecimal digits. Equal values have equal stand-ins under one key.
      - Without one, the stand-ins of two hosts or two runs can't be compared.
    type: str
  carried_libraries:
    description:
      - Python libraries that travel with the task. Filled by the action plugin.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Describe the engines of a host
  gpufleet.baseline.engine_info:
  register: described

- name: Every container that was chosen has an image with a digest
  ansible.builtin.assert:
    that: described.engine.containers | map(attribute='image.digests') | min | length > 0

- name: Show how to start the container named vllm once more
  gpufleet.baseline.engine_info:
    containers: [vllm]
  register: one

- name: The command, with secrets taken from the caller's environment
  ansible.builtin.debug:
    msg: "{{ one.engine.containers[0].run_command.text }}"
"""

RETURN = r"""
engine:
  description:
    - The document C(gpufleet.baseline/engine/1).
    - A fact that may be missing is a dictionary of C(value), C(outcome), C(source) and C(message). Its
      outcome is V(ok), V(absent), V(error), V(timeout), V(denied) or V(skipped).
  returned: always
  type: dict
  contains:
    schema:
      description: Name and version of the document.
      returned: always
      type: str
      sample: gpufleet.baseline/engine/1
    notes:
      description: What was wanted and is not there, in words.
      returned: always
      type: list
      elements: str
      sample: ["none of 3 containers and no process looks like vLLM or asks for GPUs"]
    engine:
      description: The container engine, its socket, versions, runtimes and defaults.
      returned: always
      type: dict
      sample: {"version": {"value": "28.5.1", "outcome": "ok", "source": "/run/docker.sock", "message": ""}}
    containers:
      description: The chosen containers.
      returned: always
      type: list
      elements: dict
      sample: [{"name": "vllm", "chosen_because": "its command is vLLM's"}]
    plain_processes:
      description: Engines that run outside of a known container, with versions, models and caches.
      returned: always
      type: list
      elements: dict
      sample: [{"pid": 4711}]
    processes:
      description: Every process of an engine, in containers and outside.
      returned: always
      type: list
      elements: dict
      sample: [{"pid": 4711, "title": "Worker_TP0", "ranks": {"tp": 0}}]
    images:
      description: Images of the host.
      returned: always
      type: dict
      sample: {"value": [], "outcome": "ok", "source": "/run/docker.sock", "message": ""}
    events:
      description: What containers, images and their files tell about earlier changes, by time.
      returned: always
      type: list
      elements: dict
      sample:
        - time: "2026-08-09T14:30:00Z"
          what: container vllm started
          source: inspect of container vllm
probes:
  description: Outcome, duration and source of every question, by name.
  returned: always
  type: dict
  sample: {"docker.info": {"outcome": "ok", "message": "", "seconds": 0.03}}
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_facts import facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_probes import collect
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_secrets import redacted
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._redaction_key import key_of


def argument_spec() -> Dict[str, Any]:
    """The options of the module."""
    return {
        "containers": {"type": "list", "elements": "str", "default": []},
        "processes": {"type": "list", "elements": "int", "default": []},
        "docker_socket": {"type": "str", "default": ""},
        "docker_deadline": {"type": "float", "default": 30.0},
        "secret_names": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "redaction_key": {"type": "str", "no_log": True},
        "carried_libraries": {"type": "str", "default": "", "no_log": True},
    }


def describe(params: Dict[str, Any]) -> Dict[str, Any]:
    """The module's result, redacted."""
    with carried(params["carried_libraries"]):
        found, answers = collect(params)
    result = {
        "engine": facts(answers, found),
        "probes": {name: answer.summary() for name, answer in answers.items()},
    }
    return redacted(result, key_of(params["redaction_key"]), params["secret_names"])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **describe(module.params))
    except BaselineError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
