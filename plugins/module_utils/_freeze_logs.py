# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The logs of a freeze: which, what is kept of them, and the first failure of each (private to the collection).

Every log is read in a child that can be killed: a socket that stops sending or a disk that stops answering costs
that log. A log that teaches a new secret has those written again that were written before it was known. What is
written is what the first failure is looked for in, so its line numbers are those of the record.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Dict, Iterator, List, Mapping, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log import Limits, collect
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_collect import Collected
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_members import Members
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import Judge, LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._log_origin import LogOrigin
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OK,
    Emit,
    Probe,
    ProbeSpec,
    Reading,
    run_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._process import log_kind
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._staging import Spool, Staging

SCHEMA = "gpufleet.baseline/first-failures/1"
MIB = 1024 * 1024
# All of a log is read, and a longer one twice, so its deadline grows with its size: this much each second is a slow
# disk, or a host so busy that we, who give way to everybody, get little of it.
LEAST_SECONDS, BYTES_A_SECOND = 60.0, 2 * MIB
# The Engine does not tell the size of a log that only it can read; that it falls silent is noticed much earlier.
UNKNOWN_BYTES = 2048 * MIB
# Each round writes only those logs again that may hold a value learned since.
ROUNDS = 3


@dataclass
class EngineLog:
    """One log of a container or process, and where it goes in the record."""

    key: str
    name: str
    member: str
    origin: LogOrigin
    state: Mapping[str, Any] = field(default_factory=dict)


class Logs:
    """All logs of one freeze."""

    def __init__(
        self,
        collected: Collected,
        options: Mapping[str, Any],
        staging: Staging,
        redactor: Redactor,
        free: int,
    ) -> None:
        self._collected = collected
        self._staging = staging
        self._redactor = redactor
        self._logs = engine_logs(collected)
        self._limit, self._lowered = limit_for(int(options["log_limit_mib"]) * MIB, len(self._logs), free)
        self.answers: Dict[str, Probe] = {}
        self.verdicts: Dict[str, Any] = {"schema": SCHEMA, "engines": {}}

    def keep(self, members: Members) -> None:
        """Every log without secrets into the record, and its first failure."""
        kernel = self._kernel_log()
        written: Dict[str, int] = {}
        spools: Dict[str, Spool] = {}
        for _unused in range(ROUNDS):
            waiting = [log for log in self._logs if written.get(log.key) != self._redactor.generation]
            for log in waiting:
                if log.key in spools:
                    spools.pop(log.key).close()
                written[log.key] = self._redactor.generation
                spools[log.key] = self._keep_one(log, kernel)
            if not waiting:
                break
        for log in self._logs:
            self._take(log, self.answers["log." + log.key], spools[log.key], members)

    def _keep_one(self, log: EngineLog, kernel: bytes) -> Spool:
        spool = self._staging.spool()
        spool.file()  # made here, so that it is this process that owns it
        name = "log." + log.key
        seconds = seconds_for(log.origin)
        probe = run_probes([ProbeSpec(name, partial(self._read, log, spool, kernel), seconds)])[name]
        self.answers[name] = probe
        self._redactor.learn_known((probe.value or {}).get("known") or {})
        return spool

    def _read(self, log: EngineLog, spool: Spool, kernel: bytes, emit: Emit) -> Reading:
        """In the child: collect the log, and judge what of it is kept."""
        started = str(log.state.get("StartedAt") or "")
        sources = [LogSource(log.member, started_at=started or None)]
        sources += [LogSource("host/dmesg.txt", kind="kernel")] if kernel else []
        judge = Judge(sources, log.state or None, time.time())
        summary = collect(
            log.origin.source(),
            spool.file(),
            self._redactor,
            Limits.of(self._limit),
            started,
            log.origin.rotates,
            _find_first_failure,
            partial(judge.feed, 0),
        )
        judge.end(0)
        if kernel:
            judge.feed(1, kernel)
            judge.end(1)
        value = {"log": summary.as_dict(), "verdict": judge.verdict(), "known": self._redactor.known()}
        return Reading(value, source=log.origin.describe())

    def _take(self, log: EngineLog, probe: Probe, spool: Spool, members: Members) -> None:
        entry: Dict[str, Any] = {"name": log.name, "member": log.member, "verdict": None, "why": ""}
        self.verdicts["engines"][log.key] = entry
        if probe.outcome == OK:
            probe.value.pop("known")
            details = {**probe.value["log"], "limit_lowered": self._lowered}
            probe.cut_bytes = sum(cut["bytes"] for cut in probe.value["log"]["cuts"])
            members.add_redacted(log.member, spool, "log." + log.key, details)
            entry.update(verdict=probe.value["verdict"], log=probe.value["log"])
        else:
            spool.close()
            entry["why"] = "its log was not read: %s, %s" % (probe.outcome, probe.message)

    def _kernel_log(self) -> bytes:
        probe = self._collected.answers.get("kernel.dmesg")
        return self._redactor.redact_bytes(probe.raw) if probe is not None and probe.outcome == OK else b""


def _find_first_failure(blocks: Iterator[bytes]) -> Optional[int]:
    """The line of the first failure of a log that is longer than its limit."""
    judge = Judge([LogSource("log")])
    for block in blocks:
        judge.feed(0, block)
    judge.end(0)
    line = judge.verdict()["line"]
    return line if isinstance(line, int) else None


def seconds_for(origin: LogOrigin) -> float:
    """How long reading a log may take."""
    size = origin.bytes_on_disk() if origin.files else UNKNOWN_BYTES
    return LEAST_SECONDS + size / BYTES_A_SECOND


def limit_for(wanted: int, logs: int, free: int) -> tuple[int, str]:
    """Bytes that each log may have in the record, and in words when the space forces less than was wanted.

    A log is on the disk twice at the end, once by itself and once in the archive; both are compressed, to a tenth
    at most as a rule, but that is not known before.
    """
    possible = free // 2 // max(1, logs)
    if wanted <= possible:
        return wanted, ""
    return possible, "%d MiB were wanted, %d MiB are free for %d logs" % (wanted // MIB, free // MIB, logs)


def engine_logs(collected: Collected) -> List[EngineLog]:
    """The logs of all chosen containers, and of engines outside of containers whose output goes to a file."""
    found = collected.found
    logs = []
    for choice in found.containers:
        inspect = found.inspects[choice.identifier]
        member = _member_of(collected, "container.%s.inspect" % choice.short, "containers/" + choice.short)
        logs.append(
            EngineLog(
                "container:" + choice.identifier,
                choice.name,
                member + "/log.txt.gz",
                LogOrigin.of_container(inspect, found.socket),
                inspect.get("State") or {},
            )
        )
    for process in found.processes:
        if process.leader:
            answer = collected.answers.get("process.%d.facts" % process.line.pid)
            path = _output_file((answer.value if answer is not None else None) or {})
            if path:
                pid = process.line.pid
                member = "processes/%d/log.txt.gz" % pid
                logs.append(
                    EngineLog("process:%d" % pid, "process %d" % pid, member, LogOrigin.of_file(path))
                )
    return logs


def _member_of(collected: Collected, probe: str, otherwise: str) -> str:
    answer = collected.answers.get(probe)
    return os.path.dirname(answer.member) if answer is not None and answer.member else otherwise


def _output_file(read: Mapping[str, Any]) -> str:
    """The file that a process writes its errors to, else its output; empty for a pipe, a terminal or a journal."""
    outputs = (read.get("open") or {}).get("outputs") or {}
    for descriptor in ("2", "1"):
        target = str(outputs.get(descriptor) or "")
        if log_kind(target) == "file":
            return target
    return ""
