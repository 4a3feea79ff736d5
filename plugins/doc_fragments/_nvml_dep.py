# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation shared by the modules that ask the NVIDIA driver (private to the collection)."""

from __future__ import annotations


class ModuleDocFragment:
    """What nvidia-ml-py is needed for, and how it comes to the host."""

    DOCUMENTATION = r"""
options:
  carried_libraries:
    description:
      - The Python libraries that travel with the task, as a base64 zip archive.
      - Filled in by the action plugin of the same name; there is no need to set it.
      - Without it an installed C(pynvml) of C(nvidia-ml-py) is used, and without that the driver is asked
        through C(nvidia-smi) alone.
    type: str
  smi_deadline:
    description:
      - Seconds that one call of C(nvidia-smi) may take.
      - Generous, since a driver that is slow is not dead. After one call that does not answer, no other one
        is made.
    type: float
    default: 60
  nvml_deadline:
    description:
      - Seconds that asking the driver's library may take for all GPUs together.
      - The GPUs that were read before a hang are kept.
    type: float
    default: 60
requirements:
  - C(nvidia-ml-py) on the controller; nothing on the host but Python 3.9 or newer
"""
