# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Freezing and judging change nothing on a host, as far as reading the code can show it (traps T15 and T16).

Read are the modules and actions that only look, all that they import from the collection, and the tasks of
their roles. What such code may not contain is a table; what it may contain all the same is a second table,
with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpufleet.baseline.tests.unit._checkout import ROOT, files, prose, python_files, tree

ONLY_LOOKS = {"engine_info", "fabric_info", "first_failure", "freeze", "gate", "gpu_info"}
PACKAGE = "ansible_collections.gpufleet.baseline."

PACKAGE_MANAGERS = "apt|apt-get|dnf|yum|zypper|pip3?|conda|snap"
DOCKER_VERBS = {
    *("rm", "rmi", "prune", "pull", "push", "restart", "start", "stop", "kill", "pause", "unpause", "exec"),
    *("run", "create", "update", "load", "import"),
}
CONTAINER_VERBS = "|".join(sorted(DOCKER_VERBS))
SMI_SETTERS = "lgc|rgc|lmc|rmc|pm|pl|ac|rac|acp|c|e|r|mig|-gpu-reset|-lock-[a-z-]+|-reset-[a-z-]+"

# A command stands here as its words joined by blanks, whether the code has it as one string or as a list.
FORBIDDEN_WORDS = {
    "a package manager": rf"\b({PACKAGE_MANAGERS}) (-\S+ )*(install|remove|upgrade|update)\b",
    "a setter of nvidia-smi": rf"nvidia-smi\b.* -({SMI_SETTERS})\b",
    "a change of containers or images": rf"^(docker|podman|nerdctl|ctr) (\S+ )*({CONTAINER_VERBS})( |$)",
    "a signal": r"^(kill|pkill|killall|fuser -k)\b",
    "a service change": r"\bsystemctl (start|stop|restart|reload|enable|disable|mask|kill|isolate)\b",
    "the kernel's emergency keys": r"sysrq",
    "loading or unloading a kernel module": r"(^|/| )(modprobe|insmod|rmmod)( |$)",
    "a setter of NVML": r"^nvml\w*(Set|Reset|Clear|Freeze|Create|Destroy|Update)[A-Z]\w*$",
    "the CUDA driver": r"^cu(Init|CtxCreate|DevicePrimaryCtx)\w*$",
}
FORBIDDEN_CALLS = {
    "a signal": {"kill", "killpg", "pidfd_send_signal", "send_signal", "terminate"},
    "a change of containers or images": {
        *("remove_container", "remove_image", "prune_containers", "prune_images", "prune_volumes", "commit"),
        *("create_container", "update_container", "exec_create", "exec_start", "exec_run"),
    },
}
# A verb alone says little (match.start(), queue.put()): it counts when called on something of such a name.
HTTP_VERBS = {"post", "put", "delete", "patch", "_post", "_put", "_delete"}
HTTP_OBJECT = re.compile(r"(api|client|connection|http|requests|session)(\(\))?$", re.IGNORECASE)
DOCKER_OBJECT = re.compile(r"(api|client|container|docker|engine|image)s?(\(\))?$", re.IGNORECASE)
LOADERS = {"CDLL", "PyDLL", "LoadLibrary"}
FORBIDDEN_IMPORTS = {"torch", "vllm", "cuda", "cupy", "numba"}

# What is right there all the same, with the reason.
UTILS = "plugins/module_utils"
ALLOWED = {
    f"{UTILS}/_command.py": {
        "a signal": "its own command's process group; itself, when its parent has ended"
    },
    f"{UTILS}/_guardian.py": {"a signal": "only processes that carry this run's mark in their environment"},
    f"{UTILS}/_nvml.py": {
        "a library of the system": "the driver's libnvidia-ml, which opens no CUDA context"
    },
    f"{UTILS}/_probe_child.py": {"a signal": "the probe's own child and the groups of its commands"},
    f"{UTILS}/_run_command.py": {"a change of containers or images": "a command written down, never run"},
    f"{UTILS}/_run_podman.py": {"a change of containers or images": "a command written down, never run"},
}

TASK_MODULES = {
    *("assert", "debug", "fail", "meta", "set_fact"),
    *("import_role", "import_tasks", "include_role", "include_tasks"),
}
TASK_KEYWORDS = {"block", "rescue", "always"}


def code_that_only_looks() -> list[Path]:
    """The files of these modules and actions, and all that they import from the collection."""
    known = set(python_files("plugins"))
    waiting = [path for path in known if path.parts[1] in {"modules", "action"} and path.stem in ONLY_LOOKS]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [target for target in imported(path) if target in known]
    return sorted(found)


def imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            module = Path(*node.module.removeprefix(PACKAGE).split("."))
            yield module.with_suffix(".py")
            yield module / "__init__.py"
            for alias in node.names:
                yield module / f"{alias.name}.py"


