#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: request_report
short_description: Close a run of fixed requests and show what came
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Closes the run that M(gpufleet.baseline.fixed_request) wrote into and shows one line for each document.
  - Fails when nothing was asked, when a request was not answered, or when somebody else used the engine meanwhile.
  - Runs on the controller and connects to no host; call it with C(run_once) after the requests.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.actiongroup_all
attributes:
  check_mode:
    support: none
  diff_mode:
    support: N/A
  idempotent:
    support: full
options:
  run:
    description:
      - Path of the run, as M(gpufleet.baseline.run_dir) returns it. Needed unless O(confirm) is on.
    type: str
    default: ""
  confirm:
    description:
      - Only sees that requests were sent in this playbook run, and fails when none were.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Close the run
  gpufleet.baseline.request_report:
    run: "{{ opened.path }}"
  run_once: true
"""

RETURN = r"""
answered:
  description: How many requests were answered.
  returned: always
  type: int
  sample: 3
sent:
  description: How many were sent.
  returned: always
  type: int
  sample: 3
"""
