#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate
short_description: Judge a launch group against a model's compatibility boundary
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Judges the facts that the tasks of the role P(gpufleet.baseline.gate#role) left for every host, or those
    of a recorded run, against the boundary of a model, and shows a table.
  - The task fails when a required rule failed or could not be decided. What was not measured never passes.
  - Runs on the controller and connects to no host; call it with C(run_once) in a play on the hosts
    themselves.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
options:
  run:
    description:
      - Path of the run into which the judgement is written. Without one nothing is written.
    type: str
    default: ""
  recorded:
    description:
      - Path of a run whose records are judged instead of live facts.
    type: str
    default: ""
  members:
    description:
      - Hosts of the launch group. Those that the play did not reach are undecided. The hosts of the play
        belong to it.
    type: list
    elements: str
    default: []
  boundary:
    description:
      - Name of a boundary that ships with the collection, or path of a file of the same form.
    type: str
    default: kimi-k3
  recipe:
    description:
      - Path or URL of the official recipe, read again for every run. Of pin and recipe the stricter limits
        hold.
    type: str
    default: ""
  hardware:
    description:
      - The recipe's name for the hardware. Empty means the boundary's own.
    type: str
    default: ""
  strategy:
    description:
      - The recipe's name for the strategy. Empty means the boundary's own.
    type: str
    default: ""
  variant:
    description:
      - The variant of the model. Empty means the boundary's own.
    type: str
    default: ""
  waivers:
    description:
      - Rules that are known not to hold. Each stays in every output and counts as a warning until its day.
    type: list
    elements: dict
    default: []
  allowed_processes:
    description:
      - Names of processes that may hold a GPU; shell patterns are allowed.
    type: list
    elements: str
    default: []
  ports:
    description:
      - Ports that the launch needs.
    type: list
    elements: int
    default: []
  clock_skew_seconds:
    description:
      - How far a host's clock may be off.
    type: float
    default: 1.0
  stale_after_days:
    description:
      - After how many days a pinned boundary is a warning when no recipe was read.
    type: int
    default: 14
  confirm:
    description:
      - Judge nothing; fail when nothing was judged in this playbook run, or when the judgement was not
        good.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Judge the hosts of this play
  gpufleet.baseline.gate:
    boundary: kimi-k3
    hardware: gb300
  run_once: true
  register: judged

- name: Show the odd host out
  ansible.builtin.debug:
    msg: "{{ judged.hosts | dict2items | rejectattr('value', 'in', ['pass', 'warn']) }}"

- name: Waive a rule until a day
  gpufleet.baseline.gate:
    waivers:
      - rule: gpu.persistence
        reason: the service is rolled out this week
        until: "2026-12-31"
  run_once: true
"""

RETURN = r"""
verdict:
  description: V(pass), V(warn), V(fail) or V(undecided).
  returned: always
  type: str
  sample: fail
hosts:
  description: The worst verdict that concerns each host.
  returned: when something was judged
  type: dict
  sample: {"n1": "pass", "n2": "fail"}
gate:
  description: Path of F(gate.json); empty without a run.
  returned: always
  type: str
  sample: /root/repro-2026-08-09/run-002/gate.json
score:
  description: The score of the run, 0 to 14.
  returned: when something was judged
  type: int
  sample: 6
"""
