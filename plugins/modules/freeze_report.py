#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: freeze_report
short_description: Close a freeze and show its outcome on one screen
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Writes F(run.json), F(facts/HOST.json), F(summary.txt) and F(SHA256SUMS) of a run and shows its outcome.
  - Hosts without a record stand in it with their reason.
  - Runs on the controller and connects to no host; call it with C(run_once) after every host is done.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
options:
  run:
    description:
      - Path of the run that M(gpufleet.baseline.run_dir) opened. Needed unless O(confirm) or check mode is on.
    type: str
    default: ""
  hosts:
    description:
      - All hosts of the group, the dead ones included.
    type: list
    elements: str
    default: []
  confirm:
    description:
      - Only sees that a freeze was closed in this playbook run, and fails when none was.
    type: bool
    default: false
  request_file:
    description:
      - Path of the fixed request's JSON body, which is kept in the run. A relative path is below the current directory.
    type: str
    default: ""
  plans:
    description:
      - In check mode, what M(gpufleet.baseline.freeze) returned for each host; it is shown and nothing is written.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Close the run
  gpufleet.baseline.freeze_report:
    run: "{{ opened.path }}"
    hosts: "{{ ansible_play_hosts_all }}"
  run_once: true
  register: closed

- name: Every host is frozen
  ansible.builtin.assert:
    that: closed.state == 'complete'
"""

RETURN = r"""
state:
  description: V(complete), V(partial), or V(leak); V(planned) in check mode.
  returned: always
  type: str
  sample: complete
run:
  description: Path of the run.
  returned: not in check mode
  type: str
  sample: /root/repro-2026-08-09/run-001
summary:
  description: Path of the summary with every host's answers.
  returned: not in check mode
  type: str
  sample: /root/repro-2026-08-09/run-001/summary.txt
"""
