#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fixed_request
short_description: Send one fixed request to a vLLM server and keep what happened
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Sends the same stored body again and again, one client, one time limit, no retries, no redirects, no proxy.
  - A server is ready when it answers with a well-formed choice and has counted tokens of its own. A reasoning
    model may spend all of them on reasoning and leave the content empty, which is an answer and is said so. One
    token repeated is V(wrong content).
  - Meanwhile it keeps a trace of the memory on each GPU, and before and after them the health and the metrics of
    the engine. When the engine finished another number of requests than were sent, the attempt is disturbed.
  - Fails only when nothing could be sent. A server that refuses, hangs or is gone is a result.
extends_documentation_fragment:
  - gpufleet.baseline._attributes
  - gpufleet.baseline._attributes.actiongroup_all
attributes:
  check_mode:
    support: full
    details:
      - Sends nothing and returns what would be sent.
  diff_mode:
    support: N/A
    details:
      - Changes no file or setting.
  idempotent:
    support: N/A
    details:
      - A request is an observation; the engine works on it each time.
options:
  url:
    description:
      - The server, without the route.
    type: str
    default: http://127.0.0.1:8000
  route:
    description:
      - Path of the request.
    type: str
    default: /v1/chat/completions
  body:
    description:
      - The body as JSON text, sent byte for byte. It must not ask for streaming.
      - Empty means one short sentence for the chat route with temperature 0 and 32 tokens.
    type: str
    default: ""
  body_file:
    description:
      - File of the controller with the body, instead of O(body). Read by the action plugin of the same name.
    type: path
  model:
    description:
      - Name of the served model for the default body. Empty means the first one that the server lists.
    type: str
    default: ""
  timeout:
    description:
      - Seconds that one exchange may take from the connection to the last byte.
    type: float
    default: 120.0
  times:
    description:
      - So many rounds are sent, one after the other.
    type: int
    default: 1
  parallel:
    description:
      - So many requests are sent at once in each round.
    type: int
    default: 1
  api_key:
    description:
      - Sent as a bearer token and kept nowhere.
    type: str
    default: ""
  api_key_file:
    description:
      - File of the controller whose first line is the key, instead of O(api_key). Read by the action plugin of the
        same name.
    type: path
  request_id:
    description:
      - Beginning of the C(X-Request-Id) that each request carries; a number follows.
    type: str
    default: ""
  validate_certs:
    description:
      - Whether the certificate of an https server must be right.
    type: bool
    default: true
  run:
    description:
      - Path of the run on the controller, as M(gpufleet.baseline.run_dir) returns it. The document is written
        there as F(request/NNN.json).
      - Read by the action plugin of the same name.
    type: path
  label:
    description:
      - What the requests are for, such as V(after the load). Kept with them.
    type: str
    default: ""
  redaction_key:
    description:
      - Key of the stand-ins, as 64 hexadecimal digits, so that equal secrets have equal stand-ins.
      - Filled in by the action plugin of the same name when O(run) is given; without it stand-ins can be
        compared with nothing else.
    type: str
  carried_libraries:
    description:
      - The Python libraries that travel with the task, as a base64 zip archive.
      - Filled in by the action plugin of the same name; there is no need to set it.
    type: str
"""

EXAMPLES = r"""
- name: Send the fixed request three times
  gpufleet.baseline.fixed_request:
    url: http://127.0.0.1:8000
    times: 3
  register: asked

- name: The engine answered, and nobody else used it
  ansible.builtin.assert:
    that:
      - asked.request.outcome == 'answered'
      - not asked.request.disturbed
