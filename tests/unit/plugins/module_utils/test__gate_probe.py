# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate starts: only on free GPUs, told as an exception, gone again whatever happens (T18)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _gate_probe, _throwaway
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure

docker_errors = pytest.importorskip("docker.errors", reason="the library docker is not installed here")

IDENTIFIER = "sha256:" + "a" * 64
UUID = "GPU-a0000001-0000-4000-8000-000000000001"


class Client:
    """An Engine that records what it is asked, and fails where it is told to."""

    def __init__(self, fails: str = "", output: bytes = b"") -> None:
        self.fails = fails
        self.output = output
        self.asked: List[Any] = []

    def _ask(self, verb: str, **arguments: Any) -> None:
        self.asked.append((verb, arguments))
        if verb == self.fails:
            raise docker_errors.APIError("no", explanation="told to fail at %s" % verb)

    def inspect_image(self, name: str) -> Dict[str, str]:
        if self.fails == "image":
            raise docker_errors.ImageNotFound("no such image")
        return {"Id": IDENTIFIER}

    def create_host_config(self, **arguments: Any) -> Dict[str, Any]:
        return arguments

    def create_container(self, **arguments: Any) -> Dict[str, str]:
        self._ask("create", **arguments)
        return {"Id": "c1"}

    def start(self, identifier: str) -> None:
        self._ask("start", identifier=identifier)

    def wait(self, identifier: str, timeout: float) -> Dict[str, int]:
        self._ask("wait", timeout=timeout)
        if self.fails == "hang":
            import requests

            raise requests.exceptions.ReadTimeout("no end")
        return {"StatusCode": 0}

    def logs(self, identifier: str, stdout: bool, stderr: bool) -> bytes:
        return self.output

    def remove_container(self, identifier: str, force: bool, v: bool) -> None:
        self._ask("remove", identifier=identifier, force=force)

    def verbs(self) -> List[str]:
        return [verb for verb, _arguments in self.asked]


def start(client: Client) -> Any:
    started: List[Dict[str, Any]] = []
    try:
        return _throwaway.run(client, IDENTIFIER, ["nvidia-smi", "-L"], 5.0, started), started
    except ProbeFailure as failure:
        return failure.reading, started


def test_t18_the_container_is_by_id_with_its_own_entrypoint_without_network() -> None:
    client = Client(output=b"GPU 0: x (UUID: %s)\n" % UUID.encode())
    ended, started = start(client)
    made = client.asked[0][1]
    assert made["image"] == IDENTIFIER
    assert (made["entrypoint"], made["command"]) == (["nvidia-smi"], ["-L"])
    assert made["host_config"]["network_mode"] == "none"
    assert made["name"].startswith("gpufleet-probe-")
    assert client.verbs() == ["create", "start", "wait", "remove"]
    assert UUID in ended.output
    assert (started[0]["what"], started[0]["removed"]) == ("container", True)


@pytest.mark.parametrize("fails", ["start", "wait", "hang"])
def test_t18_the_container_is_removed_whatever_happens(fails: str) -> None:
    client = Client(fails)
    reading, started = start(client)
    assert client.verbs()[-1] == "remove"
    assert started[0]["removed"] is True
    assert reading.outcome == ("timeout" if fails == "hang" else "error")


def test_a_container_that_could_not_be_removed_is_told() -> None:
    _ended, started = start(Client("remove"))
    assert started[0]["removed"] is False
    assert "told to fail" in started[0]["why"]


def test_nothing_that_was_not_made_is_told_as_started() -> None:
    reading, started = start(Client("create"))
    assert (reading.outcome, started) == ("error", [])


def test_t18_an_image_that_is_not_there_is_not_pulled() -> None:
    with pytest.raises(ProbeFailure) as caught:
        _throwaway.image_id(Client("image"), "vllm/vllm-openai:kimi-k3")
    assert caught.value.reading.outcome == "absent"
    assert "nothing is pulled" in str(caught.value)


def gpu_document(holders: Optional[List[Any]], processes: str = "ok", gpus: int = 1) -> Dict[str, Any]:
    return {
        "holders": {"value": holders, "message": "root only"},
        "gpus": [{"pci_address": "0000:06:00.0", "processes": {"outcome": processes}}] * gpus,
    }


