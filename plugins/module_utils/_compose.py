# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Compose wrote onto a container, and the files that it names (private to the collection; pure).

Labels: https://github.com/docker/compose, pkg/api/labels.go; podman-compose writes the same names with its
own prefix. The files are read on the host as they are now, which need not be as they were at the start.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping

_PREFIXES = ("com.docker.compose.", "io.podman.compose.")


def compose_facts(labels: Mapping[str, str]) -> Dict[str, Any]:
    """Project, service, config hash and files; an empty mapping for a container that Compose did not make."""
    values: Dict[str, str] = {}
    for prefix in _PREFIXES:
        for name, value in labels.items():
            if name.startswith(prefix):
                values.setdefault(name[len(prefix) :], value)
    if not values.get("project"):
        return {}
    directory = values.get("project.working_dir", "")
    return {
        "project": values["project"],
        "service": values.get("service", ""),
        "container_number": values.get("container-number", ""),
        "version": values.get("version", ""),
        "config_hash": values.get("config-hash", ""),
        "image": values.get("image", ""),
        "working_directory": directory,
        "files": _paths(values.get("project.config_files", ""), directory),
        "environment_files": _paths(values.get("project.environment_file", ""), directory)
        or _default(directory),
    }


def _paths(value: str, directory: str) -> List[str]:
    return [
        os.path.normpath(os.path.join(directory, part.strip())) for part in value.split(",") if part.strip()
    ]


def _default(directory: str) -> List[str]:
    # Without the label, Compose takes the file .env beside the first file, when it is there.
    return [os.path.join(directory, ".env")] if directory else []
