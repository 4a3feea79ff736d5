#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: leak_check
short_description: Test a fetched record against the secrets of the other hosts
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Every host returns keyed digests of the secrets it found, never the values. This tests one host's record on the
    controller against the digests of all others.
  - A record with a hit is moved to F(quarantine/) in the run.
  - Runs on the controller and connects to no host.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
options:
  run:
    description:
      - Path of the run that M(gpufleet.baseline.run_dir) opened.
    type: str
    required: true
  host:
    description:
      - Inventory name of the host whose record is tested.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Test the record
  gpufleet.baseline.leak_check:
    run: "{{ opened.path }}"
    host: "{{ inventory_hostname }}"
  register: checked

- name: It holds no secret of another host
  ansible.builtin.assert:
    that: checked.leaks == []
"""

RETURN = r"""
state:
  description: V(frozen) or V(quarantined), or the state that M(gpufleet.baseline.freeze) gave.
  returned: always
  type: str
  sample: frozen
leaks:
  description: Every hit as member, name of the secret, and the host that keeps it.
  returned: always
  type: list
  elements: str
  sample: []
"""
