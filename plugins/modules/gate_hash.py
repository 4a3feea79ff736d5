#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate_hash
short_description: Hash the files of a model at a limited rate
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Reads every file of the directories and gives its size and sha256, so that the models of two hosts can
    be compared to the last byte. This takes hours for a large model; without it the gate compares names,
    sizes and stored ids.
  - Reads at a limited rate and the lowest priority, and drops what it read from the page cache.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
options:
  paths:
    description:
      - Directories on the host.
    type: list
    elements: str
    required: true
  mib_per_second:
    description:
      - At most so many MiB are read in a second.
    type: float
    default: 200.0
"""

EXAMPLES = r"""
- name: Hash the model
  gpufleet.baseline.gate_hash:
    paths: [/models/kimi-k3]
    mib_per_second: 500
  register: hashed

- name: Every file was read
  ansible.builtin.assert:
    that: hashed.weights.paths['/models/kimi-k3'].outcome == 'ok'
"""

RETURN = r"""
weights:
  description:
    - The document C(gpufleet.baseline/weights/1). By path a fact of C(value), C(outcome), C(source) and
      C(message), whose value has size, sha256 and the name of the blob of every file.
  returned: always
  type: dict
  sample:
    schema: gpufleet.baseline/weights/1
    paths: {"/models/kimi-k3": {"value": null, "outcome": "absent", "source": "", "message": "no"}}
"""

import os
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._hash_files import Pace, hash_paths


def argument_spec() -> Dict[str, Any]:
    """The options of the module."""
    return {
        "paths": {"type": "list", "elements": "str", "required": True},
        "mib_per_second": {"type": "float", "default": 200.0},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    rate = module.params["mib_per_second"]
    if not rate > 0:
        module.fail_json(
            msg="mib_per_second: expected more than 0, found %s; choose a rate that the disk can spare" % rate
        )
    os.nice(19)
    module.exit_json(changed=False, weights=hash_paths(module.params["paths"], Pace(rate)))


if __name__ == "__main__":
    main()
