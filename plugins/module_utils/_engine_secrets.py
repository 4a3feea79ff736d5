# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the secrets out of a document about engines before it leaves the host (private to the collection)."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor


def redacted(result: Mapping[str, Any], key: bytes, names: Sequence[str] = ()) -> Dict[str, Any]:
    """The result with stand-ins; ``names`` are further names of variables whose values are secrets."""
    redactor = Redactor(key)
    learn(redactor, result["engine"], names)
    clean: Dict[str, Any] = redactor.redact_value(dict(result))
    return clean


def learn(redactor: Redactor, document: Mapping[str, Any], names: Sequence[str] = ()) -> None:
    """Teach a redactor every environment and command line of a document, before anything is redacted."""
    for environment, argv in _starts(document):
        redactor.learn_environment(environment)
        redactor.learn_argv(argv)
        values = environment_of(environment)
        # The redactor goes by names; one that the user calls secret is given the word.
        redactor.learn_environment({name + "_SECRET": values[name] for name in names if values.get(name)})
    redactor.learn_value(document)


def _starts(document: Mapping[str, Any]) -> Iterator[Tuple[List[str], List[str]]]:
    for container in document["containers"]:
        yield container["environment"], container["command"]
    for process in document["processes"]:
        yield process["environment"] or [], process["argv"]
