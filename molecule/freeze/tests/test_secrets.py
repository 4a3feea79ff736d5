# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets: of every form, in every place, and between hosts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ansible_collections.gpufleet.baseline.tests.lab import Node
from ansible_collections.gpufleet.baseline.tests.lab.machine import wait_for
from conftest import Frozen, variables

Freeze = Callable[..., Frozen]
CANARY = "Zq8LxW4tNv7RkPc2Ym5Hs9Bd"


def test_t21_t22_a_value_seen_once_is_nowhere(
    node: Node, stand_in: str, freeze: Freeze, tmp_path: Path
) -> None:
    """In a container's environment, and without its name in another's log, in a file, its name, and our own output."""
    node.docker("run", "-d", "--name", "holds", "-e", f"HF_TOKEN={CANARY}", stand_in, "m")
    node.docker(
        "run",
        "-d",
        "--name",
        "vllm-says",
        "--entrypoint",
        "sh",
        stand_in,
        "-c",
        f"echo the word is {CANARY}; sleep 600",
    )
    node.put(f"/srv/{CANARY}/notes.txt", f"remember {CANARY}\n")
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"model": "m", "messages": [{"role": "user", "content": f"say {CANARY}"}]}))
    result = freeze(
        "-l", "n1", "-vvv",
        *variables(
            freeze_containers=["holds", "vllm-says"], freeze_extra_files=["/srv/*/notes.txt"],
            freeze_request_file=str(request), freeze_note=f"it uses {CANARY}",
            freeze_earlier_changes=[{"time": "2026-08-09T14:30:00Z", "who": "me", "what": f"HF_TOKEN={CANARY}"}],
        ),
    )  # fmt: skip
    assert result.code == 0, result.output
    record = result.record()
    assert CANARY.encode() not in record.everything
    log = record.text("containers/vllm-says/log.txt.gz")
    assert "the word is <redacted HF_TOKEN" in log
    # The same stand-in everywhere, so that the places can still be compared.
    stand_in_text = log.split("the word is ")[1].split(">")[0]
    assert stand_in_text in record.text("request/body.json")
    for path in result.run.rglob("*"):
        if path.is_file():
            assert CANARY not in path.read_text("utf-8", "replace"), path
    # What the operator typed on the command line is shown by -vvv; what came from the host is not.
    assert "the word is " + CANARY not in result.output


def test_a_secret_of_one_host_in_the_record_of_another_is_a_leak(
    nodes: list[Node], stand_in: str, freeze: Freeze
) -> None:
    nodes[0].docker("run", "-d", "--name", "holds", "-e", f"API_KEY={CANARY}", stand_in, "m")
    nodes[1].docker(
        "run",
        "-d",
        "--name",
        "vllm-says",
        "--entrypoint",
        "sh",
        stand_in,
        "-c",
        f"echo the word is {CANARY}; sleep 600",
    )
    wait_for(lambda: CANARY in nodes[1].docker("logs", "vllm-says").out, "the log")
    result = freeze(*variables(freeze_containers=["holds", "vllm-says"]))
    assert result.code != 0
    document = result.document
    assert document["state"] == "leak"
    assert document["hosts"]["n1"]["state"] == "frozen"
    assert document["hosts"]["n2"]["state"] == "quarantined"
    # In the command of the container, and in what it says.
    leaks = document["hosts"]["n2"]["leaks"]
    assert "five-questions.txt: API_KEY of n1" in leaks
    assert "containers/vllm-says/log.txt.gz: API_KEY of n1" in leaks
    assert (result.run / "quarantine" / "n2.tar.gz").exists()
    assert not (result.run / "hosts" / "n2.tar.gz").exists()
    assert CANARY not in result.output
