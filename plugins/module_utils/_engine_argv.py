# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find vLLM in a command line and read its options (private to the collection; pure).

The forms are those of vLLM 0.32.0: ``vllm serve MODEL``, ``python -m vllm.entrypoints.openai.api_server``,
and the titles of its processes (vllm/utils/system_utils.py, https://github.com/vllm-project/vllm). Options
may be spelled with underscores, with ``=``, or with dots into a JSON value (vllm/utils/argparse_utils.py).
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Sequence

_SERVER_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_MAIN_MODULES = ("vllm", "vllm.entrypoints.cli.main")
_SHELLS = ("sh", "bash", "dash", "zsh", "ash", "ksh")
_TITLE = re.compile(r"^VLLM::(?P<name>\S+)")
_RAY_TITLE = re.compile(r"^ray::.*(RayWorkerWrapper|RayWorkerProc|EngineCore|DPMoEEngineCoreActor)")

# Options without a value, as far as a model name may follow one of them.
_SWITCHES = {
    "headless",
    "trust-remote-code",
    "enforce-eager",
    "ep",
    "dph",
    "dpe",
    "dpm",
    "data-parallel-hybrid-lb",
}
_SWITCHES |= {
    "data-parallel-external-lb",
    "data-parallel-multi-port-external-lb",
    "async-scheduling",
    "numa-bind",
}
_SWITCH_PREFIXES = ("enable-", "disable-", "no-", "use-", "skip-", "return-")

# Short options that the facts read, by their long name (vllm/engine/arg_utils.py, vLLM 0.32.0).
SHORT_OPTIONS: Mapping[str, str] = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "dpn": "data-parallel-rank",
    "dpr": "data-parallel-start-rank",
    "dpl": "data-parallel-size-local",
    "dpa": "data-parallel-address",
    "dpp": "data-parallel-rpc-port",
    "dpb": "data-parallel-backend",
    "dph": "data-parallel-hybrid-lb",
    "dpe": "data-parallel-external-lb",
    "dpm": "data-parallel-multi-port-external-lb",
    "dcp": "decode-context-parallel-size",
    "pcp": "prefill-context-parallel-size",
    "ep": "enable-expert-parallel",
    "n": "nnodes",
    "r": "node-rank",
    "q": "quantization",
}


@dataclass(frozen=True)
class EngineCommand:
    """vLLM's own part of a command line. ``options`` has the long name without dashes; None is a switch."""

    kind: str
    argv: List[str] = field(default_factory=list)
    model: str = ""
    options: Dict[str, Optional[str]] = field(default_factory=dict)


def process_title(argv: Sequence[str], prefix: str = "VLLM") -> str:
    """The title that vLLM gave to one of its processes, such as Worker_TP0; empty when it is none."""
    first = argv[0] if argv else ""
    match = _TITLE.match(first)
    if match:
        return match.group("name")
    return first[len(prefix) + 2 :].split(" ")[0] if prefix and first.startswith(prefix + "::") else ""


def looks_like_engine(argv: Sequence[str]) -> bool:
    """Whether a command line is vLLM's: its server, or a process that it renamed."""
    if not argv:
        return False
    return bool(process_title(argv)) or bool(_RAY_TITLE.match(argv[0])) or find_engine(argv) is not None


def find_engine(argv: Sequence[str]) -> Optional[EngineCommand]:
    """vLLM's server command in a command line, also behind a shell, numactl, nsys, or the like."""
    for index, word in enumerate(argv):
        rest = list(argv[index + 1 :])
        if os.path.basename(word) == "vllm" and rest[:1] == ["serve"]:
            return _read("serve", rest[1:])
        if word == "-m" and rest[:1] and rest[0] in _SERVER_MODULES:
            return _read("api_server", rest[1:])
        if word == "-m" and rest[:1] and rest[0] in _MAIN_MODULES and rest[1:2] == ["serve"]:
            return _read("serve", rest[2:])
        if word.endswith("vllm/entrypoints/openai/api_server.py"):
            return _read("api_server", rest)
        if _is_shell_script(argv, index):
            found = _find_in_script(word)
            if found is not None:
                return found
    return None


def flat_options(text: str) -> Dict[str, Optional[str]]:
    """The options of a file for ``--config``: one ``name: value`` a line, as far as the value is a plain one.

    https://docs.vllm.ai/en/latest/configuration/serve_args.html. The command line comes before the file.
    """
    options: Dict[str, Optional[str]] = {}
    for line in text.splitlines():
        match = re.match(r"^(?P<name>[A-Za-z][\w.-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?$", line)
        if match:
            value = re.sub(r"(^|\s)#.*$", "", match.group("value") or "").strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            options[long_name(match.group("name"))] = value or None
    return options


def _is_shell_script(argv: Sequence[str], index: int) -> bool:
    """Whether this word is the script of ``sh -c``; the option may have more letters, as ``-lc``."""
    if index < 2 or not re.match(r"^-[a-z]*c$", argv[index - 1]):
        return False
    return any(os.path.basename(word) in _SHELLS for word in argv[: index - 1])


def _find_in_script(script: str) -> Optional[EngineCommand]:
    # A script has many lines and separators; only those that can start the engine are split into words.
    for line in re.split(r"&&|\|\||[;\n|&]", script.replace("\\\n", " ")):
        if "vllm" not in line:
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        found = find_engine(words)
        if found is not None:
            return found
    return None


def _read(kind: str, words: List[str]) -> EngineCommand:
    options: Dict[str, Optional[str]] = {}
    positional: List[str] = []
    pending = ""
    for word in words:
        if is_option(word):
            name, equals, value = word.lstrip("-").partition("=")
            name = long_name(name)
            options[name] = value if equals else None
            pending = "" if equals or is_switch(name) else name
        elif pending:
            # An option with several values, such as --served-model-name A B, keeps the first.
            options[pending] = word
            pending = ""
        else:
            positional.append(word)
    model = options.get("model") or (positional[0] if kind == "serve" and positional else "")
    return EngineCommand(kind, list(words), model, options)


def is_option(word: str) -> bool:
    """Whether a word is an option and no value; a negative number is a value."""
    return len(word) > 1 and word[0] == "-" and not re.match(r"^-\d", word)


def long_name(name: str) -> str:
    """The long name of an option given without its dashes."""
    # Only the part before the first dot is a name; what follows is a key of a JSON value.
    head, dot, keys = name.partition(".")
    head = head.replace("_", "-")
    return SHORT_OPTIONS.get(head, head) + dot + keys


def is_switch(name: str) -> bool:
    """Whether an option takes no value, by its long name."""
    return name in _SWITCHES or name.startswith(_SWITCH_PREFIXES)
