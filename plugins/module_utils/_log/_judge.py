# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The front door: logs of all ranks in, one verdict out; private to the collection."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import IO, Dict, List, Mapping, Optional, Sequence, cast

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._attempt import Log
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._reader import LogReader
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._verdict import verdict_of

KINDS = ("auto", "vllm", "docker_json", "kernel")
_BLOCK = 1024 * 1024


@dataclass
class LogSource:
    """One log: where it is, which node it is of, how far that node's clock is ahead of node 0's."""

    path: str
    node: int = 0
    clock_offset_seconds: float = 0.0
    kind: str = "auto"
    started_at: Optional[str] = None


class Judge:
    """Reads logs piece by piece. A verdict can be asked for at any time; the pieces' sizes do not matter."""

    def __init__(
        self,
        logs: Sequence[LogSource],
        state: Optional[Mapping[str, object]] = None,
        observed_at: Optional[float] = None,
    ) -> None:
        """observed_at: Unix time at which the logs were taken; it tells a young start from a hung one."""
        self.observed_at = observed_at
        self._state = state
        self._logs = list(logs)
        self._readers = [LogReader(log.kind, _started(log, state)) for log in self._logs]

    def feed(self, index: int, block: bytes) -> None:
        """The next bytes of log number index."""
        self._readers[index].feed(block)

    def end(self, index: int) -> None:
        """Log number index is complete."""
        self._readers[index].end()

    def verdict(self) -> Dict[str, object]:
        """The verdict over what was fed so far."""
        found: List[Log] = []
        for index, (source, reader) in enumerate(zip(self._logs, self._readers)):
            analysis = reader.result()
            log = Log(index, source.path, source.node, source.clock_offset_seconds, analysis, source.kind)
            log.newest_first, log.ended = reader.newest_first, reader.ended
            found.append(log)
        return verdict_of(found, self._state, self.observed_at)


def _started(log: LogSource, state: Optional[Mapping[str, object]]) -> Optional[str]:
    if log.started_at is not None or not state:
        return log.started_at
    inner = state.get("State")
    started = (inner if isinstance(inner, Mapping) else state).get("StartedAt")
    return started if isinstance(started, str) and log.node == 0 else None


def judge_files(
    logs: Sequence[LogSource],
    state: Optional[Mapping[str, object]] = None,
    observed_at: Optional[float] = None,
) -> Dict[str, object]:
    """The verdict over whole files, plain or gzip. Memory does not grow with their size."""
    judge = Judge(logs, state, observed_at)
    for index, log in enumerate(logs):
        with open_log(log.path) as stream:
            while True:
                block = stream.read(_BLOCK)
                if not block:
                    break
                judge.feed(index, block)
        judge.end(index)
    return judge.verdict()


def open_log(path: str) -> IO[bytes]:
    """A log for reading; gzip is told by its first bytes."""
    with open(path, "rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path, "rb")) if packed else open(path, "rb")
