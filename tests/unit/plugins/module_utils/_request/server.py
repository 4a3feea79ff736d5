# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server on loopback that answers as a test wants."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[BaseHTTPRequestHandler, bytes], None]


class Played:
    """What the server plays: POST goes to ``reply``; finished requests are counted in /metrics."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.finished = 0
        self.counted = True
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""
        self.lock = threading.Lock()


def whole(document: Any, status: int = 200, count: int = 1) -> Reply:
    """An answer in one piece, after which the engine has finished ``count`` requests."""

    def reply(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        played: Played = handler.server.played  # type: ignore[attr-defined]
        with played.lock:
            played.finished += count
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return reply


def chat(content: Any = "Mars.", tokens: int = 3, **message: Any) -> dict[str, Any]:
    """A chat completion."""
    return {
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": tokens,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        played: Played = self.server.played  # type: ignore[attr-defined]
        if self.path == "/metrics" and played.counted:
            text = 'vllm:request_success_total{finished_reason="stop"} %d.0\n' % played.finished
            content, status = text.encode(), 200
        elif self.path == "/v1/models":
            content, status = b'{"data": [{"id": "served/model"}]}', 200
        else:
            content, status = b"", 200 if self.path == "/health" else 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        played: Played = self.server.played  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with played.lock:
            played.seen.append(
                (self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
        played.reply(self, body)


@contextmanager
def serving(reply: Reply) -> Iterator[Played]:
    """The server, while the block runs."""
    played = Played(reply)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.played = played  # type: ignore[attr-defined]
    played.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield played
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
