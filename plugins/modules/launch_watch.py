#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: launch_watch
short_description: Watch the start of the ranks of a host until they are ready or have failed
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Watches ranks that were started, stage by stage, until the group is ready, a rank
    ends, nothing progresses any more, or the time is over. Every host of the group watches its own ranks; the
    wait ends for all of them together.
  - On the controller it is a loop of short calls, each of which waits a few seconds for news on the host and ends
    at once when a rank ends. Each call renews the ranks' lease, so that a controller that is gone stops them.
  - Writes F(watch/HOST-RANK.jsonl) (events) and F(logs/HOST-RANK.log.gz) (the log, without secrets) into the run.
  - A failed start is a result and not a failure of the task.
  - The plays that watch a group need the linear strategy and as many forks as hosts.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.actiongroup_all
requirements:
  - docker (Python library) 7.0.0 or newer and C(nvidia-ml-py). Both travel with the task, so nothing is installed
    on the host.
  - Docker Engine 20.10 or newer, or Podman with its Docker-compatible socket, for ranks that are containers.
attributes:
  check_mode:
    support: full
    details:
      - Watches nothing in check mode.
  diff_mode:
    support: N/A
    details:
      - Only looks, unless O(collect=python_stacks).
  idempotent:
    support: N/A
    details:
      - Only looks, unless O(collect=python_stacks).
options:
  ranks:
    description:
      - The handles of the ranks that were started on this host.
      - A rank may also have C(api_port), the port on which it serves, and C(gpus), the UUIDs of its GPUs. Where
        the run has a F(launch.json), both are taken from there.
    type: list
    elements: dict
    required: true
  run:
    description:
      - The path of the run's directory, on the controller.
    type: path
  collect:
    description:
      - C(events) watches.
      - C(evidence) reads once where all threads of the ranks are, without changing anything.
      - C(python_stacks) lets Python processes that have a fault handler write the stacks of their threads to the
        log. They end by it, so use it right before the ranks are stopped.
    type: str
    choices: [events, evidence, python_stacks]
    default: events
  deadline:
    description:
      - Seconds that the group may take until it is ready. The first host to watch sets the moment for all.
    type: float
    default: 5400.0
  stage_limits:
    description:
      - Seconds without any progress of any rank after which a start counts as hung, by stage. Names that are not
        given keep their default, which F(docs/watching-a-start.md) gives reasons for.
    type: dict
    default: {}
  unreachable_seconds:
    description:
      - Seconds for which a connection that is gone is tried again.
    type: float
    default: 120.0
  linger_seconds:
    description:
      - Seconds that a rank whose log names a failure may live on before the wait ends without its exit.
    type: float
    default: 90.0
  wait_seconds:
    description:
      - Seconds that one call waits for news on the host.
    type: float
    default: 3.0
  known_holders:
    description:
      - Processes that held GPUs before the start and are no disturbance, as C(PID@START-TICKS).
    type: list
    elements: str
    default: []
  secrets:
    description:
      - Further values that must not be shown, by name.
    type: dict
    default: {}
  cursor:
    description:
      - Where the last call ended. Filled by the action plugin.
    type: dict
    default: {}
  redaction_key:
    description:
      - Key of the stand-ins of this reproduction, in hexadecimal digits. Filled by the action plugin.
    type: str
    default: ""
  docker_socket:
    description:
      - Path of the Engine's Unix socket; without one it is looked for where M(gpufleet.baseline.engine_info) does.
    type: str
    default: ""
  carried_libraries:
    description:
      - Python libraries that travel with the task. Filled by the action plugin.
    type: str
    default: ""
seealso:
  - module: gpufleet.baseline.first_failure
"""

EXAMPLES = r"""
- name: Watch the start on every host of the group
  gpufleet.baseline.launch_watch:
    ranks: "{{ started.ranks }}"
    run: "{{ run_dir }}"
    deadline: 3600
    stage_limits:
      engine: 1200
  register: watched

- name: Name the stage that a start ended in
  ansible.builtin.debug:
    msg: "{{ watched.outcome }} in {{ watched.stage }}: {{ watched.last_line }}"
  when: watched.outcome != 'ready'

