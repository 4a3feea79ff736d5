# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends the module gate_probe to the host together with the libraries it needs."""

from __future__ import annotations

from ansible_collections.gpufleet.baseline.plugins.plugin_utils._carried_action import CarriedActionBase


class ActionModule(CarriedActionBase):
    """See the module of the same name."""
