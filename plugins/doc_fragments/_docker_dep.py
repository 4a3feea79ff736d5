# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options and requirements of modules that ask a Docker Engine (private to the collection)."""

from __future__ import annotations


class ModuleDocFragment:
    """The twin of plugins/module_utils/_docker.py, which talks to the Engine."""

    DOCUMENTATION = r"""
requirements:
  - docker (Python library) 7.0.0 or newer. It travels with the task, so nothing is installed on the host.
  - Docker Engine 20.10 or newer, or Podman with its Docker-compatible socket. A host without either is
    described as such.
options:
  docker_socket:
    description:
      - Path of the Engine's Unix socket, Docker's or Podman's.
      - Without one, the variable E(DOCKER_HOST) of the login is taken when it names a Unix socket, and then
        the first of F(/run/docker.sock), F(/var/run/docker.sock), F(/run/podman/podman.sock) and those below
        E(XDG_RUNTIME_DIR).
      - An E(DOCKER_HOST) that leads to another host is named in the result and not followed.
    type: str
    default: ""
  docker_deadline:
    description:
      - Seconds that one question to the Engine may take. After one that took longer, the Engine is not asked
        again.
    type: float
    default: 30.0
"""
