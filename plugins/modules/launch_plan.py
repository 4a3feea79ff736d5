#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_plan
short_description: Plan the launch of a group, show it, and write it into the run
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Makes the whole launch of a group, words, environment and container options of every rank, from an official
    recipe or from what a freeze found, and shows it as commands to paste, with what was left out and why.
  - The official launch is the recipe's, word for word, except for documented corrections. The minimal launch is the
    smallest one that can work. Every name that the recipe leaves open is filled per host; a C($) that is left is
    refused.
  - Reads C(gpufleet_address), C(gpufleet_interface), C(gpufleet_api_port) and C(gpufleet_home) of each host from the
    inventory. Without C(gpufleet_address) the address is that of C(ansible_host) when it is one, which is told.
  - Runs on the controller and connects to no host. Call it once for the group.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.actiongroup_all
attributes:
  check_mode:
    support: full
    details:
      - The launch is shown and not written.
  diff_mode:
    support: N/A
  idempotent:
    support: full
options:
  run:
    description:
      - Path of the run, as M(gpufleet.baseline.run_dir) returns it. The launch is written there as F(launch.json),
        and is never replaced by another one.
      - Empty means that it is shown only.
    type: str
    default: ""
  name:
    description:
      - Which launch.
    type: str
    choices: [minimal, official, frozen]
    default: minimal
  source:
    description:
      - The official recipe. V(pinned:NAME) for one that ships with the collection, or the path or URL of the JSON that
        the recipe site publishes.
    type: str
    default: pinned:kimi-k3
  hardware:
    description:
      - The recipe's name for the hardware; empty means its own default.
    type: str
    default: ""
  strategy:
    description:
      - The recipe's name for the strategy; empty means its own default for the hardware.
    type: str
    default: ""
  variant:
    description:
      - The variant of the model.
    type: str
    default: default
  hosts:
    description:
      - Hosts of the launch group, by rank. The first one is rank 0.
    type: list
    elements: str
    required: true
  engine:
    description:
      - V(docker) starts containers, V(process) a vLLM of a virtual environment, which is not equivalent to the image.
    type: str
    choices: [docker, process]
    default: docker
  image:
    description:
      - Tag, digest or id of the image; empty means the one that the recipe's boundary names.
    type: str
    default: ""
  images:
    description:
      - Id of the image on each host. Empty means that it is looked for in the facts that the gate or a freeze wrote
        into the run. All hosts must hold the same one.
    type: dict
    default: {}
  process_executable:
    description:
      - Path of the C(vllm) program, for O(engine=process).
    type: str
    default: ""
  process_directory:
    description:
      - Working directory of the process.
    type: str
    default: ""
  mounts:
    description:
      - Mounts of the containers. Not given means the one of the recipe, C(~/.cache/huggingface), for which
        C(gpufleet_home) of each host must be set.
    type: list
    elements: dict
    suboptions:
      source:
        description: Absolute path on the host, or name of a volume.
        type: str
        required: true
      target:
        description: Path in the container.
        type: str
        required: true
      read_only:
        description: Whether the container may not write there.
        type: bool
        default: false
  env:
    description:
      - Further variables of every rank. A secret is given as a mapping with the one key C(secret), its name, and is
        filled in at the start only.
    type: dict
    default: {}
  overrides:
    description:
      - What is declared on top of the recipe, for the official launch and all that come from it. C(model), C(flags)
        (V(null) takes a flag out, V(false) says its negative), C(env), and C(container) with the options of
        F(launch.json). Recorded in the launch.
    type: dict
    default: {}
  placeholders:
    description:
      - Values for names that a recipe leaves open and that no inventory variable fills.
    type: dict
    default: {}
  secrets:
    description:
      - Names of the secrets that can be filled in at the start. A launch that needs another one is refused.
    type: list
    elements: str
    default: []
  diagnostics:
    description:
      - Diagnostic variables. V(trace) only after a finished run with V(logs).
    type: str
    choices: [none, logs, nccl, blocking, trace]
    default: none
  frozen_run:
    description:
      - Path of the run whose records the frozen launch comes from; empty means the newest sealed record of each host.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Plan the minimal launch on two trays
  gpufleet.baseline.launch_plan:
    run: "{{ opened.path }}"
    hosts: "{{ ansible_play_hosts_all }}"
    hardware: gb300
    mounts:
      - source: /models/huggingface
        target: /root/.cache/huggingface
  run_once: true
  register: planned

- name: Show the official launch of an own recipe and write nothing
  gpufleet.baseline.launch_plan:
    name: official
    source: https://recipes.vllm.ai/moonshotai/Kimi-K3.json
    hosts: "{{ ansible_play_hosts_all }}"
    image: vllm/vllm-openai:kimi-k3
    images: "{{ image_ids }}"
  run_once: true
"""

RETURN = r"""
launch:
  description: The launch, as C(gpufleet.baseline/launch/1).
  returned: success
  type: dict
path:
  description: Where it was written; empty when it was not.
  returned: success
  type: str
  sample: repro-2026-12-01/run-003/launch.json
sha256:
  description: Digest of the launch. Equal ones are the same launch.
  returned: success
  type: str
api:
  description: Port of the API on each host that serves it.
  returned: success
  type: dict
  sample: {"tray-a": 8000}
commands:
  description: The command of each rank, ready to paste.
  returned: success
  type: dict
secrets_needed:
  description: Names of the secrets that must be filled in at the start.
  returned: success
  type: list
  elements: str
  sample: []
ready_seconds:
  description: Within so many seconds the engine must be ready, by its own limit.
  returned: success
  type: int
  sample: 3600
"""
