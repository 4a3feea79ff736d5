# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe is read with time, sha256 and commit; an unreachable one is told from a wrong one."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils import _recipe_source as source

COMMIT = "8959cf64189c71d36e11c6a30335f923f261b1f7"


class Site(BaseHTTPRequestHandler):
    """Answers by path: /STATUS/... with that status, a long body below /long."""

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1]) if self.path.split("/")[1].isdigit() else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"x" * (source.LIMIT_BYTES + 1) if self.path.startswith("/long") else b"model: {}\n")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    server = HTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_url(site: str) -> None:
    read = source.read(f"{site}/repository/{COMMIT}/models/a.yaml?token=secret")
    assert read.content == b"model: {}\n"
    assert read.commit == COMMIT
    assert read.as_dict()["location"] == f"{site}/repository/{COMMIT}/models/a.yaml"
    assert "secret" not in str(read.as_dict())


def test_url_without_commit_says_so(site: str) -> None:
    read = source.read(f"{site}/main/a.yaml")
    assert (read.commit, bool(read.commit_note)) == ("", True)


def test_url_with_user_and_password_is_shown_without() -> None:
    assert source.shown("https://user:word@example.org/a.json?k=v#f") == "https://example.org/a.json"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_site_in_trouble_is_unreachable(site: str, status: int) -> None:
    with pytest.raises(source.RecipeUnreachable, match=f"status {status}"):
        source.read(f"{site}/{status}/a.json")


@pytest.mark.parametrize("status", [401, 404])
def test_t28_a_wrong_url_is_an_error_and_not_offline(site: str, status: int) -> None:
    with pytest.raises(BaselineError, match=f"status {status}") as caught:
        source.read(f"{site}/{status}/a.json")
    assert not isinstance(caught.value, source.RecipeUnreachable)


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(source.RecipeUnreachable):
        source.read("http://127.0.0.1:1/a.json")


def test_too_long_is_an_error(site: str) -> None:
    with pytest.raises(BaselineError, match="at most 8 MiB"):
        source.read(f"{site}/long")


def test_file_in_a_checkout_has_its_commit(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: {}\n")

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("add", "a.yaml")
    git("commit", "-q", "-m", "a")
    read = source.read(str(path))
    assert (read.commit, read.commit_note) == (git("rev-parse", "HEAD"), "")
    assert source.read(f"file://{path}").sha256 == read.sha256
    path.write_text("model: {a: 1}\n")
    assert source.read(str(path)).commit_note == "the file differs from this commit"


def test_file_outside_of_a_checkout_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: {}\n")
    read = source.read(str(path))
    assert read.commit == ""
    assert "not in a git checkout" in read.commit_note
