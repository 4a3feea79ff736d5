# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One long poll of the ranks of a host: how they are, what they said, what they did (private to the collection).

Everything that can hang is a probe: a driver or an Engine that does not answer costs its own time limit, and the
end of a rank is noticed all the same. Text is redacted before it leaves the host.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ansible_collections.gpufleet.baseline.plugins.module_utils import _docker, _watch_sample
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_holders import combine
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    OK,
    Emit,
    Probe,
    ProbeSpec,
    Reading,
    run_probes,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_health import (
    HEALTH_SECONDS,
    health_status,
    read_health,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_rank import Rank
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_text import read_log
from ansible_collections.gpufleet.baseline.plugins.module_utils._watch_wait import Watch, ended, unknown

SCHEMA = "gpufleet.baseline/watch-poll/1"
WAIT_SLACK, LOG_SECONDS, LOOK_SECONDS = 15.0, 20.0, 5.0
# Looking through the open files of all processes is the dear part; the driver's own list is asked every time.
HOLDERS_EVERY = 30.0
# A driver that did not answer is left alone for a while, so that it does not hold up every poll.
GPUS_AGAIN = 60.0


@dataclass
class PollOptions:
    """What the module is asked for."""

    ranks: Sequence[Rank]
    cursor: Mapping[str, Any] = field(default_factory=dict)
    wait_seconds: float = 3.0
    redaction_key: bytes = b""
    secrets: Mapping[str, str] = field(default_factory=dict)
    docker_socket: str = ""
    known_holders: Sequence[str] = ()


def poll(options: PollOptions) -> Dict[str, Any]:
    """Wait for news, and tell all of it."""
    _docker.preload()
    socket = _docker.find_socket(options.docker_socket, os.environ).path
    leases = {rank.number: rank.renew_lease() for rank in options.ranks}
    answers = run_probes(_first_round(options, socket))
    waited = answers["wait"].value or {"states": {}, "ended": False, "inspects": {}}
    states = {
        rank.number: waited["states"].get(rank.number)
        or unknown(answers["wait"].message, _pid(options.cursor, rank.number))
        for rank in options.ranks
    }
    answers.update(run_probes(_second_round(options, socket, states, waited["inspects"])))
    for rank in options.ranks:
        rank.renew_lease()
    return _document(options, states, leases, answers)


def _pid(cursor: Mapping[str, Any], number: int) -> int:
    return int((cursor.get("pids") or {}).get(str(number)) or 0)


def _first_round(options: PollOptions, socket: str) -> List[ProbeSpec]:
    now, cursor = time.time(), options.cursor
    pids = {rank.number: _pid(cursor, rank.number) for rank in options.ranks}
    specs = [
        ProbeSpec(
            "wait",
            partial(_wait, options.ranks, socket, pids, options.wait_seconds),
            options.wait_seconds + WAIT_SLACK,
        )
    ]
    # Not asked while an end is expected at any moment: the last look shall not wait for a driver.
    if options.wait_seconds > 0 and now >= float(cursor.get("gpus_again") or 0.0):
        specs.append(ProbeSpec("gpus", _watch_sample.read_gpus, max(LOOK_SECONDS, options.wait_seconds)))
    if options.wait_seconds > 0 and now >= float(cursor.get("holders_again") or 0.0):
        specs.append(
            ProbeSpec("holders", _watch_sample.read_all_holders, max(LOOK_SECONDS, options.wait_seconds))
        )
    for rank in options.ranks:
        if rank.api_port is not None:
            specs.append(
                ProbeSpec(
                    "health.%d" % rank.number, partial(read_health, rank.api_port), HEALTH_SECONDS + 1.0
                )
            )
    return specs


def _wait(
    ranks: Sequence[Rank], socket: str, pids: Mapping[int, int], seconds: float, _emit: Emit
) -> Reading:
    watch = Watch(ranks, socket, pids)
    states, over = watch.wait(seconds)
    return Reading({"states": states, "ended": over, "inspects": watch.inspects})


def _second_round(
    options: PollOptions,
    socket: str,
    states: Mapping[int, Mapping[str, Any]],
    inspects: Mapping[int, Mapping[str, Any]],
) -> List[ProbeSpec]:
    leaders = {number: state["pid"] for number, state in states.items() if state["pid"]}
    specs = [
        ProbeSpec("processes", lambda _emit: _watch_sample.read_processes(leaders), LOOK_SECONDS),
    ]
    for rank in options.ranks:
        cursor = (options.cursor.get("logs") or {}).get(str(rank.number)) or {}
        final = states[rank.number]["running"] is False
        read = partial(_log, options, rank, inspects.get(rank.number), socket, cursor, final)
        specs.append(ProbeSpec("log.%d" % rank.number, read, LOG_SECONDS))
    return specs


def _log(
    options: PollOptions,
    rank: Rank,
    inspect: Optional[Mapping[str, Any]],
    socket: str,
    cursor: Mapping[str, Any],
    final: bool,
    _emit: Emit,
) -> Reading:
    return read_log(rank, inspect, socket, cursor, final, options.redaction_key, options.secrets)


def _document(
    options: PollOptions,
    states: Mapping[int, Dict[str, Any]],
    leases: Mapping[int, Optional[bool]],
    answers: Mapping[str, Probe],
) -> Dict[str, Any]:
    samples: Mapping[int, Dict[str, Any]] = answers["processes"].value or {}
    gpus = answers["gpus"].value if "gpus" in answers else None
    ours = {pid for sample in samples.values() for pid in sample["pids"]}
    found = _strangers(options, answers, gpus, ours)
    new = confirmed(found, options.cursor, options.known_holders)
    rows = []
    for rank in options.ranks:
        log = answers["log.%d" % rank.number]
        read = log.value or {"text": "", "unfinished": "", "more": False, "gap": "", "size": None}
        row = {
            "rank": rank.number,
            "state": states[rank.number],
            "lines": read["text"],
            "unfinished": read["unfinished"],
            "more": read["more"],
            "gap": read["gap"],
            "log_problem": "" if log.outcome == OK else "%s: %s" % (log.outcome, log.message),
            "sample": _sample(samples.get(rank.number), gpus, rank, read["size"]),
            "health": health_status(answers.get("health.%d" % rank.number), samples.get(rank.number)),
            "lease": leases[rank.number],
        }
        rows.append(row)
    return {
        "schema": SCHEMA,
        "time": time.time(),
        "ended": ended(states),
        "ranks": rows,
        "holders_new": new,
        "problems": _problems(answers),
        "cursor": _cursor(options, states, answers, found, new),
    }


def _sample(
    sample: Optional[Mapping[str, Any]], gpus: Optional[Mapping[str, Any]], rank: Rank, size: Optional[int]
) -> Dict[str, Any]:
    none = dict.fromkeys(("bytes_read", "bytes_from_disk", "cpu_seconds", "threads", "resident_bytes"))
    own = {**none, **(sample or {})}
    pids = own.pop("pids", [])
    memory = None
    if gpus is not None:
        memory = {uuid: used for uuid, used in gpus["memory"].items() if not rank.gpus or uuid in rank.gpus}
    return {
        **own,
        "time": time.time(),
        "processes": len(pids),
        "gpu_memory": memory,
        "rank_gpu_memory": None if gpus is None else _watch_sample.rank_memory(gpus["gpus"], pids),
        "log_bytes": size,
    }


def _strangers(
    options: PollOptions, answers: Mapping[str, Probe], gpus: Optional[Mapping[str, Any]], ours: Set[int]
) -> Optional[List[Dict[str, Any]]]:
    """Holders of the ranks' GPUs that are none of ours; None where nobody could be asked this time."""
    listed = answers["holders"].value if "holders" in answers else None
    if listed is None and gpus is None:
        return None
    holders = [
        _watch_sample.completed(holder) for holder in combine(listed or [], gpus["gpus"] if gpus else [])
    ]
    watched: Set[str] = set()
    if all(rank.gpus for rank in options.ranks):
        watched = {gpu for rank in options.ranks for gpu in rank.gpus}
    containers = {rank.container for rank in options.ranks if rank.container}
    return _watch_sample.strangers(holders, ours, containers, watched)


def confirmed(
    found: Optional[Sequence[Mapping[str, Any]]], cursor: Mapping[str, Any], known: Sequence[str]
) -> List[Dict[str, Any]]:
    """Strangers that were there in the last look as well and were not told before.

    A helper of the engine that had ended before its parents were looked at is not there any more.
    """
    told = {*known, *(cursor.get("told") or [])}
    seen = set(cursor.get("seen") or [])
    return [dict(one) for one in found or [] if one["identity"] in seen and one["identity"] not in told]


def _problems(answers: Mapping[str, Probe]) -> List[str]:
    return [
        "%s: %s, %s" % (name, probe.outcome, probe.message)
        for name, probe in answers.items()
        if probe.outcome in ("timeout", "error") and not name.startswith("health.")
    ]


def _cursor(
    options: PollOptions,
    states: Mapping[int, Mapping[str, Any]],
    answers: Mapping[str, Probe],
    found: Optional[Sequence[Mapping[str, Any]]],
    new: Sequence[Mapping[str, Any]],
) -> Dict[str, Any]:
    before, now = options.cursor, time.time()
    logs = dict(before.get("logs") or {})
    for rank in options.ranks:
        read = answers["log.%d" % rank.number].value
        if read:
            logs[str(rank.number)] = read["cursor"]
    told = [*(before.get("told") or []), *(one["identity"] for one in new)]
    cursor = {
        "logs": logs,
        "pids": {str(number): state["pid"] for number, state in states.items()},
        "seen": list(before.get("seen") or []) if found is None else [one["identity"] for one in found],
        "told": told,
        "gpus_again": before.get("gpus_again") or 0.0,
        "holders_again": before.get("holders_again") or 0.0,
    }
    if "gpus" in answers and answers["gpus"].outcome != OK:
        cursor["gpus_again"] = now + GPUS_AGAIN
    if "holders" in answers:
        # A suspect is looked at again in the next poll.
        suspects = {one["identity"] for one in found or []} - set(told)
        cursor["holders_again"] = 0.0 if suspects else now + HOLDERS_EVERY
    return cursor