- name: Python stacks of a hung rank, right before it is stopped
  gpufleet.baseline.launch_watch:
    ranks: "{{ started.ranks }}"
    run: "{{ run_dir }}"
    collect: python_stacks
  when: watched.outcome == 'hung'
"""

RETURN = r"""
outcome:
  description:
    - C(ready) (the API rank is up; only an answered request proves more), C(failed), C(hung), C(disturbed) (a new
      process holds a GPU), C(deadline), C(sibling) (another rank ended the wait) or C(unreachable).
  returned: when O(collect=events)
  type: str
  sample: failed
stage:
  description: The stage that the rank was in, as M(gpufleet.baseline.first_failure) names it.
  returned: when O(collect=events)
  type: str
  sample: weights
substage:
  description: The part of the stage.
  returned: when O(collect=events)
  type: str
  sample: load
reason:
  description: Why the wait ended, in one line.
  returned: when O(collect=events)
  type: str
  sample: "exit code 1 after 43 s"
last_line:
  description: The last line of the rank that shows progress, without escape sequences.
  returned: when O(collect=events)
  type: str
exit:
  description: The state in which the rank ended; empty while it runs.
  returned: when O(collect=events)
  type: dict
  sample: {"running": false, "exit_code": 1, "oom_killed": false, "finished_at": "2026-12-01T01:02:03.4Z"}
evidence:
  description:
    - Where the threads of all processes of a rank were, when the start was hung or out of time, the document
      C(gpufleet.baseline/hang-evidence/1). With O(collect=python_stacks), what became of every process.
  returned: always
  type: dict
watched_seconds:
  description: How long it was watched.
  returned: when O(collect=events)
  type: float
ranks:
  description: The same keys for each rank of the host, where it has several; the others are those of the first to end.
  returned: when O(collect=events)
  type: list
  elements: dict
"""

import os
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils import _watch_evidence, _watch_stacks
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import find_socket
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_poll import PollOptions, poll
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank


def argument_spec() -> Dict[str, Any]:
    """The options of the module."""
    return {
        "ranks": {"type": "list", "elements": "dict", "required": True},
        "run": {"type": "path"},
        "collect": {
            "type": "str",
            "choices": ["events", "evidence", "python_stacks"],
            "default": "events",
        },
        "deadline": {"type": "float", "default": 5400.0},
        "stage_limits": {"type": "dict", "default": {}},
        "unreachable_seconds": {"type": "float", "default": 120.0},
        "linger_seconds": {"type": "float", "default": 90.0},
        "wait_seconds": {"type": "float", "default": 3.0},
        "known_holders": {"type": "list", "elements": "str", "default": []},
        "secrets": {"type": "dict", "default": {}, "no_log": True},
        "cursor": {"type": "dict", "default": {}},
        "redaction_key": {"type": "str", "default": "", "no_log": True},
        "docker_socket": {"type": "str", "default": ""},
        "carried_libraries": {"type": "str", "default": "", "no_log": True},
    }


def answer(params: Dict[str, Any]) -> Dict[str, Any]:
    """One call's result."""
    ranks: List[Rank] = [Rank.from_handle(handle) for handle in params["ranks"]]
    socket = find_socket(params["docker_socket"], os.environ).path
    if params["collect"] == "evidence":
        return {"evidence": _watch_evidence.collect(ranks, socket)}
    if params["collect"] == "python_stacks":
        return {"evidence": _watch_stacks.write_stacks(ranks, socket)}
    try:
        key = bytes.fromhex(params["redaction_key"])
    except ValueError as error:
        raise BaselineError("redaction_key: expected hexadecimal digits, found something else") from error
    if not key:
        raise BaselineError(
            "redaction_key: expected the key of the reproduction, found none; call the module through its "
            "action plugin, which fills this option"
        )
    return poll(
        PollOptions(
            ranks,
            params["cursor"],
            params["wait_seconds"],
            key,
            {str(name): str(value) for name, value in params["secrets"].items()},
            params["docker_socket"],
            params["known_holders"],
        )
    )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False)
    try:
        with carried(module.params["carried_libraries"]):
            result = answer(module.params)
    except BaselineError as error:
        module.fail_json(msg=str(error))
    changed = module.params["collect"] == "python_stacks"
    module.exit_json(changed=changed, **result)


if __name__ == "__main__":
    main()
