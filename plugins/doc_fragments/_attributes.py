# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attributes that the documentation of the modules shares (private to the collection)."""

from __future__ import annotations


class ModuleDocFragment:
    """One text for each attribute; a module's documentation names the fragments that are true of it."""

    # Every module.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: With C(check_mode) on, says what it would do and changes nothing on the host.
  diff_mode:
    description: With C(diff) on, returns the difference between before and after.
  idempotent:
    description:
      - A second run with the same arguments reports no change, if nobody else has changed the host.
"""

    # Modules that only look: *_info and first_failure.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - Only looks.
  diff_mode:
    support: N/A
    details:
      - Only looks.
  idempotent:
    support: full
    details:
      - Only looks.
"""

    # Every module that stands in the action group.
    ACTIONGROUP_ALL = r"""
options: {}
attributes:
  action_group:
    description:
      - Belongs to C(group/gpufleet.baseline.all), through which C(module_defaults) reaches all modules.
    support: full
    membership:
      - gpufleet.baseline.all
"""
