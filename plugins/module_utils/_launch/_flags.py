# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of ``vllm serve`` as flags, and back word for word (private to the collection; pure).

What takes a value, several or none is read from vLLM 0.32.0 (vllm/entrypoints/launchers/cli_args.py and
vllm/engine/arg_utils.py, https://github.com/vllm-project/vllm); of a flag given twice the last one holds, and
``--flag.key value`` is a part of the JSON value of ``--flag`` (vllm/utils/argparse_utils.py).
"""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_argv import (
    is_option,
    is_switch,
    long_name,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

# What a switch is worth. No value of vLLM's has parentheses round it.
ON, OFF = "(on)", "(off)"
MODEL = "model"
# Flags that take all words up to the next flag.
_SEVERAL = {
    *("lora-modules", "allowed-media-domains", "served-model-name", "sleep-preserve-parameter-names"),
    *("logits-processors", "ignore-patterns", "numa-bind-nodes", "numa-bind-cpus"),
    *("kv-cache-dtype-skip-layers", "cpu-offload-params", "offload-params", "lora-target-modules"),
    *("collect-detailed-traces", "cudagraph-capture-sizes", "middleware"),
}
_SHORT = {
    "sc": "speculative-config",
    "dc": "diffusion-config",
    "cc": "compilation-config",
    "ac": "attention-config",
}
_LEVEL = re.compile(r"^-O=?(\d)$")


@dataclass(frozen=True)
class Flag:
    """One flag with its values, by its long name without dashes, and its words as they were given.

    A word that belongs to no flag, such as the model, has no name.
    """

    name: str
    values: Tuple[str, ...]
    words: Tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command of vLLM: its program (``vllm serve``), and its flags in the order in which they were given."""

    program: Tuple[str, ...]
    flags: Tuple[Flag, ...]

    def words(self) -> Tuple[str, ...]:
        """The command again, word for word."""
        return (*self.program, *(word for flag in self.flags for word in flag.words))

    def meaning(self) -> Dict[str, str]:
        """What holds, by flag (``--name``): the last of a repeated flag, JSON by its content, ON or OFF of a switch.

        The model is ``model``, further words are ``word[1]`` and on.
        """
        found: Dict[str, str] = {}
        parts: Dict[str, Any] = {}
        others = 0
        for flag in self.flags:
            base, dot, _keys = flag.name.partition(".")
            if not flag.name:
                found[MODEL if not others else f"word[{others}]"] = flag.words[0]
                others += 1
            elif dot:
                _merge(parts.setdefault(base, {}), flag)
            else:
                found[_key(base)] = _worth(flag)
        # vLLM puts the parts behind all other words, so that they win over the whole value of the same flag.
        for base, value in parts.items():
            found["--" + base] = canonical(json.dumps(value))
        return found

    def value(self, name: str) -> Optional[str]:
        """What a flag is worth; None when it is not given."""
        return self.meaning().get(name)

    def number(self, name: str, default: int) -> int:
        """A flag's number; the default when it is not given or no number."""
        value = self.value(name)
        return int(value) if value is not None and re.match(r"^\d{1,9}$", value) else default

    def is_on(self, name: str) -> bool:
        """Whether a switch is given and on."""
        return self.value(name) == ON

    def without(self, name: str) -> Command:
        """The command without a flag, however often and in whatever form it is given."""
        return Command(self.program, tuple(flag for flag in self.flags if not _stands_for(flag, name)))

    def with_value(self, name: str, value: str) -> Command:
        """The command with a flag set: in the place where it was given first, else at the end."""
        new = flag_of(name, value)
        kept: List[Flag] = []
        placed = False
        for flag in self.flags:
            if not _stands_for(flag, name):
                kept.append(flag)
            elif not placed:
                kept.append(new)
                placed = True
        if not placed:
            kept.insert(0 if name == MODEL else len(kept), new)
        return Command(self.program, tuple(kept))


def parse(argv: Sequence[str]) -> Command:
    """Read a command; it must begin with vLLM's server, not with a shell around it."""
    start = _program_length(argv)
    flags: List[Flag] = []
    at = start
    while at < len(argv):
        word = argv[at]
        level = _LEVEL.match(word)
        if level:
            flags.append(Flag("optimization-level", (level.group(1),), (word,)))
        elif not is_option(word):
            flags.append(Flag("", (), (word,)))
        else:
            flags.append(_option(argv, at))
        at += len(flags[-1].words)
    return Command(tuple(argv[:start]), tuple(flags))


def flag_of(name: str, value: str) -> Flag:
    """The flag that has this meaning; the other way round than ``meaning``."""
    if not name.startswith("--"):
        return Flag("", (), (value,))
    plain = name[2:]
    if value in (ON, OFF):
        plain = plain if value == ON else "no-" + plain
        return Flag(plain, (), ("--" + plain,))
    values = tuple(shlex.split(value)) if plain in _SEVERAL else (value,)
    return Flag(plain, values, ("--" + plain, *values))


def shown(name: str, value: str) -> str:
    """A flag's meaning for people, as it is written in a command."""
    return " ".join(shlex.quote(word) for word in flag_of(name, value).words)


def canonical(text: str) -> str:
    """A value by its meaning: a JSON mapping or list with sorted keys and no spaces, any other as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _program_length(argv: Sequence[str]) -> int:
    for at, word in enumerate(argv):
        following = list(argv[at + 1 : at + 3])
        if os.path.basename(word) == "vllm" and following[:1] == ["serve"]:
            return at + 2
        if (
            word == "-m"
            and following
            and re.match(r"^vllm\.entrypoints\.(openai\.)?api_server$", following[0])
        ):
            return at + 2
        if (
            word == "-m"
            and following[1:] == ["serve"]
            and following[0] in ("vllm", "vllm.entrypoints.cli.main")
        ):
            return at + 3
        if re.match(r"^(-\w*c|-lc)$", word):
            break
    raise BaselineError(
        f"expected a command of vLLM such as `vllm serve MODEL`, found {shlex.join(argv)[:80] or 'nothing'}; "
        "give its words without a shell around them"
    )


def _option(argv: Sequence[str], at: int) -> Flag:
    word = argv[at]
    given, equals, value = word.lstrip("-").partition("=")
    name = long_name(given)
    head, dot, keys = name.partition(".")
    name = _SHORT.get(head, head) + dot + keys
    if equals:
        return Flag(name, (value,), (word,))
    if is_switch(name) and not dot:
        return Flag(name, (), (word,))
    values: List[str] = []
    for following in argv[at + 1 :]:
        if is_option(following) or (values and head not in _SEVERAL):
            break
        values.append(following)
    return Flag(name, tuple(values), (word, *values))


def _key(name: str) -> str:
    return "--" + (name[3:] if name.startswith("no-") else name)


def _worth(flag: Flag) -> str:
    if not flag.values:
        return OFF if flag.name.startswith("no-") else ON
    if flag.name in _SEVERAL:
        return " ".join(shlex.quote(value) for value in flag.values)
    return canonical(flag.values[0])


def _stands_for(flag: Flag, name: str) -> bool:
    if not flag.name:
        return name == MODEL
    return _key(flag.name.partition(".")[0]) == name


def _merge(target: Dict[str, Any], flag: Flag) -> None:
    """Put ``--flag.key.key value`` into the mapping; ``key+`` adds to a list."""
    keys = flag.name.split(".")[1:]
    text = flag.values[0] if flag.values else ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    last = keys[-1]
    for key in keys[:-1]:
        inner = target.get(key)
        if not isinstance(inner, dict):
            inner = target[key] = {}
        target = inner
    if last.endswith("+"):
        last, value = last[:-1], text.split(",")
    before = target.get(last)
    if isinstance(before, list) and isinstance(value, list):
        value = before + value
    target[last] = value