def spoken(path: Path) -> Iterator[str]:
    """Every string of the code, and every list or tuple of strings as one line."""
    parsed = tree(path)
    told = prose(parsed)
    for node in ast.walk(parsed):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
            yield node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            words = [
                item.value
                for item in node.elts
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
            if len(words) > 1:
                yield " ".join(words)
        if isinstance(node, ast.Attribute):
            yield node.attr


def offending_calls(call: ast.Call, method: ast.Attribute) -> set[str]:
    found = {what for what, names in FORBIDDEN_CALLS.items() if method.attr in names}
    receiver = ast.unparse(method.value)
    given = {argument.value for argument in call.args if isinstance(argument, ast.Constant)}
    if method.attr in DOCKER_VERBS and DOCKER_OBJECT.search(receiver):
        found.add("a change of containers or images")
    if method.attr in HTTP_VERBS and HTTP_OBJECT.search(receiver):
        found.add("an HTTP method that changes")
    if "request" in method.attr.lower() and given & {"POST", "PUT", "DELETE", "PATCH"}:
        found.add("an HTTP method that changes")
    # None is the C library that is loaded already.
    if method.attr in LOADERS and given != {None}:
        found.add("a library of the system")
    return found


def offences(path: Path) -> set[str]:
    """What of the tables a file contains."""
    found = set()
    for text in spoken(path):
        found |= {what for what, pattern in FORBIDDEN_WORDS.items() if re.search(pattern, text)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= offending_calls(node, node.func)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            roots = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            if {name.partition(".")[0] for name in roots} & FORBIDDEN_IMPORTS:
                found.add("an import that opens a CUDA context")
    return found


@pytest.mark.parametrize("path", [str(path) for path in code_that_only_looks()])
def test_t15_t16_code_that_only_looks_changes_nothing(path: str) -> None:
    assert offences(Path(path)) == set(ALLOWED.get(path, ()))


def test_t15_the_allowed_files_are_reached_by_imports() -> None:
    assert set(ALLOWED) <= {str(path) for path in code_that_only_looks()}


def tasks(content: Any) -> Iterator[dict[str, Any]]:
    for task in content or []:
        blocks = [task[key] for key in TASK_KEYWORDS if key in task]
        for block in blocks:
            yield from tasks(block)
        if not blocks:
            yield task


@pytest.mark.parametrize("path", [str(path) for path in files("roles") if path.match("roles/*/tasks/*.yml")])
def test_t15_roles_that_only_look_run_no_other_module(path: str) -> None:
    if Path(path).parts[1] not in ONLY_LOOKS:
        return
    for task in tasks(yaml.safe_load((ROOT / path).read_text("utf-8"))):
        run = [key for key in task if "." in key]
        assert len(run) == 1, f"expected one module by its full name in {task}"
        name = run[0]
        assert name.removeprefix("ansible.builtin.") in TASK_MODULES or name.startswith(
            "gpufleet.baseline."
        ), name


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("x(['apt-get', '-y', 'install', 'x'])", "a package manager"),
        ("x(['nvidia-smi', '-i', '0', '-pm', '1'])", "a setter of nvidia-smi"),
        ("x('nvidia-smi --gpu-reset')", "a setter of nvidia-smi"),
        ("x(['docker', 'image', 'prune'])", "a change of containers or images"),
        ("client.api.restart(name)", "a change of containers or images"),
        ("os.kill(pid, 9)", "a signal"),
        ("open('/proc/sysrq-trigger', 'w')", "the kernel's emergency keys"),
        ("x(('modprobe', 'nvidia'))", "loading or unloading a kernel module"),
        ("pynvml.nvmlDeviceSetPersistenceMode(h, 1)", "a setter of NVML"),
        ("ctypes.CDLL('libcuda.so.1')", "a library of the system"),
        ("driver.cuInit(0)", "the CUDA driver"),
        ("import torch.cuda", "an import that opens a CUDA context"),
        ("session.post(url)", "an HTTP method that changes"),
        ("connection.request('DELETE', url)", "an HTTP method that changes"),
    ],
)
def test_t15_the_tables_find_what_they_are_for(tmp_path: Path, code: str, what: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(code)
    assert what in offences(path)


@pytest.mark.parametrize(
    "code",
    [
        "x(['nvidia-smi', '-q', '-x'])",
        "x(['docker', 'inspect', 'a'])",
        "x(['modinfo', 'nvidia'])",
        "ctypes.CDLL(None)",
    ],
)
def test_t15_looking_is_allowed(tmp_path: Path, code: str) -> None:
    path = tmp_path / "planted.py"
    path.write_text(code)
    assert offences(path) == set()
