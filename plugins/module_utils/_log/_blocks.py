# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that belong together put together: error records, tracebacks, single telling lines (private to the
collection).

Several processes may write at the same time, so every process has its own open blocks: one
for records, one for raw text.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import (
    ERROR,
    FRAME,
    LAUNCHER,
    MAX_FRAMES,
    MAX_LINES,
    TRACE,
    TRACEBACK,
    WARNING,
    Block,
    Growing,
    Raised,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._grammar import (
    KERNEL,
    NCCL,
    RAW,
    RECORD,
    UVICORN,
    Line,
)

_PATIENCE = 400

_TYPED = re.compile(
    r"(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failure|Timeout)|Exception)(?:: |$)"
)
_PYTHON_WARNING = re.compile(r"\S+:\d+: [A-Z]\w*Warning: ")
_SWALLOWED = re.compile(r"(?:Exception raised from |frame #\d+: |C\+\+ CapturedTraceback:)")
_IGNORED_TRACE = re.compile(
    r"(?:Exception ignored in|Exception in thread|Task exception was never retrieved)"
)
_HANDLED = (
    "Exception in ASGI application",
    "Exception in callback",
    "Unhandled exception in",
)  # one request's
_OWN_LINE = re.compile(
    r"(?:usage: |Process [A-Za-z]\w*[-_\w]*:|\[Gloo\] |Loading \w|Capturing |nanobind: |\(\w+ \+)"
)
LAUNCH_START = re.compile(
    r"(?:docker: )?(?:Error response from daemon:|Error: failed to start containers)|nvidia-container-cli: "
    r"|OCI runtime "
    r"|(?:time=\S+ level=\w+ msg=.)?failed to create (?:task|shim)|(?:\S+ )?\S+: error: |exec /\S+: |exec: "
    r"|(?:Warning|Normal) +[A-Z]\w+ |ERROR: .*(?:pull|manifest|image)|Error: .*(?:ImagePull|image)"
)

Key = Tuple[str, Optional[int], str]


class BlockBuilder:
    """Takes every line; hands over each block when it is complete."""

    def __init__(
        self,
        done: Callable[[Block], None],
        telling: Callable[[str, str], bool],
        begun: Callable[[Block], None],
    ) -> None:
        self._done = done
        self._begun = begun  # told of each block at its first line, to note where the engine was then
        self._telling = telling  # whether a single line of this kind deserves a block
        self._open: Dict[Key, Growing] = {}
        self._orders = 0

    @property
    def busy(self) -> bool:
        """Whether a block is open, so that the next lines matter."""
        return bool(self._open)

    def feed(self, line: Line) -> bool:
        """Whether the line became part of a block."""
        if line.kind == RECORD or line.kind == UVICORN:
            return self._record(line)
        if line.kind == RAW:
            return self._raw(line)
        loud = line.level in ("WARNING", "ERROR", "CRITICAL")
        if (line.kind == NCCL and loud) or (
            (line.kind == KERNEL or loud) and self._telling(line.kind, line.message)
        ):
            self._single(line.kind, line)
            return True
        return False

    def open_blocks(self) -> List[Block]:
        """Blocks that are not complete yet, for a verdict in between."""
        return [
            self._open[key].block for key in sorted(self._open, key=lambda key: self._open[key].block.order)
        ]

    def expire(self, number: int) -> None:
        """Closes what has not grown for a long while."""
        for key in [key for key, held in self._open.items() if held.block.last < number - _PATIENCE]:
            self._close(key)

    def close(self) -> None:
        """The text ends here."""
        for key in list(self._open):
            self._close(key)

    def _record(self, line: Line) -> bool:
        raw_key, key = (line.process, line.pid, RAW), (line.process, line.pid, RECORD)
        held = self._open.get(raw_key)
        if held is not None and held.state in ("message", "header", "single"):
            self._close(raw_key)
        held = self._open.get(key)
        if held is not None:
            first = held.block.line
            same = (first.level, first.source, first.own) == (line.level, line.source, line.own)
            if (
                same
                and line.kind == RECORD
                and (line.number == held.block.last or line.message != held.block.header)
            ):
                held.add(line.number, line.message)
                return True
            self._close(key)
        if line.level in ("ERROR", "CRITICAL"):
            self._start(key, ERROR, line, "header")
            return True
        if line.level == "WARNING" and self._telling(WARNING, line.message):
            self._start(key, WARNING, line, "header")
            return True
        return False

    def _raw(self, line: Line) -> bool:
        text, key = line.message, (line.process, line.pid, RAW)
        held = self._open.get(key)
        if held is not None and self._continues(held, text):
            held.add(line.number, text)
            return True
        if _SWALLOWED.match(text):
            return True
        if TRACE.match(text):
            return self._trace(key, line)
        if held is not None:
            if held.state in ("frames", "chain"):
                return False  # another process's line in the middle of a traceback
            self._close(key)
        if FRAME.match(text):
            self._start(key, TRACEBACK, line, "frames").block.cut = True
            self._open[key].add(line.number, text)
        elif _IGNORED_TRACE.match(text):
            self._start(key, TRACEBACK, line, "header").block.detached = True
        elif LAUNCH_START.match(text) and self._telling(LAUNCHER, text):
            self._start(key, LAUNCHER, line, "header")
        elif _PYTHON_WARNING.match(text):
            self._start(key, WARNING, line, "header")
        elif _TYPED.match(text):
            self._start(key, TRACEBACK, line, "message").block.raised.append(Raised(line.number, text))
        elif self._telling(RAW, text):
            self._start(key, RAW, line, "header")
        else:
            return False
        return True

    def _trace(self, key: Key, line: Line) -> bool:
        held = self._open.get(key)
        if held is not None and held.state not in ("chain",) and not held.block.detached:
            self._close(key)
        if self._open.get(key) is None:
            handled = self._open.get((line.process, line.pid, RECORD))
            self._start(key, TRACEBACK, line, "header").block.detached = (
                handled is not None and handled.block.header.startswith(_HANDLED)
            )
        self._open[key].add(line.number, line.message)
        return True

    @staticmethod
    def _continues(held: Growing, text: str) -> bool:
        if held.size >= 4 * MAX_LINES + MAX_FRAMES * 3:
            return False
        if held.state == "chain":
            return not text.strip() or bool(TRACE.match(text))
        if held.state == "frames":
            return not _OWN_LINE.match(text) and not _PYTHON_WARNING.match(text)
        if (
            TRACE.match(text)
            or _SWALLOWED.match(text)
            or _OWN_LINE.match(text)
            or _PYTHON_WARNING.match(text)
        ):
            return False
        if held.state == "message":
            return len(held.block.raised[-1].more) < MAX_LINES and not (
                _TYPED.match(text) and not text.startswith("nccl")
            )
        if held.block.detached:
            return True
        limit = 1 if held.block.kind in (WARNING, RAW) else 8
        if held.block.kind == WARNING:
            limit = 4
        if held.block.kind == LAUNCHER and text.startswith("nvidia-container-cli: "):
            return True
        return bool(text.strip()) and len(held.block.body) < limit and not LAUNCH_START.match(text)

    def _single(self, kind: str, line: Line) -> None:
        self._orders += 1
        block = Block(kind, line, line.number, line.number, self._orders, header=line.message)
        self._begun(block)
        self._done(block)

    def _start(self, key: Key, kind: str, line: Line, state: str) -> Growing:
        self._orders += 1
        header = line.message if state == "header" else ""
        block = Block(kind, line, line.number, line.number, self._orders, header=header)
        if header and TRACE.match(header):
            block.header = ""
        self._begun(block)
        self._open[key] = held = Growing(block, state)
        if header and TRACE.match(header) and kind == ERROR:
            held.add(line.number, header)
        elif header and FRAME.match(header):
            block.header, block.cut = "", True
            held.add(line.number, header)
        return held

    def _close(self, key: Key) -> None:
        held = self._open.pop(key)
        if held.state in ("frames", "chain"):
            held.block.cut = True
        self._done(held.block)
