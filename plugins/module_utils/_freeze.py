# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Freeze one host: the order of the work (private to the collection).

Ask, learn what is secret, write the members without it, seal, read the sealed archive again. A piece that fails costs
that piece, and the record says so.
"""

from __future__ import annotations

import os
import select
import time
from collections import Counter
from typing import Any, Dict, List, Mapping

from ansible_collections.gpufleet.baseline.plugins.module_utils import (
    _answers,
    _before_after,
    _changes,
    _engine_secrets,
    _gpu_secrets,
    _questions,
    _seal,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_facts import derived_members
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_facts import facts as engine_facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_collect import (
    Collected,
    ask_after,
    collect,
    first_round,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_logs import Logs
from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze_members import Members
from ansible_collections.gpufleet.baseline.plugins.module_utils._gpu_facts import facts as gpu_facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import Probe
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor
from ansible_collections.gpufleet.baseline.plugins.module_utils._staging import ARCHIVE_NAME, Staging
from ansible_collections.gpufleet.baseline.plugins.module_utils._times import from_iso

FACTS_SCHEMA = "gpufleet.baseline/facts/1"
MANIFEST_SCHEMA = "gpufleet.baseline/manifest/1"
# Sealing is done again without the members in which the second look found a secret.
SEAL_ATTEMPTS = 3


def plan(options: Mapping[str, Any]) -> List[str]:
    """What would be collected, one line each; asks which containers and processes there are, and nothing else."""
    from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_probes import discover

    found, _unused = discover(options)
    lines = [
        "%s%s" % (spec.name, " -> " + spec.member if spec.member else "") for spec in first_round(options)
    ]
    lines += ["container %s (%s), because %s" % (c.name, c.short, c.why) for c in found.containers]
    lines += ["process %d (%s)" % (p.line.pid, p.line.command) for p in found.processes if p.leader]
    return lines + list(found.notes)


def freeze(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Make the sealed record in the staging directory; the module's result."""
    started = time.time()
    # A long container log must not take the processor or the disk from what is being looked at.
    os.nice(10)
    with Staging(str(options["staging"])) as staging:
        free = staging.require_space()
        collected = collect(options)
        _stop_when_abandoned(staging)
        redactor = Redactor(_key(options))
        documents = _documents(collected)
        derived = derived_members(collected.answers, collected.found)
        _learn(redactor, collected, documents, options)
        redactor.learn_text(derived.values())
        derived = {path: _to_fill_in(redactor, path, content) for path, content in derived.items()}
        logs = Logs(collected, options, staging, redactor, free)
        members = Members(staging, redactor)
        logs.keep(members)
        _stop_when_abandoned(staging)
        members.add_probes(collected.answers)
        members.add_files(derived, "rebuilt from the inspect")
        members.add_json("facts.json", {"schema": FACTS_SCHEMA, **documents}, "facts")
        members.add_json("first-failure.json", logs.verdicts, "first failure")
        members.add_json("timeline.json", _timeline(documents, options), "timeline")
        _add_given(members, options)
        answers = _answers.of_host(
            str(options.get("host") or ""), documents, logs.verdicts, collected.found.notes
        )
        return _seal_record(options, staging, redactor, members, collected, logs.answers, answers, started)


def _to_fill_in(redactor: Redactor, path: str, content: bytes) -> bytes:
    """A start command whose secrets stand within longer words cannot take them from variables, and says so."""
    if not path.endswith(".sh") or b"<redacted " not in redactor.redact_bytes(content):
        return content
    return b"# put in by hand, where '<redacted' stands below: a secret within a longer word\n" + content


def _key(options: Mapping[str, Any]) -> bytes:
    try:
        return bytes.fromhex(str(options["redaction_key"]))
    except ValueError as error:
        raise BaselineError(
            "redaction_key: expected 64 hexadecimal digits; leave it to the action plugin"
        ) from error


def _documents(collected: Collected) -> Dict[str, Any]:
    return {**gpu_facts(collected.answers), "engine": engine_facts(collected.answers, collected.found)}