"""

RETURN = r"""
request:
  description: The document C(gpufleet.baseline/request/1).
  returned: always
  type: dict
  contains:
    outcome:
      description:
        - V(answered), or how the first other one ended, V(wrong content), V(no tokens), V(malformed), V(refused),
          V(server error), V(timeout), V(not connected) or V(connection lost).
      type: str
    message:
      description: One line about an outcome that is not V(answered).
      type: str
    attempts:
      description: For each request its status, headers of interest, body, times in seconds, and tokens.
      type: list
      elements: dict
    sent:
      description: How many were sent.
      type: int
    answered:
      description: How many were answered.
      type: int
    finished:
      description: How many the engine says it finished meanwhile; null when it does not tell.
      type: float
    disturbed:
      description: Why the engine's count says that we were not alone; else empty.
      type: str
    metrics:
      description: Values before and after, and by how much each grew.
      type: dict
    cache_config:
      description: How the engine says that its cache is set up, such as C(block_size) and C(enable_prefix_caching).
      type: dict
    gpu_memory:
      description: Bytes in use on each GPU over the time, one entry for each change.
      type: dict
file:
  description: Where the document was written on the controller.
  returned: when O(run) was given
  type: str
"""

import json
from typing import Any, Dict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpufleet.baseline.plugins.module_utils._carried import carried
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._redaction_key import key_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._request import _body, _send


def argument_spec() -> Dict[str, Any]:
    """The options of the module."""
    return {
        "url": {"type": "str", "default": "http://127.0.0.1:8000"},
        "route": {"type": "str", "default": _body.CHAT_ROUTE},
        "body": {"type": "str", "default": ""},
        "body_file": {"type": "path"},
        "model": {"type": "str", "default": ""},
        "timeout": {"type": "float", "default": 120.0},
        "times": {"type": "int", "default": 1},
        "parallel": {"type": "int", "default": 1},
        "api_key": {"type": "str", "default": "", "no_log": True},
        "api_key_file": {"type": "path"},
        "request_id": {"type": "str", "default": ""},
        "validate_certs": {"type": "bool", "default": True},
        "run": {"type": "path"},
        "label": {"type": "str", "default": ""},
        "carried_libraries": {"type": "str", "no_log": True},
        "redaction_key": {"type": "str", "no_log": True},
    }


def plan_of(params: Dict[str, Any]) -> _send.Plan:
    """What the options ask for; the default body may have to ask the server for the model."""
    for name in ("times", "parallel"):
        if not 1 <= params[name] <= 1000:
            raise BaselineError("%s: expected 1 to 1000, found %d" % (name, params[name]))
    if not params["timeout"] > 0:
        raise BaselineError("timeout: expected more than 0 seconds, found %g" % params["timeout"])
    headers = {"Authorization": "Bearer %s" % params["api_key"]} if params["api_key"] else {}
    body = params["body"]
    if not body:
        model = params["model"] or _send.served_model(params["url"], headers, params["validate_certs"])
        body = _body.default_body(model)
    return _send.Plan(
        url=params["url"],
        body=body,
        route=params["route"],
        headers=headers,
        timeout=params["timeout"],
        times=params["times"],
        parallel=params["parallel"],
        verify=params["validate_certs"],
        request_id=params["request_id"],
    )


def redacted(document: Dict[str, Any], params: Dict[str, Any]) -> Dict[str, Any]:
    """The document without the API key, which a server may repeat in its errors, and without other secrets."""
    redactor = Redactor(key_of(params["redaction_key"]))
    if params["api_key"]:
        redactor.learn(params["api_key"].encode(), "api_key")
    result: Dict[str, Any] = redactor.redact_value(document)
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    try:
        if module.check_mode:
            body = module.params["body"] or _body.default_body(module.params["model"] or "the served model")
            _body.check(body)
            planned = {"schema": _send.SCHEMA, "body": json.loads(body), "outcome": "planned"}
            module.exit_json(changed=False, request=redacted(planned, module.params))
        with carried(module.params["carried_libraries"]):
            document = _send.run(plan_of(module.params))
        document["label"] = module.params["label"]
        module.exit_json(changed=False, request=redacted(document, module.params))
    except BaselineError as error:
        module.fail_json(msg="fixed_request: %s" % error)


if __name__ == "__main__":
    main()
