# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Engine is asked read-only questions, and its silence, refusals and nonsense have an outcome each."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import socket
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._docker import Engine, find_socket
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_facts import facts
from ansible_collections.gpufleet.baseline.plugins.module_utils._engine_probes import collect
from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import ProbeFailure

RECORDING = Path(__file__).resolve().parents[3] / "fixtures" / "containerd" / "metadata-1.6.20.db.gz"
ID = "0123456789abcdef" * 4
INSPECT = {
    "Id": ID,
    "Name": "/vllm",
    "Path": "vllm",
    "Args": ["serve", "M"],
    "Image": "sha256:i",
    "State": {"Status": "exited", "Running": False, "ExitCode": 1, "Pid": 0},
    "Config": {"Image": "vllm/vllm-openai:kimi-k3", "Env": ["PATH=/usr/local/bin"]},
    "HostConfig": {"NetworkMode": "host"},
    "RestartCount": 3,
}
ANSWERS: dict[str, Any] = {
    "/version": {
        "Version": "28.5.1",
        "ApiVersion": "1.51",
        "Components": [{"Name": "runc", "Version": "1.3.0"}],
    },
    "/v1.51/info": {"Driver": "overlay2", "DefaultRuntime": "runc", "Runtimes": {"runc": {"path": "runc"}}},
    "/v1.51/containers/json": [{"Id": ID, "Names": ["/vllm"]}],
    "/v1.51/images/json": [{"Id": "sha256:i", "RepoTags": ["a:b"], "Created": 1700000000}],
    f"/v1.51/containers/{ID}/json": INSPECT,
    "/v1.51/images/sha256:i/json": {
        "Id": "sha256:i",
        "RepoDigests": ["vllm/vllm-openai@sha256:d"],
        "Config": {},
    },
}


