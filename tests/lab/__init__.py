# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab: simulated GPU hosts in containers, for tests and for trying things by hand. See README.md here."""

from .fleet import Lab
from .node import Node

__all__ = ["Lab", "Node"]
