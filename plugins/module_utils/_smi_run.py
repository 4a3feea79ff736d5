# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run nvidia-smi and judge what it printed, whatever its exit status says (private to the collection)."""

from __future__ import annotations

import os
from typing import Any, Callable, List, Mapping, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils import _command, _driver, _gpu_devices, _smi
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ERROR,
    OK,
    SKIPPED,
    TIMEOUT,
    Emit,
    ProbeFailure,
    ProbeSpec,
    Reading,
    command_reading,
)

GROUP = "nvidia-smi"

# nvidia-smi's own status for "the library was not found"; it is NVML's code of that name.
NO_LIBRARY = 12

Parse = Callable[[str], Any]
Rows = Callable[[Any], int]


def smi_probe(
    name: str,
    arguments: Sequence[str],
    member: str,
    deadline: float,
    parse: Optional[Parse] = None,
    rows: Optional[Rows] = None,
) -> ProbeSpec:
    """A call of nvidia-smi; ``rows`` counts the GPUs in what ``parse`` has read."""

    def run(emit: Emit) -> Reading:
        refuse_if_it_would_change_the_host()
        reading = command_reading(_run(["nvidia-smi", *arguments], deadline))
        return judge(reading, parse, rows, expected_gpus())

    return ProbeSpec(name, run, deadline + 2.0, GROUP, member)


def refuse_if_it_would_change_the_host() -> None:
    """Raise ProbeFailure when asking the driver's tools would load a module or create device nodes."""
    reason = _driver.why_not_to_ask()
    if reason:
        raise ProbeFailure(SKIPPED, "not asked: %s" % reason, GROUP)


def expected_gpus() -> List[str]:
    """The NVIDIA GPUs on the PCI bus, none where the bus cannot be read."""
    try:
        return _gpu_devices.expected(_gpu_devices.read_pci())
    except OSError:
        return []


def _run(argv: List[str], deadline: float) -> _command.CommandResult:
    """Run it; where the loader does not find the driver's library, again with the directory that has it."""
    result = _command.run_command(argv, deadline)
    if result.returncode != NO_LIBRARY:
        return result
    directory = library_directory()
    if directory is None:
        return result
    path = os.pathsep.join(part for part in (os.environ.get("LD_LIBRARY_PATH", ""), directory) if part)
    return _command.run_command(argv, deadline, environment={"LD_LIBRARY_PATH": path})


def library_directory(directories: Sequence[str] = _driver.LIBRARY_DIRECTORIES) -> Optional[str]:
    """The first directory that has the library of nvidia-smi."""
    return next((place for place in directories if os.path.exists(place + "/libnvidia-ml.so.1")), None)


def judge(reading: Reading, parse: Optional[Parse], rows: Optional[Rows], expected: Sequence[str]) -> Reading:
    """The reading with its value, and not ok when the text says that a GPU is in trouble or missing.

    Evidence and whatever could be read stay in it.
    """
    text = reading.raw.decode("utf-8", "backslashreplace")
    reading.value = None
    if parse is not None and reading.outcome in (OK, ERROR, TIMEOUT):
        try:
            reading.value = parse(text)
        except _smi.NotTheXml as error:
            if reading.outcome == OK:
                reading.outcome, reading.message = ERROR, str(error)
    problems = _smi.troubles(text)
    if rows is not None and reading.outcome == OK:
        problems += _missing(rows(reading.value), expected)
    if problems and reading.outcome in (OK, ERROR):
        before = [reading.message] if reading.message else []
        reading.outcome, reading.message = ERROR, "; ".join([*before, *problems])
    return reading


def _missing(count: int, expected: Sequence[str]) -> List[str]:
    if not expected or count == len(expected):
        return []
    if count > len(expected):
        return ["nvidia-smi lists %d GPUs, the PCI bus has %d of NVIDIA" % (count, len(expected))]
    return ["nvidia-smi lists %d of the %d NVIDIA GPUs on the PCI bus" % (count, len(expected))]


def count_gpus(value: Any) -> int:
    """The rows of any of the three parsers."""
    return len(value["gpus"]) if isinstance(value, Mapping) else len(value)
