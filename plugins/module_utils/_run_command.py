# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rebuild the ``docker run`` of a container from its inspect and its image's (private; pure).

Pasted into a shell, the command starts the same container, from the same image by id. Only what differs
from the image is said. Secrets come from the caller's environment: ``-e NAME``, and ``"$NAME"`` where one
stands in an argument; the names are listed above the command. It is detached, however the first one was run.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._parallel import environment_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._names import SURE, secret_kind
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_network import network_options
from ansible_collections.gpufleet.baseline.plugins.module_utils._run_options import Options, host_options

_URL_SECRET = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_WEAK_LENGTH = 8
_CONTROL_OR_LINE = re.compile(r"[\x00-\x1f\x7f\x80-\x9f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_DURATIONS = (
    ("Interval", "health-interval"),
    ("Timeout", "health-timeout"),
    ("StartPeriod", "health-start-period"),
    ("StartInterval", "health-start-interval"),
)

IsSecret = Callable[[str, str], bool]
# Values by the variable of the calling shell that is to hold them.
Secrets = Dict[str, str]


@dataclass(frozen=True)
class RunCommand:
    """``words`` are ready for a shell. ``secrets`` are the variables that the caller must have set before."""

    words: List[str]
    secrets: List[str]
    notes: List[str] = field(default_factory=list)
    files: Dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The command to paste, one option a line, with what to set and to know above it."""
        lines = ["# " + note for note in self.notes]
        if self.secrets:
            lines.append("# set before: " + " ".join(self.secrets))
        return "\n".join([*lines, " \\\n  ".join(self.words)]) + "\n"


def names_secret(name: str, value: str) -> bool:
    """Whether a value under a name must not stand in a command."""
    kind = secret_kind(name)
    return (
        kind == SURE or (kind is not None and len(value) >= _WEAK_LENGTH) or bool(_URL_SECRET.search(value))
    )


def rebuild(
    inspect: Mapping[str, Any],
    image: Mapping[str, Any],
    info: Mapping[str, Any],
    is_secret: IsSecret = names_secret,
) -> RunCommand:
    """The command of a container; ``image`` may be empty when the image is gone, and then all is said."""
    config = inspect.get("Config") or {}
    base = image.get("Config") or {}
    host = inspect.get("HostConfig") or {}
    options = Options()
    options.add("detach")
    options.add("name", str(inspect.get("Name", "")).lstrip("/"))
    network_options(inspect, base, info, options)
    for part in (_identity_options, _streams, _stop_options, _health_options, _anonymous_volumes):
        part(config, base, options)
    hosted = host_options(host, info)
    options.items += hosted.items
    options.notes += hosted.notes
    _labels(config, base, options)
    secrets: Secrets = {}
    # First, for a variable that is handed on has no other name in the calling shell.
    environment = _environment_words(config, base, is_secret, secrets, options.notes)
    words = ["docker run"]
    words += [_option_words(name, value, is_secret, secrets) for name, value in options.items]
    words += environment
    entrypoint, arguments = _command(config, base)
    if entrypoint is not None:
        words.append("--entrypoint " + _quoted(entrypoint))
    words.append(_quoted(str(inspect.get("Image", ""))))
    if arguments:
        words.append(" ".join(argument_words(arguments, is_secret, secrets)))
    notes = [*_image_notes(inspect, image), *options.notes]
    return RunCommand(words, sorted(secrets), notes, hosted.files)


def _image_notes(inspect: Mapping[str, Any], image: Mapping[str, Any]) -> List[str]:
    name = str((inspect.get("Config") or {}).get("Image", ""))
    digests = image.get("RepoDigests") or []
    if not image:
        return ["image %s is no longer on the host: options that equal its own are said as well" % name]
    return [
        "image %s%s" % (name, " = " + digests[0] if digests else ", no digest: built or loaded on the host")
    ]


def _identity_options(config: Mapping[str, Any], base: Mapping[str, Any], options: Options) -> None:
    for key, option in (("Domainname", "domainname"), ("MacAddress", "mac-address")):
        if config.get(key):
            options.add(option, config[key])
    for key, option in (("User", "user"), ("WorkingDir", "workdir")):
        if (config.get(key) or "") != (base.get(key) or ""):
            options.add(option, config.get(key) or "")


def _streams(config: Mapping[str, Any], base: Mapping[str, Any], options: Options) -> None:
    if config.get("OpenStdin"):
        options.add("interactive")
    if config.get("Tty"):
        options.add("tty")


def _stop_options(config: Mapping[str, Any], base: Mapping[str, Any], options: Options) -> None:
    if config.get("StopSignal") and config.get("StopSignal") != base.get("StopSignal"):
        options.add("stop-signal", config["StopSignal"])
    if config.get("StopTimeout") is not None:
        options.add("stop-timeout", config["StopTimeout"])


def _health_options(config: Mapping[str, Any], base: Mapping[str, Any], options: Options) -> None:
    check, inherited = config.get("Healthcheck") or {}, base.get("Healthcheck") or {}
    if check == inherited:
        return
    test = check.get("Test") or []
    if test[:1] == ["NONE"]:
        options.add("no-healthcheck")
        return
    if test != (inherited.get("Test") or []) and test:
        if test[0] == "CMD":
            options.notes.append("the health check ran without a shell; --health-cmd runs it in one")
        options.add("health-cmd", test[1] if test[0] == "CMD-SHELL" else shlex.join(test[1:]))
    for key, option in _DURATIONS:
        if check.get(key) and check.get(key) != inherited.get(key):
            options.add(option, _duration(check[key]))
    if check.get("Retries") and check.get("Retries") != inherited.get("Retries"):
        options.add("health-retries", check["Retries"])


def _duration(nanoseconds: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds % size == 0:
            return "%d%s" % (nanoseconds // size, unit)
    return "%dns" % nanoseconds


def _anonymous_volumes(config: Mapping[str, Any], base: Mapping[str, Any], options: Options) -> None:
    for path in sorted(set(config.get("Volumes") or {}) - set(base.get("Volumes") or {})):
        options.add("volume", path)
    for path in sorted(config.get("Volumes") or {}):
        options.notes.append("%s is an anonymous volume: the new container gets a new, empty one" % path)


def _labels(config: Mapping[str, Any], base: Mapping[str, Any], options: Options) -> None:
    inherited = base.get("Labels") or {}
    labels = {
        name: value for name, value in (config.get("Labels") or {}).items() if inherited.get(name) != value
    }
    for name, value in sorted(labels.items()):
        options.add("label", "%s=%s" % (name, value))
    if any(name.startswith("com.docker.compose.") for name in labels):
        options.notes.append("the labels of Compose are kept, so Compose takes the new container for its own")


def _option_words(name: str, value: Any, is_secret: IsSecret, secrets: Secrets) -> str:
    if value is None:
        return "--" + name
    key, equals, content = value.partition("=")
    if name in ("label", "log-opt", "annotation") and equals and is_secret(key, content):
        return "--%s %s" % (name, _from_environment(key, content, secrets, key + "="))
    return "--%s %s" % (name, _quoted(value))


def _environment_words(
    config: Mapping[str, Any],
    base: Mapping[str, Any],
    is_secret: IsSecret,
    secrets: Secrets,
    notes: List[str],
) -> List[str]:
    inherited, values = environment_of(base.get("Env")), environment_of(config.get("Env"))
    words = []
    for name, value in values.items():
        if inherited.get(name) == value:
            continue
        if is_secret(name, value):
            secrets[name] = value
            words.append("-e " + _quoted(name))
        else:
            words.append("-e " + _quoted("%s=%s" % (name, value)))
    alone = {item for item in config.get("Env") or [] if "=" not in item}
    for name in sorted((set(inherited) | alone) - set(values)):
        # A name alone that the caller has not set removes the image's variable.
        words.append("-e " + _quoted(name))
        notes.append("%s of the image was removed: it must not be set in the calling shell" % name)
    return words


def _command(config: Mapping[str, Any], base: Mapping[str, Any]) -> Tuple[Any, List[str]]:
    """(entrypoint to set or None, arguments). A set one has one word; its others become arguments."""
    entrypoint, arguments = list(config.get("Entrypoint") or []), list(config.get("Cmd") or [])
    if entrypoint == list(base.get("Entrypoint") or []):
        if arguments == list(base.get("Cmd") or []):
            return None, []
        if arguments:
            return None, arguments
    if not entrypoint:
        return "", arguments
    return entrypoint[0], entrypoint[1:] + arguments


def argument_words(arguments: Sequence[str], is_secret: IsSecret, secrets: Secrets) -> List[str]:
    """Arguments ready for a shell; a secret among them is a variable, whose name is added to ``secrets``."""
    words: List[str] = []
    pending = ""
    for word in arguments:
        option, equals, value = word.partition("=")
        if pending and not word.startswith("--"):
            words.append(_from_environment(pending, word, secrets))
            pending = ""
            continue
        pending = ""
        if word.startswith("-") and equals and is_secret(option.lstrip("-"), value):
            words.append(_from_environment(option, value, secrets, option + "="))
            continue
        if word.startswith("--") and not equals and is_secret(word.lstrip("-"), "?" * _WEAK_LENGTH):
            pending = word
        words.append(_quoted(word))
    return words


def _quoted(word: str) -> str:
    """A word for the shell; control characters as escapes, or a terminal would act on them when it is pasted."""
    if not _CONTROL.search(word):
        return shlex.quote(word)
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'%s'" % _CONTROL_OR_LINE.sub(
        lambda found: "".join("\\%03o" % byte for byte in found.group().encode()), text
    )


def _from_environment(name: str, value: str, secrets: Secrets, prefix: str = "") -> str:
    """A secret inside a word: the shell puts it there, from a variable named after the option.

    A variable that holds another secret already gets a number behind its name.
    """
    base = re.sub(r"\W+", "_", name.strip("-")).upper()
    variable, number = base, 1
    while secrets.get(variable, value) != value:
        number += 1
        variable = "%s_%d" % (base, number)
    secrets[variable] = value
    return '%s"$%s"' % (_quoted(prefix) if prefix else "", variable)