class FakeEngine:
    """An Engine on a socket of its own that answers from a table and remembers what it was asked."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.answers = dict(ANSWERS)
        self.asked: list[tuple[str, str]] = []
        self.wait = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                path = self.path.partition("?")[0]
                fake.asked.append((self.command, path))
                value = fake.answers.get(path, (404, {"message": "No such thing"}))
                if value == "hang":
                    fake.wait.wait()
                    self.close_connection = True
                    return
                status, body = value if isinstance(value, tuple) else (200, value)
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if path.endswith("/archive"):
                    size = {"size": len(content), "mode": 0o644, "linkTarget": ""}
                    self.send_header(
                        "X-Docker-Container-Path-Stat", base64.b64encode(json.dumps(size).encode()).decode()
                    )
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer

            def log_message(self, *_arguments: Any) -> None:
                pass

            def address_string(self) -> str:
                return "socket"

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(self.path, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.wait.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    fake = FakeEngine(tmp_path / "docker.sock")
    try:
        yield fake
    finally:
        fake.close()


def failure(*question: Any, timeout: int = 1, path: str) -> tuple[str, str]:
    with pytest.raises(ProbeFailure) as caught, Engine(path, timeout) as asked:
        getattr(asked, question[0])(*question[1:])
    return caught.value.reading.outcome, caught.value.reading.message


def test_questions_go_to_the_engines_own_api_version(engine: FakeEngine) -> None:
    with Engine(engine.path) as asked:
        assert asked.info()["Driver"] == "overlay2"
    assert engine.asked == [("GET", "/version"), ("GET", "/v1.51/info")]


def test_t15_only_read_only_questions_are_asked(engine: FakeEngine) -> None:
    collect({"docker_socket": engine.path})
    assert {verb for verb, _path in engine.asked} == {"GET"}
    ends = (
        "/version",
        "/info",
        "/containers/json",
        "/images/json",
        f"/{ID}/json",
        "/sha256:i/json",
        "/archive",
    )
    assert all(path.endswith(ends) for _verb, path in engine.asked)


def test_t4_a_hung_socket_costs_one_deadline_and_nothing_else(engine: FakeEngine) -> None:
    engine.answers["/version"] = "hang"
    found, answers = collect({"docker_socket": engine.path, "docker_deadline": 1})
    outcomes = {name: answer.outcome for name, answer in answers.items() if name.startswith("docker.")}
    assert outcomes.pop("docker.version") == "timeout"
    assert set(outcomes.values()) == {"skipped"}
    assert answers["engine.processes"].outcome == "ok"
    assert len(engine.asked) == 1
    document = facts(answers, found)
    assert document["engine"]["info"]["outcome"] == "skipped"
    assert document["containers"] == []


def test_t4_an_engine_that_falls_silent_is_not_asked_in_the_second_round(engine: FakeEngine) -> None:
    engine.answers["/v1.51/images/json"] = "hang"
    found, answers = collect({"docker_socket": engine.path, "docker_deadline": 1})
    assert answers["docker.images"].outcome == "timeout"
    again = answers[f"container.{ID[:12]}.again"]
    assert again.outcome == "skipped"
    assert "docker.images did not answer" in again.message
    (container,) = facts(answers, found)["containers"]
    assert container["restart_count"] == 3


def test_t11_a_container_whose_inspect_hangs_does_not_hide_the_others(engine: FakeEngine) -> None:
    other = "f" * 64
    engine.answers["/v1.51/containers/json"] = [{"Id": other}, {"Id": ID}]
    engine.answers[f"/v1.51/containers/{other}/json"] = (500, {"message": "broken"})
    found, answers = collect({"docker_socket": engine.path})
    assert [choice.identifier for choice in found.containers] == [ID]
    assert answers["docker.containers"].value["failed"] == {
        other: ["error", f"containers/{other}/json: status 500: broken"]
    }


def test_every_container_is_listed_also_one_that_is_not_described(engine: FakeEngine) -> None:
    other = {"Id": "f" * 64, "Names": ["/postgres"], "State": "exited"}
    engine.answers["/v1.51/containers/json"] = [{"Id": ID, "Names": ["/vllm"], "State": "running"}, other]
    found, answers = collect({"docker_socket": engine.path})
    assert facts(answers, found)["listed_containers"]["value"] == [
        {"id": ID, "name": "vllm", "state": "running"},
        {"id": "f" * 64, "name": "postgres", "state": "exited"},
    ]


def test_an_image_tells_its_cuda_before_a_container_is_made_and_nothing_else_of_its_variables(
    engine: FakeEngine,
) -> None:
    config = {
        "Env": ["CUDA_VERSION=13.0.2", "HF_TOKEN=hf_x"],
        "Labels": {"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"},
    }
    engine.answers["/v1.51/images/sha256:i/json"] = {
        "Id": "sha256:i",
        "Architecture": "arm64",
        "Config": config,
    }
    found, answers = collect({"docker_socket": engine.path})
    (image,) = facts(answers, found)["images"]["value"]
    assert image["inspected"] == {
        "architecture": "arm64",
        "variables": {"CUDA_VERSION": "13.0.2", "NVIDIA_REQUIRE_CUDA": "cuda>=13.0"},
    }
    assert b"13.0.2" not in answers["docker.images"].raw  # the record keeps the Engine's own list


def test_an_image_that_cannot_be_inspected_is_listed_all_the_same(engine: FakeEngine) -> None:
    engine.answers["/v1.51/images/sha256:i/json"] = (500, {"message": "broken"})
    found, answers = collect({"docker_socket": engine.path})
    (image,) = facts(answers, found)["images"]["value"]
    assert (image["tags"], image["inspected"]) == (["a:b"], None)


def test_a_container_of_the_table_is_described(engine: FakeEngine) -> None:
    found, answers = collect({"docker_socket": engine.path})
    (container,) = facts(answers, found)["containers"]
    assert container["restart_count"] == 3
    assert container["image"]["digests"] == ["vllm/vllm-openai@sha256:d"]
    assert container["engine_command"]["model"] == "M"
    assert container["versions"]["outcome"] == "absent"
    assert "no layers of container 0123456789ab" in container["cuda"]["message"]


def test_versions_of_an_exited_container_in_the_containerd_image_store(
    engine: FakeEngine, tmp_path: Path
) -> None:
    """The Engine tells no layers; the snapshotter's database, a recording, tells 8 over 2 over 1."""
    identifier = "c0ffee" + "0" * 58
    directory = tmp_path / "containerd" / "daemon" / "io.containerd.snapshotter.v1.overlayfs"
    packages = directory / "snapshots/2/fs/usr/local/lib/python3.12/dist-packages/vllm-0.27.1.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Name: vllm\nVersion: 0.27.1\n")
    for number in (1, 8):
        (directory / "snapshots" / str(number) / "fs").mkdir(parents=True)
    (directory / "metadata.db").write_bytes(gzip.decompress(RECORDING.read_bytes()))
    storage = {"RootFS": {"Snapshot": {"Name": "overlayfs"}}}
    engine.answers["/v1.51/info"] = {"DockerRootDir": str(tmp_path)}
    engine.answers["/v1.51/containers/json"] = [{"Id": identifier}]
    engine.answers[f"/v1.51/containers/{identifier}/json"] = {**INSPECT, "Id": identifier, "Storage": storage}
    found, answers = collect({"docker_socket": engine.path})
    (container,) = facts(answers, found)["containers"]
    assert container["versions"]["value"] == {"vllm": ["0.27.1"]}


