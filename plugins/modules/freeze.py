#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: freeze
short_description: Freeze the state of one host into a sealed record
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Collects host, driver, GPUs, containers, images, logs, environment, versions and the order of earlier changes,
    removes secrets, and seals it all into one F(tar.gz) with a manifest.
  - Changes nothing on the host. Nothing is installed, started, stopped or pulled; no CUDA context is opened; no
    request is sent.
  - Use the role P(gpufleet.baseline.freeze#role), which opens the run, calls this for every host, and closes the run.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.info_module
  - gpufleet.baseline._attributes.actiongroup_all
options:
  run:
    description:
      - Path on the controller of the run that M(gpufleet.baseline.run_dir) opened. Needed unless in check mode.
    type: str
  host:
    description:
      - Name of the host in the record. The action plugin fills it with the inventory name.
    type: str
    default: ""
  reproduction:
    description:
      - Name of the reproduction in the record. Filled by the action plugin.
    type: str
    default: ""
  containers:
    description:
      - Names or ids of the containers to freeze.
      - Without names, those that look like vLLM or ask for GPUs, in whatever state.
    type: list
    elements: str
    default: []
  processes:
    description:
      - Process ids of engines that run outside of a container.
      - Without ids, every process that looks like vLLM.
    type: list
    elements: int
    default: []
  docker_socket:
    description:
      - Path of the Engine's socket, Docker's or Podman's. Without one the usual places are tried.
    type: str
    default: ""
  log_limit_mib:
    description:
      - A container's log up to this size, in MiB, is kept whole. Of a longer one head, tail and the window round the
        first failure are kept, and the record says what was cut.
    type: int
    default: 2048
  smi_deadline:
    description:
      - Seconds that one call of C(nvidia-smi) may take. Slow is not dead, hence the patience.
    type: float
    default: 60.0
  nvml_deadline:
    description:
      - Seconds that asking NVML may take, all GPUs together.
    type: float
    default: 60.0
  docker_deadline:
    description:
      - Seconds that one question to the Engine may take.
    type: float
    default: 30.0
  extra_files:
    description:
      - Further files on the host to put into the record, redacted like everything else. Shell patterns are allowed.
    type: list
    elements: str
    default: []
  secret_names:
    description:
      - Further names of variables or keys whose values are secrets.
    type: list
    elements: str
    default: []
  request:
    description:
      - Body of the fixed request, kept in the record. It is not sent.
    type: str
    default: ""
  request_file:
    description:
      - Path on the controller of the fixed request's JSON body; it is read in place of O(request).
      - A relative path is below the current directory.
    type: str
    default: ""
  note:
    description:
      - A note of the operator, kept in the record.
    type: str
    default: ""
  earlier_changes:
    description:
      - Changes that a person knows of, for the timeline.
    type: list
    elements: dict
    default: []
    suboptions:
      time:
        description: When, in a form that sorts, such as V(2026-08-09T14:30:00Z).
        type: str
        required: true
      who:
        description: Who made the change.
        type: str
        default: ""
      what:
        description: What was changed.
        type: str
        required: true
  staging_places:
    description:
      - Directories on the host in which the staging directory may be made. The one with the most free space is taken.
      - The default is V(/var/tmp), V(/tmp), and V(/dev/shm) when the disks are nearly full.
    type: list
    elements: str
    default: []
  keep_on_host:
    description:
      - Leave the sealed record on the host after it was fetched and verified.
    type: bool
    default: false
  staging:
    description:
      - The staging directory. Filled by the action plugin.
    type: str
    default: ""
  redaction_key:
    description:
      - The key of the stand-ins, 64 hexadecimal digits. Filled by the action plugin.
    type: str
    required: true
  carried_libraries:
    description:
      - Python libraries that travel with the task. Filled by the action plugin.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Freeze one host into an open run
  gpufleet.baseline.freeze:
    run: "{{ opened.path }}"
    containers: [vllm]
  register: frozen

- name: The record is on the controller
  ansible.builtin.assert:
    that: frozen.state == 'frozen'
"""

RETURN = r"""
state:
  description: V(frozen), V(failed), V(unreachable), or V(planned) in check mode.
  returned: always
  type: str
  sample: frozen
reason:
  description: Why the host is not frozen.
  returned: always
  type: str
  sample: ""
record:
  description: Path of the record on the controller.
  returned: when O(run) was given and the state is V(frozen)
  type: str
  sample: /root/repro-2026-08-09/run-001/hosts/tray1.tar.gz
sha256:
  description: Checksum of the record.
  returned: when the state is V(frozen)
  type: str
  sample: 2412f23dfad893b18e4a2ea616548b96da1c35e4f41b01d441feeb4a160cad64
bytes:
  description: Size of the record in bytes.
  returned: when the state is V(frozen)
  type: int
  sample: 381004
coverage:
  description: How many probes were asked and how many answered, by outcome.
  returned: when the state is V(frozen)
  type: dict
  sample: {"probes": 44, "ok": 41, "absent": 2, "timeout": 1}
secrets:
  description: How many values were redacted, by name; never a value.
  returned: when the state is V(frozen)
  type: dict
  sample: {"HF_TOKEN": 3}
plan:
  description: What would be collected.
  returned: in check mode
  type: list
  elements: str
  sample: ["gpu.smi.query: nvidia-smi -q"]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._abandoned import (
    own_directories,
    remove_when_ended,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze import freeze, plan


def argument_spec() -> dict[str, Any]:
    """The options of the module."""
    change = {
        "time": {"type": "str", "required": True},
        "who": {"type": "str", "default": ""},
        "what": {"type": "str", "required": True},
    }
    return {
        "run": {"type": "str"},
        "host": {"type": "str", "default": ""},
        "reproduction": {"type": "str", "default": ""},
        "containers": {"type": "list", "elements": "str", "default": []},
        "processes": {"type": "list", "elements": "int", "default": []},
        "docker_socket": {"type": "str", "default": ""},
        "log_limit_mib": {"type": "int", "default": 2048},
        "smi_deadline": {"type": "float", "default": 60.0},
        "nvml_deadline": {"type": "float", "default": 60.0},
        "docker_deadline": {"type": "float", "default": 30.0},
        "extra_files": {"type": "list", "elements": "str", "default": []},
        "secret_names": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "request": {"type": "str", "default": ""},
        "request_file": {"type": "str", "default": ""},
        "note": {"type": "str", "default": ""},
        "earlier_changes": {"type": "list", "elements": "dict", "default": [], "options": change},
        "staging_places": {"type": "list", "elements": "str", "default": []},
        "keep_on_host": {"type": "bool", "default": False},
        "staging": {"type": "str", "default": ""},
        "redaction_key": {"type": "str", "required": True, "no_log": True},
        "carried_libraries": {"type": "str", "default": "", "no_log": True},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    remove_when_ended([*filter(None, [module.params["staging"]]), *own_directories(__file__, module._tmpdir)])
    options = dict(module.params)
    # Ansible returns a module's arguments, and shows them with -vvv: what the operator wrote may hold a secret.
    module.params.update(request="", note="", earlier_changes=[])
    try:
        with carried(options["carried_libraries"]):
            if module.check_mode:
                module.exit_json(changed=False, plan=plan(options))
            module.exit_json(changed=False, **freeze(options))
    except BaselineError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
