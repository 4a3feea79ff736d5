#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: attempt
short_description: Judge one attempt to start a launch, and write its run
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Leads an attempt on the controller. It says whether the launch may begin, whether every rank was started, what
    became of it, and closes the run with a run sheet.
  - An attempt is stable only when every rank was ready and every fixed request was answered, undisturbed.
  - Reads what the tasks of the launch register for each host. Connects to no host.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.actiongroup_all
attributes:
  check_mode:
    support: none
  diff_mode:
    support: N/A
  idempotent:
    support: N/A
options:
  run:
    description:
      - Path of the run, as M(gpufleet.baseline.run_dir) returns it.
    type: str
    required: true
  state:
    description:
      - The turn of the attempt.
      - V(allowed) fails when a host has no sealed record in the reproduction, when the gate of this run did not pass,
        or when there are fewer forks than hosts.
      - V(started) tells whether every rank was started, V(judged) gives the verdict, V(closed) closes the run.
    type: str
    required: true
    choices: [allowed, started, judged, closed]
  kind:
    description:
      - What the run was opened for.
    type: str
    default: minimal
  hosts:
    description:
      - Hosts of the launch.
    type: list
    elements: str
    default: []
  requests:
    description:
      - So many documents of fixed requests a stable attempt has.
    type: int
    default: 1
  without_record:
    description:
      - Why the launch may begin without a sealed record of every host. Kept in the run.
    type: str
    default: ""
  without_gate:
    description:
      - Why the launch may begin though the gate did not pass. Kept in the run.
    type: str
    default: ""
  what:
    description:
      - What is tried, for the run sheet.
    type: str
    default: minimal launch
  parent:
    description:
      - Name of the run that this one differs from.
    type: str
    default: ""
  only_change:
    description:
      - The one variable that differs.
    type: str
    default: ""
  expectation:
    description:
      - What should be seen.
    type: str
    default: ""
  way_back:
    description:
      - The command that undoes it.
    type: str
    default: ""
  clean_command:
    description:
      - The command that stops what is left, shown when GPUs were not shown to be free.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Judge the attempt
  gpufleet.baseline.attempt:
    run: "{{ opened.path }}"
    state: judged
    hosts: "{{ ansible_play_hosts_all }}"
  run_once: true
  register: judged
"""

RETURN = r"""
outcome:
  description: V(stable), V(failed), V(hung), V(disturbed), V(blocked), V(refused) or V(interrupted).
  returned: when O(state) is V(judged) or V(closed)
  type: str
  sample: stable
signature:
  description: What two attempts are compared by.
  returned: when O(state) is V(judged) or V(closed)
  type: dict
  sample: {"stage": "devices", "class": "no-gpu"}
all_started:
  description: Whether every rank was started.
  returned: when O(state) is V(started)
  type: bool
  sample: true
refusals:
  description: Why the launch may not begin.
  returned: when O(state) is V(allowed)
  type: list
  elements: str
  sample: []
"""
