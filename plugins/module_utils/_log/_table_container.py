# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of the stage container; private to the collection.

How to add one: docs/adding-a-signature.md
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    DOCKER_SOURCE,
    LAUNCHED,
    LIKELY,
    RAISED,
    ROOT,
    VLLM_SOURCE,
    Signature,
    github,
)

# fmt: off
CONTAINER: Tuple[Signature, ...] = (
    Signature(
        "driver-requirement", ("requirement error: unsatisfied condition",), ROOT, "container", "start",
        where=LAUNCHED,
        advice="Compare the host's driver branch with the CUDA version that the image asks for.",
        source=github("SyneRBI/PETRIC2", 27),
    ),
    Signature(
        "nvml-driver-library-mismatch", ("nvml error: driver/library version mismatch",), ROOT, "container",
        "start", where=LAUNCHED,
        advice="Compare the loaded kernel module with the driver package on disk; the module was "
        "not reloaded after an update.",
        source=github("NVIDIA/nvidia-container-toolkit", 394),
    ),
    Signature(
        "toolkit-missing",
        (
            'could not select device driver "" with capabilities', "could not select device driver",
            "unknown or invalid runtime name: nvidia",
        ),
        ROOT, "container", "start", where=LAUNCHED,
        advice="Check that the NVIDIA container toolkit is installed and configured for this engine.",
        source="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
    ),
    Signature(
        "toolkit-missing", ("nvidia-container-cli: initialization error", "unresolvable CDI devices"), ROOT,
        "container", "start", where=LAUNCHED, name="hook",
        advice="Run nvidia-smi on the host and check the container toolkit's configuration.",
        source="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html",
    ),
    Signature(
        "image-not-found",
        (
            "manifest unknown", "pull access denied", "ErrImagePull", "ImagePullBackOff",
            "repository does not exist", "Failed to pull image",
        ),
        ROOT, "container", "image", where=LAUNCHED,
        advice="Check image name, tag and registry login; not every CUDA build of an image has a tag.",
        source=DOCKER_SOURCE,
    ),
    Signature(
        "image-not-found", ("manifest for ",), ROOT, "container", "image", also=("not found",),
        where=LAUNCHED, name="manifest",
        advice="Check image name, tag and registry login; not every CUDA build of an image has a tag.",
        source=DOCKER_SOURCE,
    ),
    Signature(
        "entrypoint", ("exec format error", "executable file not found in $PATH"), ROOT, "container",
        "entrypoint", where=LAUNCHED,
        advice="Compare the image's architecture and entrypoint with the host and the run command.",
        source=DOCKER_SOURCE,
    ),
    Signature(
        "entrypoint", ("no such file or directory", "permission denied"), ROOT, "container", "entrypoint",
        also=("exec",), where=("launcher", "raw"), name="missing",
        advice="Compare the image's architecture and entrypoint with the host and the run command.",
        source=DOCKER_SOURCE,
    ),
    Signature(
        "launcher-refused", ("port is already allocated", "address already in use"), ROOT, "container",
        "start", also=("daemon",), where=("launcher",), name="port",
        advice="Another container or process holds the published port: find it before starting again.",
        source=DOCKER_SOURCE,
    ),
    Signature(
        "launcher-refused",
        (
            "Error response from daemon", "failed to create task for container",
            "OCI runtime create failed",
        ),
        LIKELY, "container", "start", where=("launcher",), name="daemon",
        advice="Read the daemon's whole message and its service log; no line of the engine exists.",
        source=DOCKER_SOURCE,
    ),
    Signature(
        "bad-arguments",
        (
            "error: unrecognized arguments:", "error: ambiguous option:",
            "error: the following arguments are required",
        ),
        ROOT, "container", "arguments", where=("launcher", "raw", "error"), name="argparse", since="0.9",
        advice="Compare the arguments with what this image's version accepts; the recipe may be "
        "newer than the image.",
        source="https://docs.python.org/3/library/argparse.html#exiting-methods",
    ),
    Signature(
        "bad-arguments", ("error: argument ",), ROOT, "container", "arguments",
        where=("launcher", "raw", "error"), name="value", since="0.9",
        advice="Compare the argument's value with what this image's version accepts.",
        source="https://docs.python.org/3/library/argparse.html#exiting-methods",
    ),
    Signature(
        "bad-arguments",
        (
            "invalid tool call parser:", "invalid reasoning parser:", "Invalid tool call parser",
            "Invalid reasoning parser",
        ),
        ROOT, "container", "arguments", name="parser", since="0.9",
        advice="This image does not know the parser: compare its version with the model's "
        "minimum version.",
        source=github("MoonshotAI/Kimi-K2", 19),
    ),
    Signature(
        "bad-arguments", ("Unknown vLLM environment variable detected",), ROOT, "container", "arguments",
        where=RAISED, name="environment", since="0.15",
        advice="Remove or correct the variable; it is refused because validation was asked for.",
        source=VLLM_SOURCE + "platforms/interface.py",
    ),
    Signature(
        "bad-arguments", ("validation error for ",), LIKELY, "container", "arguments",
        also=("Input should be",), where=RAISED, name="pydantic", since="0.10",
        advice="Compare the named field's value with what this image's version accepts.",
        source=VLLM_SOURCE + "config/",
    ),
    Signature(
        "bad-arguments", ("Error: ",), LIKELY, "container", "arguments", where=RAISED, name="validation",
        since="0.9", frames=("validate_parsed_serve_args", "validate_api_server_args", "parse_args"),
        advice="Compare the arguments with what this image's version accepts.",
        source=VLLM_SOURCE + "entrypoints/openai/cli_args.py",
    ),
)
