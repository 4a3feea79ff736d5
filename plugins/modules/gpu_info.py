#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read the GPUs of a host, their driver and the host itself
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Reads what a start of a model depends on, from the driver's library, C(nvidia-smi), C(/proc), C(/sys),
    the kernel log, packages and services.
  - Only looks. It loads no module, creates no device node and no CUDA context. Where C(nvidia-smi) itself
    would do so it is not called.
  - Every question has a deadline of its own. One that hangs costs that answer and no other.
  - Every fact stands with its outcome. What was not measured is never a number.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
  - gpufleet.baseline._nvml_dep
options:
  deadline:
    description:
      - Seconds that any other command may take.
    type: float
    default: 30
  history_days:
    description:
      - Days of the journal that are searched for kernel messages and for starts of services.
    type: int
    default: 30
  services:
    description:
      - Further systemd units to read.
    type: list
    elements: str
    default: []
  paths:
    description:
      - Further paths whose free space is read, each with a deadline of its own.
    type: list
    elements: str
    default: []
  redaction_key:
    description:
      - Key of the stand-ins for secrets in command lines, 64 hexadecimal digits. Equal values have equal
        stand-ins under one key.
      - Without one, the stand-ins of two hosts or two runs can't be compared.
    type: str
"""

EXAMPLES = r"""
- name: Read the GPUs
  gpufleet.baseline.gpu_info:
  register: found

- name: Refuse a driver that was upgraded and not rebooted
  ansible.builtin.assert:
    that: found.gpu.driver.agreement.value.state == 'equal'
    fail_msg: "{{ found.gpu.driver.agreement.value.meaning }}"

- name: Refuse a host on which a source lacks a GPU
  ansible.builtin.assert:
    that: found.gpu.gpus | selectattr('missing_from') | length == 0
"""

RETURN = r"""
gpu:
  description:
    - The GPUs and their driver, schema C(gpufleet.baseline/gpu/1).
    - A fact is a dictionary of C(value), C(outcome), C(source) and C(message). The outcome is one of V(ok),
      V(absent), V(error), V(timeout), V(denied) and V(skipped).
  returned: always
  type: dict
  contains:
    summary:
      description: The GPUs in one line.
      type: str
      sample: 8 x NVIDIA B300 SXM6 AC, driver 580.126.09
    problems:
      description: What is plainly wrong, in words.
      type: list
      elements: str
    vendors:
      description: Makers of the GPUs on the PCI bus, a fact.
      type: dict
    driver:
      description:
        - The driver as loaded, on disk and as new processes load it, whether the three agree, and more.
      type: dict
    gpus:
      description:
        - One entry for each NVIDIA GPU that any source lists, with C(identity), C(state) and what changes by
          the second, C(now), and the sources that list it or lack it.
      type: list
      elements: dict
    counts:
      description: The number of GPUs by each source, facts.
      type: dict
    holders:
      description: Processes that hold a GPU, with owner, start, cgroup and memory, a fact.
      type: dict
    xid:
      description: Errors of GPUs and switches in the kernel log, a fact.
      type: dict
    fabric:
      description: InfiniBand and RoCE devices, IMEX and its channels, facts.
      type: dict
host:
  description: The host itself, schema C(gpufleet.baseline/host/1), made of facts as well.
  returned: always
  type: dict
  contains:
    packages:
      description: Packages that concern GPUs, their network, containers and the kernel.
      type: dict
    services:
      description: Units of systemd, and daemons found as processes.
      type: dict
    kernel_log:
      description: Events in the kernel log, each once, and how often each kind came.
      type: dict
    changes:
      description: The order of earlier changes with sources and gaps, schema C(gpufleet.baseline/changes/1).
      type: dict
probes:
  description: For each question its outcome, message, source and duration.
  returned: always
  type: dict
"""

from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_facts import facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_probes import DEFAULTS, probes
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_secrets import redacted
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import run_probes
from ansible_collections.gpufleet.baseline.plugins.module_utils._redaction_key import key_of


def argument_spec() -> Dict[str, Any]:
    """The module's options; their defaults are those of the table of probes."""
    return {
        "carried_libraries": {"type": "str", "no_log": True},
        "smi_deadline": {"type": "float", "default": DEFAULTS["smi_deadline"]},
        "nvml_deadline": {"type": "float", "default": DEFAULTS["nvml_deadline"]},
        "deadline": {"type": "float", "default": DEFAULTS["deadline"]},
        "history_days": {"type": "int", "default": DEFAULTS["history_days"]},
        "services": {"type": "list", "elements": "str", "default": list(DEFAULTS["services"])},
        "paths": {"type": "list", "elements": "str", "default": list(DEFAULTS["paths"])},
        "redaction_key": {"type": "str", "no_log": True},
    }


def describe(params: Dict[str, Any]) -> Dict[str, Any]:
    """The module's result, redacted."""
    with carried(params["carried_libraries"]):
        answers = run_probes(probes(params))
    summaries = {name: probe.summary() for name, probe in answers.items()}
    return redacted({**facts(answers), "probes": summaries}, key_of(params["redaction_key"]))


def main() -> None:
    """Ask everything and return the documents."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        module.exit_json(changed=False, **describe(module.params))
    except BaselineError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