def test_versions_through_the_engine_where_the_storage_tells_nothing(engine: FakeEngine) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        content = b"__version__ = version = '0.27.1'\n"
        entry = tarfile.TarInfo("_version.py")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    engine.answers[f"/v1.51/containers/{ID}/archive"] = buffer.getvalue()
    found, answers = collect({"docker_socket": engine.path})
    (container,) = facts(answers, found)["containers"]
    assert container["versions"]["value"] == {"vllm": ["0.27.1"], "torch": ["0.27.1"]}
    # Single files only: the paths that were asked for are those of two version files.
    assert container["distributions"]["outcome"] == "absent"


def test_podman_is_asked_for_the_command_that_made_a_container(engine: FakeEngine) -> None:
    engine.answers["/version"] = {
        **ANSWERS["/version"],
        "Components": [{"Name": "Podman Engine", "Version": "5.4"}],
    }
    made = {"Config": {"CreateCommand": ["podman", "run", "-d", "vllm/vllm-openai:kimi-k3", "M"]}}
    engine.answers[f"/v4.0.0/libpod/containers/{ID}/json"] = made
    found, answers = collect({"docker_socket": engine.path})
    (container,) = facts(answers, found)["containers"]
    assert container["run_command"]["text"].endswith("podman \\\n  run -d vllm/vllm-openai:kimi-k3 M\n")


@pytest.mark.parametrize(
    ("answer", "outcome", "words"),
    [
        ((404, {"message": "No such container"}), "absent", "status 404: No such container"),
        ((403, {"message": "authorization denied"}), "denied", "status 403"),
        ((500, b"not json"), "error", "status 500: not json"),
        (b"not json", "error", "info"),
        ("hang", "timeout", "no answer to info within 1 s"),
    ],
)
def test_every_bad_answer_has_an_outcome(engine: FakeEngine, answer: Any, outcome: str, words: str) -> None:
    engine.answers["/v1.51/info"] = answer
    found, message = failure("info", path=engine.path)
    assert found == outcome
    assert words in message


def test_a_socket_that_is_not_there_is_absent(tmp_path: Path) -> None:
    assert failure("info", path=str(tmp_path / "none"))[0] == "absent"
    assert failure("info", path="") == ("absent", "no socket of a Docker Engine on this host")


def test_a_socket_that_nobody_listens_on_is_absent(tmp_path: Path) -> None:
    path = str(tmp_path / "dead.sock")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)
    outcome, message = failure("info", path=path)
    assert (outcome, message) == ("absent", f"{path}: nobody listens there; the Engine is not running")


def test_a_large_file_is_refused_before_it_is_read(engine: FakeEngine) -> None:
    engine.answers[f"/v1.51/containers/{ID}/archive"] = b"x" * 4096
    outcome, message = failure("read_small_file", ID, "/weights", 1024, path=engine.path)
    assert outcome == "error"
    assert "4096 bytes, the limit is 1024" in message


def test_an_archive_that_is_none_is_an_error(engine: FakeEngine) -> None:
    engine.answers[f"/v1.51/containers/{ID}/archive"] = b"x" * 700
    assert failure("read_small_file", ID, "/f", 1024, path=engine.path)[0] == "error"


def test_a_log_is_streamed_raw(engine: FakeEngine) -> None:
    engine.answers[f"/v1.51/containers/{ID}/logs"] = b"\x01\x00\x00\x00\x00\x00\x00\x03abc"
    with Engine(engine.path) as asked, asked.log_stream(ID) as stream:
        assert stream.read() == b"\x01\x00\x00\x00\x00\x00\x00\x03abc"


def test_an_error_of_the_reader_of_a_log_stays_its_own(engine: FakeEngine) -> None:
    engine.answers[f"/v1.51/containers/{ID}/logs"] = b"x"
    with pytest.raises(OSError, match="disk full"), Engine(engine.path) as asked, asked.log_stream(ID):
        raise OSError("disk full")


def test_the_option_wins_over_the_variable(engine: FakeEngine) -> None:
    assert find_socket("unix:///x.sock", {"DOCKER_HOST": "unix:///y.sock"}).path == "/x.sock"
    chosen = find_socket("", {"DOCKER_HOST": f"unix://{engine.path}"})
    assert (chosen.path, chosen.chosen) == (engine.path, "DOCKER_HOST of the login")


def test_another_hosts_engine_is_named_and_not_followed() -> None:
    chosen = find_socket("", {"DOCKER_HOST": "ssh://other"})
    assert "other" not in chosen.path
    assert chosen.ignored == "DOCKER_HOST=ssh://other is not this host's engine"


def test_the_users_own_socket_is_found(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ansible_collections.gpufleet.baseline.plugins.module_utils._docker.ROOT_SOCKETS", ())
    assert find_socket("", {"XDG_RUNTIME_DIR": os.path.dirname(engine.path)}).path == engine.path
    nothing = find_socket("", {})
    assert (nothing.path, nothing.others) == ("", [])


def test_proxies_of_the_login_have_no_say(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with Engine(engine.path) as asked:
        assert asked.info()["Driver"] == "overlay2"
