# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One whole freeze of this machine with an Engine of our own: what it asks for, and what its record never holds."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.plugins.module_utils.test__docker import (
    ANSWERS,
    ID,
    INSPECT,
    FakeEngine,
)

KEY = bytes(range(7, 39))
SECRET = "canary-4c1d-of-the-engine"
# A name that no container, process or file has: only the rules know it.
RULE = "THE_DEPARTMENTS_PASSPHRASE"
FREEZE = (
    "import json, sys\n"
    "from ansible_collections.gpufleet.baseline.plugins.module_utils._freeze import freeze\n"
    "print(json.dumps(freeze(json.load(sys.stdin))))\n"
)


@dataclass
class Frozen:
    """A freeze that is over."""

    result: dict[str, Any]
    asked: list[tuple[str, str]]
    members: dict[str, bytes]

    @property
    def everything(self) -> bytes:
        """All members and their names, unpacked."""
        return b"\0".join(name.encode() + b"\0" + content for name, content in self.members.items())


def unpacked(archive: Path) -> dict[str, bytes]:
    found = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member).read()
            found[member.name] = gzip.decompress(content) if member.name.endswith(".gz") else content
    return found


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Frozen:
    folder = tmp_path_factory.mktemp("freeze")
    staging = folder / "staging"
    staging.mkdir(mode=0o700)
    engine = FakeEngine(folder / "docker.sock")
    config = {**INSPECT["Config"], "Env": ["PATH=/usr/local/bin", f"HF_TOKEN={SECRET}"]}
    engine.answers = {**ANSWERS, f"/v1.51/containers/{ID}/json": {**INSPECT, "Config": config}}
    bystander = subprocess.Popen(["sleep", "600"])
    options = {
        "staging": str(staging),
        "redaction_key": KEY.hex(),
        "host": "n1",
        "run": "run-001",
        "reproduction": "repro",
        "containers": ["vllm"],
        "processes": [bystander.pid],
        "docker_socket": engine.path,
        "log_limit_mib": 1,
        "secret_names": [RULE],
        "note": f"the token is {SECRET}",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-c", FREEZE],
            input=json.dumps(options),
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        bystander.kill()
        bystander.wait()
        engine.close()
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    return Frozen(result, engine.asked, unpacked(Path(result["archive"])))


def test_t18_a_freeze_starts_no_container_to_look_from(frozen: Frozen) -> None:
    # Whoever creates, starts or enters a container must POST
    # (https://docs.docker.com/reference/api/engine/version/v1.47/#tag/Container).
    assert {verb for verb, _path in frozen.asked} == {"GET"}
    assert ("GET", f"/v1.51/containers/{ID}/json") in frozen.asked


def test_t24_neither_rules_nor_mapping_are_in_the_record(frozen: Frozen) -> None:
    assert f"<redacted HF_TOKEN {stand_in(frozen)}>" in frozen.members["note.txt"].decode()
    # the mapping: key, values, and the keyed digests by which the controller compares hosts
    # (an entry without a digest is a value that cannot be looked for, and only counted)
    digests = [entry["digest"] for entry in frozen.result["digests"] if entry["digest"]]
    assert digests
    hidden = [KEY, KEY.hex().encode(), base64.b64encode(KEY), SECRET.encode(), *map(str.encode, digests)]
    assert [text for text in hidden if text in frozen.everything] == []
    # the rules: what the operator called secret, and this collection's own patterns
    assert RULE.encode() not in frozen.everything
    assert [name for name in frozen.members if "redact" in name.lower()] == []


def stand_in(frozen: Frozen) -> str:
    """What the record has in place of the engine's token."""
    facts = json.loads(frozen.members["facts.json"])
    (container,) = facts["engine"]["containers"]
    (entry,) = [entry for entry in container["environment"] if entry.startswith("HF_TOKEN=")]
    return entry.removeprefix("HF_TOKEN=<redacted HF_TOKEN ").removesuffix(">")
