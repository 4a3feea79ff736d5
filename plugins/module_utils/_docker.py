# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that talks to the Docker Engine, and only reads (private to the collection).

Paths and answers are those of the Engine API, https://docs.docker.com/reference/api/engine/. Podman answers
the same questions on its own socket. The library is the one named in doc_fragments/_docker_dep.py; it
travels with the task.
"""

from __future__ import annotations

import base64
import io
import json
import os
import stat
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Iterator, List, Mapping, Optional, Sequence, Type

from ansible_collections.gpufleet.baseline.plugins.module_utils._probe import (
    ABSENT,
    DENIED,
    ERROR,
    TIMEOUT,
    ProbeFailure,
    outcome_of,
)

ROOT_SOCKETS = ("/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock")
_NO_LIBRARY = (
    "expected the Python library docker, found: %s; call the module through its action plugin, which carries "
    "the library to the host, or install docker 7.0.0 or newer for this interpreter"
)
USER_SOCKETS = ("docker.sock", "podman/podman.sock")


@dataclass(frozen=True)
class EngineSocket:
    """The socket that is asked, why that one, and what else was seen; without any, ``path`` is empty."""

    path: str
    chosen: str
    others: List[str] = field(default_factory=list)
    ignored: str = ""


def find_socket(wanted: str, environment: Mapping[str, str]) -> EngineSocket:
    """Choose the Engine's socket: the option, then the login's DOCKER_HOST, then the usual places.

    Only a Unix socket is this host's engine. A DOCKER_HOST of tcp:// or ssh:// leads to another host, whose
    containers are not the state of this one; it is named and not followed.
    """
    if wanted:
        return EngineSocket(wanted[len("unix://") :] if wanted.startswith("unix://") else wanted, "option")
    host = environment.get("DOCKER_HOST", "")
    ignored = (
        "" if not host or host.startswith("unix://") else "DOCKER_HOST=%s is not this host's engine" % host
    )
    usual = list(ROOT_SOCKETS)
    if environment.get("XDG_RUNTIME_DIR"):
        usual += [os.path.join(environment["XDG_RUNTIME_DIR"], name) for name in USER_SOCKETS]
    found = []
    for path in usual:
        real = os.path.realpath(path)
        if real not in found and _is_socket(real):
            found.append(real)
    if host.startswith("unix://"):
        path = host[len("unix://") :]
        return EngineSocket(path, "DOCKER_HOST of the login", [other for other in found if other != path])
    if found:
        return EngineSocket(found[0], "first of the usual places", found[1:], ignored)
    return EngineSocket("", "none of %s is there" % ", ".join(usual), [], ignored)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def preload() -> None:
    """Import the library in the parent of the probes, so that it is loaded once and not by each of them."""
    try:
        import docker.api  # noqa: F401
    except ImportError:
        return  # each question to the Engine then says so


class Engine:
    """A connection to the Engine, for one probe; every call has the same limit on silence, in seconds."""

    def __init__(self, socket: str, timeout: int = 10) -> None:
        self.socket = socket
        self._timeout = timeout
        try:
            import docker
        except ImportError as error:
            raise ProbeFailure(ERROR, _NO_LIBRARY % error) from error
        if not socket:
            raise ProbeFailure(ABSENT, "no socket of a Docker Engine on this host")
        try:
            # A stat first tells a missing socket from a refused one; the library has one error for both.
            os.stat(socket)
        except OSError as error:
            raise ProbeFailure(outcome_of(error), "%s: %s" % (socket, error.strerror), socket) from error
        with self._errors("version"):
            # Every URL below carries the Engine's own API version, so the library's version stays unused.
            self._client = docker.APIClient(base_url="unix://" + socket, version="1.24", timeout=timeout)
            # Neither proxies nor .netrc of the login have a say on a local socket.
            self._client.trust_env = False
            self.version: Mapping[str, Any] = self._client.version(api_version=False)
            self.api_version = str(self.version.get("ApiVersion", ""))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._client.close()

    def info(self) -> Any:
        """GET /info."""
        return self._json("info")

    def containers(self) -> Any:
        """GET /containers/json, in every state."""
        return self._json("containers/json", {"all": "1"})

    def images(self) -> Any:
        """GET /images/json."""
        return self._json("images/json")

    def container(self, identifier: str) -> Any:
        """GET /containers/ID/json."""
        return self._json("containers/%s/json" % identifier)

    def image(self, identifier: str) -> Any:
        """GET /images/ID/json."""
        return self._json("images/%s/json" % identifier)

    def created_by(self, identifier: str) -> Any:
        """The command that made a container, which only Podman keeps, in its own inspect."""
        with self._errors("containers/%s/json of Podman's own" % identifier):
            url = "%s/v4.0.0/libpod/containers/%s/json" % (self._client.base_url, identifier)
            response = self._client.get(url, timeout=self._timeout)
            response.raise_for_status()
            return (response.json().get("Config") or {}).get("CreateCommand") or []

    def read_small_file(self, identifier: str, path: str, limit: int) -> bytes:
        """One regular file out of a container in any state, by GET /containers/ID/archive."""
        with self._errors("%s of container %s" % (path, identifier[:12])):
            response = self._get("containers/%s/archive" % identifier, {"path": path}, stream=True)
            try:
                # The size stands in a header (base64 of JSON), so a directory or a large file is never read.
                status = json.loads(
                    base64.b64decode(response.headers.get("X-Docker-Container-Path-Stat", "e30="))
                )
                if status.get("linkTarget"):
                    raise ProbeFailure(ERROR, "%s: a link to %s" % (path, status["linkTarget"]))
                if int(status.get("size", 0)) > limit:
                    raise ProbeFailure(ERROR, "%s: %s bytes, the limit is %d" % (path, status["size"], limit))
                content = response.raw.read(limit + 64 * 1024)
            finally:
                response.close()
        return _only_file(content, path)

    @contextmanager
    def log_stream(self, identifier: str, since: int = 0) -> Iterator[BinaryIO]:
        """The raw log of a container as the Engine sends it, with time stamps.

        Without a terminal the stream is multiplexed: 8 bytes of header, then the payload
        (https://docs.docker.com/reference/api/engine/version/v1.47/#tag/Container/operation/ContainerAttach).
        """
        query = {"stdout": "1", "stderr": "1", "timestamps": "1", "since": str(since)}
        with self._errors("log of container %s" % identifier[:12]):
            response = self._get("containers/%s/logs" % identifier, query, stream=True)
        try:
            yield response.raw
        finally:
            response.close()

    def _json(self, path: str, query: Optional[Mapping[str, str]] = None) -> Any:
        with self._errors(path):
            return self._get(path, query).json()

    def _get(self, path: str, query: Optional[Mapping[str, str]] = None, stream: bool = False) -> Any:
        url = "%s/v%s/%s" % (self._client.base_url, self.api_version, path)
        response = self._client.get(url, params=query, timeout=self._timeout, stream=stream)
        response.raise_for_status()
        return response

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn the library's errors into outcomes; the order matters, as they inherit from one another."""
        import docker.errors
        import requests

        try:
            yield
        except requests.exceptions.Timeout as error:
            raise ProbeFailure(
                TIMEOUT, "%s: no answer to %s within %d s" % (self.socket, what, self._timeout)
            ) from error
        except (requests.exceptions.HTTPError, docker.errors.APIError) as error:
            raise ProbeFailure(*_http_outcome(error, what)) from error
        except (
            requests.exceptions.RequestException,
            docker.errors.DockerException,
            OSError,
            ValueError,
        ) as error:
            raise ProbeFailure(*self._connection_outcome(error, what)) from error

    def _connection_outcome(self, error: Exception, what: str) -> Sequence[str]:
        text = str(error)
        if "Permission denied" in text:
            return (
                DENIED,
                "%s: permission denied; use become or a member of the socket's group" % self.socket,
                self.socket,
            )
        if "timed out" in text:
            return (
                TIMEOUT,
                "%s: no answer to %s within %d s" % (self.socket, what, self._timeout),
                self.socket,
            )
        if "Connection refused" in text or "No such file" in text:
            return ABSENT, "%s: nobody listens there; the Engine is not running" % self.socket, self.socket
        return (
            ERROR,
            "%s: %s: %s" % (self.socket, what, text.splitlines()[0] if text else type(error).__name__),
            self.socket,
        )


def _http_outcome(error: Any, what: str) -> Sequence[str]:
    response = error.response
    status = 0 if response is None else int(response.status_code)
    detail = ""
    if response is not None:
        try:
            detail = str(response.json().get("message", ""))
        except ValueError:
            detail = response.text[:200]
    message = "%s: status %d%s" % (what, status, ": " + detail.strip() if detail else "")
    if status == 404:
        return ABSENT, message
    if status in (401, 403):
        return DENIED, message
    return ERROR, message


def _only_file(archive: bytes, path: str) -> bytes:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            member = opened.next()
            stream = opened.extractfile(member) if member is not None and member.isreg() else None
            if stream is None:
                raise ProbeFailure(ABSENT, "%s: not a regular file" % path)
            return stream.read()
    except tarfile.TarError as error:
        raise ProbeFailure(ERROR, "%s: the Engine's archive cannot be read: %s" % (path, error)) from error
