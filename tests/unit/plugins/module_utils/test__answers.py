# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The five questions, answered from the documents of a real freeze and of what can be missing in them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils import _answers, _questions

RECORDS = Path(__file__).parents[3] / "fixtures" / "records" / "h200"


def load(name: str) -> Any:
    return json.loads((RECORDS / name).read_text())


@pytest.fixture
def documents():
    return load("facts.json")


@pytest.fixture
def verdicts():
    return load("first-failure.json")


def questions(documents: Any, verdicts: Any, notes: tuple[str, ...] = ()) -> tuple[str, dict[str, Any]]:
    host = _answers.of_host("tray1", documents, verdicts, notes)
    lines = _questions.answer(host)
    return _questions.render("Frozen record of tray1", lines), _questions.document(host, lines)


def test_a_real_h200_host_with_an_engine_as_a_plain_process(documents, verdicts):
    text, document = questions(documents, verdicts)
    assert "1. On which host and GPU devices did the process run?\n   tray1, names itself vm, kernel" in text
    assert "vm, kernel 6.18.44-gpu x86_64, boot" in text
    assert (
        "   driver 580.159.04\n   GPU 0 NVIDIA H200 GPU-00000000-0000-4000-8000-000000000001 at 0000:00:06.0\n"
        in text
    )
    text = " ".join(text.split())  # from here on it does not matter where lines are wrapped
    assert "--api-key <redacted api-key" in text
    assert "torch 2.11.0" in text
    assert "torch's CUDA 13.0" in text
    assert document["short"] == {
        "devices": "1 x NVIDIA H200", "driver": "580.159.04", "image": "no image", "engine": "no vllm",
        "failure": document["short"]["failure"],
        "machine": "vm, boot 00000000-0000-4000-8000-00000000b007",
    }  # fmt: skip
    assert len(document["answers"]) == 5


def test_the_first_failure_is_told_with_stage_class_place_and_words(documents, verdicts):
    verdict = verdicts["engines"]["process:580"]["verdict"]
    verdict.update(
        outcome="failed",
        stage="weights",
        failure_class="checkpoint-corrupt",
        confidence="high",
        line=31,
        message="SafetensorError: x",
    )
    text, document = questions(documents, verdicts)
    assert "failed in stage weights (checkpoint-corrupt, confidence high) at line 31 of" in text
    assert document["short"]["failure"] == "weights: checkpoint-corrupt"


def test_a_container_that_starts_again_and_again_tells_its_last_failure(documents, verdicts):
    verdict = verdicts["engines"]["process:580"]["verdict"]
    failed = {
        "judged": False,
        "outcome": "failed",
        "stage": "devices",
        "failure_class": "driver-803-compat-libs",
        "first_line": 1,
    }
    this_one = {**failed, "judged": True, "outcome": "running"}
    verdict.update(outcome="running", runs=[failed, {**failed, "first_line": 90}, this_one])
    text, document = questions(documents, verdicts)
    words = "2 starts before this one failed, the last failed in stage devices (driver-803-compat-libs, from line 90)"
    assert words in " ".join(text.split())
    assert document["short"]["failure"] == "devices: driver-803-compat-libs, started again"


def test_start_options_and_requests_of_that_moment(documents, verdicts):
    verdict = verdicts["engines"]["process:580"]["verdict"]
    verdict["active"] = {"options": {"max_model_len": 4096}, "requests": [{"route": "/v1/chat/completions"}]}
    _text, document = questions(documents, verdicts)
    assert document["active"] == (
        "process 580: start options max_model_len=4096; 1 requests in flight: {'route': '/v1/chat/completions'}"
    )


def test_a_log_that_was_not_read_is_not_measured_with_its_reason(documents, verdicts):
    verdicts["engines"]["process:580"].update(
        verdict=None, why="its log was not read: timeout, no answer within 60 s"
    )
    text, document = questions(documents, verdicts)
    assert "process 580: not measured: its log was not read: timeout, no answer within 60 s" in text
    assert (
        "failure of process 580: its log was not read: timeout, no answer within 60 s"
        in document["not_measured"]
    )
    assert document["short"]["failure"] == "not measured"


def test_t1_a_driver_that_did_not_answer_is_not_no_driver(documents, verdicts):
    driver = documents["gpu"]["driver"]
    for name in ("loaded", "told_by_the_driver"):
        driver[name] = {
            "value": None,
            "outcome": "timeout",
            "source": "NVML",
            "message": "no answer within 60 s",
        }
    text, document = questions(documents, verdicts)
    assert "not measured: timeout, no answer within 60 s (NVML)" in text
    assert document["short"]["driver"] == "not measured"
    assert "driver: timeout, no answer within 60 s (NVML)" in document["not_measured"]


