#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_dir
short_description: Open a run on the controller
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Makes the next run directory of a reproduction on the controller, and the reproduction's redaction key when it
    has none.
  - A run is never overwritten. Called again in the same playbook run it returns the run that is open already.
  - Runs on the controller and connects to no host; call it with C(run_once).
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
options:
  reproduction:
    description:
      - Directory of the reproduction. A relative path is below the current directory.
      - The default is V(repro-) and today's date (UTC).
    type: str
    default: ""
  kind:
    description:
      - What the run does, such as V(freeze).
    type: str
    required: true
  document:
    description:
      - Further content of F(run.json).
    type: dict
    default: {}
  request_file:
    description:
      - Path of the fixed request's JSON body. It is only looked at here, so that a wrong one is known before any host
        is frozen. A relative path is below the current directory.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Open a run
  gpufleet.baseline.run_dir:
    kind: freeze
  run_once: true
  register: opened

- name: The run has a number
  ansible.builtin.assert:
    that: opened.run is match('run-')
"""

RETURN = r"""
path:
  description: Absolute path of the run; empty in check mode.
  returned: always
  type: str
  sample: /root/repro-2026-08-09/run-001
run:
  description: Name of the run; empty in check mode.
  returned: always
  type: str
  sample: run-001
reproduction:
  description: Absolute path of the reproduction.
  returned: always
  type: str
  sample: /root/repro-2026-08-09
"""
