#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: first_failure
short_description: Say which stage of a vLLM start failed first, and with what
version_added: 0.1.0
description:
  - Reads the logs of all ranks and hosts of one engine and finds the failure that came first, over all of
    them and by time.
  - What only followed is listed as a consequence. What these logs can not show is said, with low confidence.
  - Reads files in a stream, plain or gzip, in memory that does not grow with their size.
  - Values that look like secrets are replaced in what is returned.
options:
  logs:
    description:
      - The logs, on the host that the module runs on. For a group, fetch the logs and run the module on the
        controller.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: The log file.
        type: path
        required: true
      node:
        description: The node that it is of; node 0 is the head.
        type: int
        default: 0
      clock_offset_seconds:
        description: How far this node's clock is ahead of node 0's.
        type: float
        default: 0.0
      kind:
        description:
          - What the file is. C(auto) looks at the content, not at the name.
          - Say C(kernel) for a log of the kernel, which may hold nothing that tells it from another log.
        type: str
        choices: [auto, vllm, docker_json, kernel]
        default: auto
      started_at:
        description: When the container was started, as C(docker inspect) writes it.
        type: str
  state:
    description: The C(State) of C(docker inspect), for the exit code and C(OOMKilled).
    type: dict
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
author:
  - the gpufleet.baseline authors (@gpufleet)
"""

EXAMPLES = r"""
- name: Judge the fetched logs of both hosts
  gpufleet.baseline.first_failure:
    logs:
      - path: "{{ run_dir }}/logs/tray-a-0.log.gz"
        node: 0
      - path: "{{ run_dir }}/logs/tray-b-1.log.gz"
        node: 1
        clock_offset_seconds: -34
  delegate_to: localhost
  register: judged

- name: Show it
  ansible.builtin.debug:
    msg: "{{ judged.text }}"

- name: Go on only when the engine is ready
  ansible.builtin.assert:
    that: judged.verdict.outcome == 'ready'
    fail_msg: "{{ judged.verdict.message }}"
"""

RETURN = r"""
verdict:
  description: The judgement; C(docs/reading-a-vllm-log.md) describes every key.
  returned: always
  type: dict
  contains:
    outcome:
      description: C(ready), C(failed), C(hung), C(stopped), C(running) or C(unknown).
      type: str
      returned: always
      sample: failed
    stage:
      description: C(container), C(devices), C(weights), C(engine), C(api), C(runtime) or C(none).
      type: str
      returned: always
      sample: engine
    substage:
      description: The part of the stage.
      type: str
      returned: always
      sample: nccl-init
    failure_class:
      description: A short name for the kind of failure; C(none) and C(hang) included.
      type: str
      returned: always
      sample: nccl-rdma-registration
    line:
      description: First line of the first failure's block, or the last line of progress before a hang.
      type: int
      returned: always
      sample: 4
    confidence:
      description: C(high), C(medium) or C(low); C(reason) says why.
      type: str
      returned: always
      sample: high
    signature:
      description: What makes two failures the same.
      type: dict
      returned: always
text:
  description: The same for a terminal 100 columns wide, as lines.
  returned: always
  type: list
  elements: str
"""

import os
import time
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import (
    KINDS,
    LogSource,
    judge_files,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._render import render_timeline
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor


def argument_spec() -> Dict[str, Any]:
    """The module's options."""
    return {
        "logs": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "path": {"type": "path", "required": True},
                "node": {"type": "int", "default": 0},
                "clock_offset_seconds": {"type": "float", "default": 0.0},
                "kind": {"type": "str", "choices": list(KINDS), "default": "auto"},
                "started_at": {"type": "str"},
            },
        },
        "state": {"type": "dict"},
    }


def judge(logs: List[Dict[str, Any]], state: Any) -> Dict[str, Any]:
    """The module's result."""
    sources = [LogSource(**log) for log in logs]
    redactor = Redactor(os.urandom(32))  # a key of this task alone: nothing is compared with its stand-ins
    verdict: Dict[str, Any] = redactor.redact_value(judge_files(sources, state, time.time()))
    return {"changed": False, "verdict": verdict, "text": render_timeline(verdict).splitlines()}


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        result = judge(module.params["logs"], module.params["state"])
    except OSError as error:
        module.fail_json(
            msg="Expected readable log files, found {0}: {1}. Check the path on this host.".format(
                error.filename, error.strerror
            )
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