def test_t1_devices_that_could_not_be_listed_are_not_no_devices(documents, verdicts):
    documents["gpu"]["gpus"] = []
    documents["gpu"]["vendors"] = {
        "value": None,
        "outcome": "error",
        "source": "/sys/bus/pci",
        "message": "broken",
    }
    _text, document = questions(documents, verdicts)
    assert document["short"]["devices"] == "not measured"
    assert "devices: error, broken (/sys/bus/pci)" in document["not_measured"]


def test_a_host_without_an_engine_says_so_in_every_answer(documents, verdicts):
    documents["engine"].update(containers=[], plain_processes=[])
    text, document = questions(documents, verdicts, ("none of 2 containers and no process looks like vLLM",))
    assert text.count("not measured: none of 2 containers and no process looks like vLLM") == 4
    assert document["short"]["failure"] == "none"


def container(**other: Any) -> dict[str, Any]:
    made = {
        "name": "vllm", "id": "97a0a4f4727b8f2a", "command": ["vllm", "serve", "m"], "environment": ["A=1"],
        "restart_count": 3,
        "state": {"status": "exited", "exit_code": 1},
        "image": {
            "name": "vllm/vllm-openai:kimi-k3", "id": "sha256:e57867938722aaaa", "digests": [], "tag_moved": False,
        },
        "gpu_request": {"modes": ["device request (--gpus)"]},
        "visible_devices": {"value": None, "outcome": "absent", "source": "", "message": "the container does not run"},
        "engine_command": None,
        "versions": {"value": {"vllm": ["0.27.1"], "torch": ["2.13.0"]}, "outcome": "ok", "source": "", "message": ""},
        "cuda": {
            "value": {"torch_build": "13.0", "image_cuda_version": "13.2"},
            "outcome": "ok", "source": "", "message": "",
        },
    }  # fmt: skip
    made.update(other)
    return made


def test_an_exited_container(documents, verdicts):
    documents["engine"].update(plain_processes=[], containers=[container()])
    verdicts["engines"] = {}
    text, document = questions(documents, verdicts)
    text = " ".join(text.split())
    assert "vllm/vllm-openai:kimi-k3, image id sha256:e57867938722aaaa, no registry digest" in text
    assert "torch 2.13.0, vllm 0.27.1, torch's CUDA 13.0, image's CUDA 13.2" in text
    assert "1 variables, state exited with exit code 1, restarts 3" in text
    assert document["short"]["image"] == "sha256:e57867938722"


def test_two_engines_with_different_images_are_both_named(documents, verdicts):
    other = container(
        name="old",
        id="bbb",
        image={
            "name": "x",
            "id": "sha256:0123456789abcdef",
            "digests": ["x@sha256:fedcba9876543210"],
            "tag_moved": True,
        },
    )
    documents["engine"].update(plain_processes=[], containers=[container(), other])
    text, document = questions(documents, verdicts)
    assert document["short"]["image"] == "sha256:e57867938722 | sha256:fedcba987654"
    assert "the tag has moved since" in " ".join(text.split())


def test_text_is_at_most_100_columns_wide_where_words_allow(documents, verdicts):
    text, _document = questions(copy.deepcopy(documents), verdicts)
    assert max(len(line) for line in text.splitlines()) <= 100


def test_what_a_host_says_moves_no_cursor(documents, verdicts):
    evil = container(command=["vllm", "serve", "a\nb\x1b[2J\u202e\udcff"])
    documents["engine"].update(plain_processes=[], containers=[evil])
    text, _document = questions(documents, verdicts)
    assert r"vllm serve a\nb\x1b[2J\u202e\udcff" in text
    assert not set("\x1b\u202e\udcff") & set(text)


def test_a_python_without_an_engine_is_named_and_not_called_ok(documents, verdicts):
    versions = {"value": {}, "outcome": "ok", "source": "/usr/lib/python3/dist-packages", "message": ""}
    documents["engine"].update(plain_processes=[], containers=[container(versions=versions)])
    text, document = questions(documents, verdicts)
    why = "neither vllm, torch nor another library of an engine is in /usr/lib/python3/dist-packages"
    assert "build not measured: " + why in " ".join(text.split())
    assert any(missing.endswith(why) for missing in document["not_measured"])


def test_what_was_looked_for_and_not_found_stands_beside_the_engines(documents, verdicts):
    note = "containers are not known: denied, /run/docker.sock: permission denied"
    text, document = questions(documents, verdicts, (note,))
    assert "not measured: " + note in " ".join(text.split())
    assert document["not_measured"][0] == "engine: " + note
