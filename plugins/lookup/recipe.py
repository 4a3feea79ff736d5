# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: recipe
short_description: Read an official vLLM recipe as compatibility boundary and launch
version_added: 0.1.0
author:
  - the gpufleet.baseline authors (@gpufleet)
description:
  - Reads a model file of the vLLM recipes (YAML), or the JSON that the recipe site publishes for a model,
    from a path or URL.
  - Limits that stand only in prose (driver branch, CUDA build, image, number of GPUs) are found there;
    every limit says how it was come by. What a recipe does not state is null, never a default.
  - The launch is what the site published, word for word. Names it leaves open, such as C($HEAD_IP), are
    listed. A model file in YAML has no launch.
  - Missing, empty, foreign or malformed input is an error.
options:
  _terms:
    description:
      - Paths or URLs of recipes.
      - V(pinned:NAME) stands for a boundary that ships with the collection, such as V(pinned:kimi-k3), or
        for the path of a file of the same form.
    type: list
    elements: str
    required: true
  hardware:
    description:
      - The recipe's name for the hardware, such as V(gb300). Empty means what the recipe recommends.
    type: str
    default: ""
  strategy:
    description:
      - The recipe's name for the strategy, such as V(multi_node_tp). Empty means what the recipe recommends
        for the hardware.
    type: str
    default: ""
  variant:
    description:
      - The variant of the model.
    type: str
    default: default
"""

EXAMPLES = r"""
- name: Read the boundary and the launch of Kimi K3 on two GB300 trays
  ansible.builtin.set_fact:
    recipe: "{{ lookup('gpufleet.baseline.recipe', url, hardware='gb300', strategy='multi_node_tp') }}"
  vars:
    url: https://recipes.vllm.ai/moonshotai/Kimi-K3.json

- name: The boundary asks for a driver of the branch 580 or newer
  ansible.builtin.assert:
    that:
      - recipe.boundary.driver_branch == 580
      - recipe.boundary.sources.driver_branch.how == 'prose'
      - recipe.launch.node_count == recipe.launch.ranks | length
"""

RETURN = r"""
_raw:
  description: One mapping for each term.
  type: list
  elements: dict
  contains:
    boundary:
      description:
        - The limits by name, its C(sources) saying how each was come by; model facts,
          features, and notes on what contradicts itself.
      type: dict
    launch:
      description:
        - C(image), C(node_count), and C(ranks), a list of role, argv and env.
        - Null for a model file in YAML.
      type: dict
    source:
      description: Location, sha256, commit and time of reading, for every file that was read.
      type: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _boundary_pin
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._boundary import Choice
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._recipe import read_recipe


class LookupModule(LookupBase):
    """A thin face of the recipe reader."""

    def run(
        self, terms: list[Any], variables: dict[str, Any] | None = None, **options: Any
    ) -> list[dict[str, Any]]:
        """Read each recipe."""
        self.set_options(var_options=variables, direct=options)
        choice = Choice(*(str(self.get_option(name)) for name in ("hardware", "strategy", "variant")))
        if not terms:
            raise AnsibleLookupError("recipe: expected a path or URL, found none; name the recipe to read")
        try:
            return [_read(term, choice) for term in terms]
        except BaselineError as error:
            raise AnsibleLookupError(f"recipe: {error}") from error


def _read(term: Any, choice: Choice) -> dict[str, Any]:
    if not isinstance(term, str):
        raise BaselineError(f"expected a path or URL, found {type(term).__name__}")
    if not term.startswith(_boundary_pin.PINNED):
        return read_recipe(term, choice).as_dict()
    pin = _boundary_pin.load(term.removeprefix(_boundary_pin.PINNED))
    chosen = pin.choice(choice.hardware, choice.strategy, choice.variant)
    launch = pin.launch(chosen)
    return {
        "boundary": pin.boundary(chosen).as_dict(),
        "launch": launch.as_dict() if launch else None,
        "source": {"location": term, **pin.source},
    }