def _learn(
    redactor: Redactor, collected: Collected, documents: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Learn every secret before anything is written, so that a value seen once is removed everywhere."""
    for inspect in collected.found.inspects.values():
        config = inspect.get("Config") or {}
        redactor.learn_environment(config.get("Env") or [])
        redactor.learn_argv(
            [str(inspect.get("Path") or ""), *[str(word) for word in inspect.get("Args") or []]]
        )
    for process in collected.found.processes:
        redactor.learn_argv(process.line.argv)
    _gpu_secrets.learn(redactor, documents)
    _engine_secrets.learn(redactor, documents["engine"], options.get("secret_names") or [])
    redactor.learn_value(documents)
    for probe in collected.answers.values():
        redactor.learn_value(probe.value)
        if probe.raw:
            redactor.learn_text([probe.raw])
    for name in ("request", "note"):
        redactor.learn_text([str(options.get(name) or "").encode()])
    redactor.learn_value(options.get("earlier_changes") or [])


def _timeline(documents: Mapping[str, Any], options: Mapping[str, Any]) -> Dict[str, Any]:
    """The order of earlier changes: the host's sources, the container engine's, and what a person knows."""
    engine = [
        {"time": from_iso(event["time"]), "what": event["what"], "kind": "container"}
        for event in documents["engine"]["events"]
    ]
    known = [
        {"time": from_iso(change["time"]), "what": _told(change), "kind": "told"}
        for change in options.get("earlier_changes") or []
    ]
    sources = [
        _changes.Source("container engine", events=engine),
        _changes.Source("the operator", events=known),
    ]
    return _changes.add(documents["host"]["changes"], sources)


def _told(change: Mapping[str, Any]) -> str:
    """A change in a person's words; the time as given too, for it may be of a form that no clock reads."""
    return "%s: %s%s" % (change["time"], change["what"], " (%s)" % change["who"] if change.get("who") else "")


def _add_given(members: Members, options: Mapping[str, Any]) -> None:
    """What the operator gave: the fixed request's body, which is kept and not sent, and a note."""
    if options.get("request"):
        members.add_files({"request/body.json": str(options["request"]).encode()}, "given by the operator")
    if options.get("note"):
        members.add_files({"note.txt": (str(options["note"]) + "\n").encode()}, "given by the operator")


def _seal_record(
    options: Mapping[str, Any],
    staging: Staging,
    redactor: Redactor,
    members: Members,
    collected: Collected,
    log_answers: Mapping[str, Probe],
    answers: _questions.HostAnswers,
    started: float,
) -> Dict[str, Any]:
    lines = _questions.answer(answers)
    heading = "Frozen record of %s, %s of %s, frozen %s" % (
        options.get("host"),
        options.get("run"),
        options.get("reproduction"),
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
    )
    members.add_files({"five-questions.txt": _questions.render(heading, lines).encode()}, "five questions")
    after = ask_after(options, collected.answers)
    before_after = _before_after.compare(collected.answers, after, [staging.path])
    members.add_json("before-after.json", before_after, "before and after")
    probes = {**collected.answers, **after, **log_answers}
    coverage = _coverage(probes)
    manifest = {
        "schema": MANIFEST_SCHEMA,
        "host": options.get("host"),
        "run": options.get("run"),
        "reproduction": options.get("reproduction"),
        "frozen": int(started),
        "coverage": coverage,
        "probes": {name: {"member": probe.member, **probe.summary()} for name, probe in probes.items()},
    }
    part = ARCHIVE_NAME + ".part"
    for _unused in range(SEAL_ATTEMPTS):
        members.refresh()
        members.replace_manifest(manifest)
        with staging.create(part) as target:
            _stop_when_abandoned(staging)
            sha256, size = _seal.write_archive(members.all(), target, int(started))
            target.flush()
            target.seek(0)
            dirty = _seal.scan(target, redactor.scanner)
            if not dirty:
                refusal = staging.publish(target, part, ARCHIVE_NAME)
                break
        staging.discard(part)
        members.leave_out(dirty)
    else:
        raise BaselineError(
            "expected a sealed record without secrets, found some in %s after %d attempts; the record was not kept"
            % (", ".join(sorted(redactor.redact_text(name) for name in dirty)), SEAL_ATTEMPTS)
        )
    return {
        "archive": os.path.join(staging.path, ARCHIVE_NAME),
        "sha256": sha256,
        "bytes": size,
        "coverage": coverage,
        "questions": redactor.redact_value(_questions.document(answers, lines)),
        "digests": redactor.digests(),
        "secrets": redactor.report()["by_name"],
        "refusal": refusal,
    }


def _coverage(probes: Mapping[str, Probe]) -> Dict[str, int]:
    """How many probes were asked, and how many had each outcome."""
    return {"probes": len(probes), **Counter(probe.outcome for probe in probes.values())}


def _stop_when_abandoned(staging: Staging) -> None:
    """End when nobody waits for the answer any more: the connection was cut or the controller is gone.

    Then the action plugin cannot remove the staging directory, so it is removed here.
    """
    poller = select.poll()
    poller.register(1, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _descriptor, event in poller.poll(0)):
        staging.remove()
        raise BaselineError("the connection to the controller was cut; nothing was kept on the host")