def held(daemon: Optional[str]) -> List[Dict[str, Any]]:
    return [{"pid": 7, "command": "python3", "daemon": daemon}]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (gpu_document([]), ""),
        (gpu_document(held("nvidia-persistenced")), ""),
        (gpu_document(held(None)), "refused: process 7 (python3) holds a GPU"),
        (gpu_document(None), "refused: who holds the GPUs is not known (root only)"),
        (gpu_document([], "denied"), "refused: the processes on GPU 0000:06:00.0 are not known"),
        (gpu_document([], gpus=0), "refused: there is no GPU"),
    ],
)
def test_refused_where_a_gpu_is_held_or_that_is_not_known(document: Dict[str, Any], words: str) -> None:
    assert _gate_probe.why_not(document) == words


def options(**more: Any) -> Dict[str, Any]:
    return {"container": True, "cuda": True, "image": "an-image", "deadline": 5.0, **more}


def test_a_refusal_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gate_probe, "_holders", lambda options: gpu_document(held(None)))
    client = Client()
    document = _gate_probe.probe(options(), lambda: client)
    assert client.asked == []
    assert document["started"] == []
    assert document["container"]["outcome"] == document["cuda"]["outcome"] == "skipped"
    assert document["cuda"]["message"].startswith("refused")


def test_what_was_asked_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gate_probe, "_holders", lambda options: gpu_document([]))
    client = Client(output=b"GPU 0: NVIDIA H200 (UUID: %s)\n" % UUID.encode())
    document = _gate_probe.probe(options(cuda=False), lambda: client)
    assert document["container"]["value"] == [UUID]
    assert document["cuda"] == {"value": None, "outcome": "skipped", "source": "", "message": "not asked for"}
    assert len(document["started"]) == 1


def test_a_container_probe_needs_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gate_probe, "_holders", lambda options: gpu_document([]))
    document = _gate_probe.probe(options(image="", cuda=False), Client)
    assert document["container"]["outcome"] == "error"
    assert "gate_probe_image" in document["container"]["message"]


@pytest.mark.parametrize(
    ("output", "code", "outcome", "words"),
    [
        (json.dumps({"init": 0, "count": 2, "uuids": [UUID]}), 0, "ok", ""),
        ("noise\n" + json.dumps({"init": 802, "uuids": []}), 0, "ok", "fabric is not up"),
        (json.dumps({"init": 7777, "uuids": []}), 0, "ok", "cuInit gives 7777"),
        (json.dumps({"init": None, "why": "not found"}), 0, "absent", "no libcuda.so.1"),
        ("Traceback\nOSError: no", 1, "error", "exit status 1: OSError: no"),
        ("", 0, "error", "it printed nothing"),
        ("[1]", 0, "error", "exit status 0"),
    ],
)
def test_what_the_program_printed(output: str, code: int, outcome: str, words: str) -> None:
    fact = _gate_probe.read_cuda(output, code, "x")
    assert fact.outcome == outcome
    assert words in fact.message


LIBCUDA = """
#include <string.h>
int cuInit(unsigned flags) { return INIT; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGetUuid_v2(char *uuid, int device) {
  memcpy(uuid, "\\xa0\\x00\\x00\\x01\\x00\\x00\\x40\\x00\\x80\\x00\\x00\\x00\\x00\\x00\\x00\\x01", 16); return 0; }
"""


@pytest.mark.parametrize("init", [0, 803])
def test_the_program_asks_a_real_library(tmp_path: Path, init: int) -> None:
    source = tmp_path / "cuda.c"
    source.write_text(LIBCUDA)
    library = tmp_path / "libcuda.so.1"
    build = ["gcc", "-shared", "-fPIC", f"-DINIT={init}", "-o", str(library), str(source)]
    try:
        subprocess.run(build, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no C compiler here: the stand-in for libcuda cannot be built")
    done = subprocess.run(
        [sys.executable, "-c", _gate_probe.PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    fact = _gate_probe.read_cuda(done.stdout, 0, "x")
    assert fact.value["init"] == init
    assert fact.value["uuids"] == ([UUID] if init == 0 else [])


def test_the_program_says_when_there_is_no_library(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _gate_probe.PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert _gate_probe.read_cuda(done.stdout, 0, "x").outcome == "absent"
