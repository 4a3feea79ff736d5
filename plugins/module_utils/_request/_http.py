# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request over one connection, with one time limit and no second try (private to the collection).

Neither proxies nor .netrc of the login have a say, and redirects are not followed: what answers is what was asked.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional
from urllib.parse import urlsplit

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.module_utils._request import _answer

WHOLE = "whole"
LIMIT = 16 * 1024 * 1024
_BLOCK = 64 * 1024


@dataclass
class Exchange:
    """What came back. ``outcome`` is ``whole``, or how the connection failed."""

    outcome: str
    message: str = ""
    status: Optional[int] = None
    headers: Dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: bool = False
    seconds: float = 0.0
    first_byte_seconds: Optional[float] = None


class _OutOfTime(Exception):
    """The whole time is used up."""


class _Clock:
    """What is left of one time limit, as the limit of the next wait on a socket."""

    def __init__(self, seconds: float) -> None:
        self.began = time.monotonic()
        self._end = self.began + seconds

    def left(self) -> float:
        """Seconds until the end."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise _OutOfTime
        return left

    def passed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began


def check_url(url: str) -> None:
    """Raise BaselineError for what is no base URL of a server."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    if not right or parts.query or parts.fragment or parts.username:
        raise BaselineError(
            "url: expected a server as http://HOST:PORT, found %r; give it without user, query and fragment"
            % url
        )


def exchange(
    url: str,
    route: str,
    body: Optional[bytes] = None,
    headers: Optional[Mapping[str, str]] = None,
    timeout: float = 60.0,
    verify: bool = True,
) -> Exchange:
    """POST the body, or GET without one, and read the answer to its end."""
    clock = _Clock(timeout)
    connection = _connection(url, timeout, verify)
    path = (urlsplit(url).path.rstrip("/") + route) or "/"
    result = Exchange(WHOLE)
    connected = False
    try:
        connection.connect()
        connected = True
        _wait_at_most(connection, clock)
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        _wait_at_most(connection, clock)
        response = connection.getresponse()
        result.first_byte_seconds = clock.passed()
        result.status = response.status
        result.headers = {name.lower(): value for name, value in response.getheaders()}
        _read(connection, response, clock, result)
    except (_OutOfTime, socket.timeout, TimeoutError):
        where = "answer" if connected else "connection"
        result.outcome, result.message = _answer.TIMEOUT, "no whole %s within %g s" % (where, timeout)
    except (OSError, http.client.HTTPException) as error:
        result.outcome = _answer.CONNECTION_LOST if connected else _answer.NOT_CONNECTED
        result.message = _words(error)
    finally:
        connection.close()
        result.seconds = clock.passed()
    return result


def _connection(url: str, timeout: float, verify: bool) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=context)


def _wait_at_most(connection: http.client.HTTPConnection, clock: _Clock) -> None:
    # After a response without keep-alive the connection lets go of its socket.
    if connection.sock is not None:
        connection.sock.settimeout(clock.left())


def _read(
    connection: http.client.HTTPConnection,
    response: http.client.HTTPResponse,
    clock: _Clock,
    result: Exchange,
) -> None:
    body = bytearray()
    try:
        while True:
            clock.left()
            _wait_at_most(connection, clock)
            block = response.read1(_BLOCK)
            if not block:
                break
            body += block[: LIMIT - len(body)]
            if len(body) >= LIMIT:
                result.cut = True
                break
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
    finally:
        result.body = bytes(body)


def _words(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ended %s bytes before the end of the answer" % error.expected
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text or type(error).__name__
