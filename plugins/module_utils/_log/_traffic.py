# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start options and requests of a run: what was asked of the engine; private to the collection."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Dict, List, Mapping, Optional, Tuple

_MAX_REQUESTS = 64
_MAX_RECENT = 16

_OPTIONS = re.compile(r"non-default args: (\{.*\})\s*$", re.S)
_PAIR = re.compile(r"'(\w+)': ('[^']*'|-?[\d.]+|True|False|None)(?=[,}])")
_SECRET = re.compile(r"api_key|secret|password|(?:^|_)(?:hf_)?token$|ssl_keyfile_password", re.I)
_LOAD = re.compile(r"Running: (\d+) reqs, Waiting: (\d+) reqs")
_ACCESS = re.compile(
    r'"(?P<method>[A-Z]+) (?P<route>/[^ ?"]*)[^"]*" (?P<status>\d{3})'
    r'|path="?(?P<route2>/[^ ?"]*).{0,160}?status=(?P<status2>\d{3})'
)
_NEW_REQUEST = re.compile(r"req_id=([\w.-]+?),\s*prompt_token_ids_len=(\d+)")
_REQUEST_TOKENS = re.compile(r"req_id=([\w.-]+?),.*?max_tokens=(\d+)")
_CACHED_REQUEST = re.compile(r"req_ids=\[([^\]]{1,4000})\]")
_RECEIVED = re.compile(r"(?:Received|Added) request ([\w.-]+)")


@dataclass
class Traffic:
    """Requests as far as the log tells of them."""

    load: Optional[Tuple[int, int]] = None  # running, waiting
    routes: Dict[str, Dict[str, int]] = field(default_factory=dict)
    served_line: int = 0  # last sign that requests are answered
    requests: Dict[str, Dict[str, object]] = field(default_factory=dict)  # in flight, by the scheduler's dump
    recent: List[str] = field(default_factory=list)

    def serving(self, number: int, message: str) -> None:
        """A statistics or access line."""
        load = _LOAD.search(message)
        if load is not None:
            self.load = (int(load.group(1)), int(load.group(2)))
            if "generation throughput: 0.0 " not in message:
                self.served_line = number
            return
        access = _ACCESS.search(message)
        if access is None:
            return
        route, status = access["route"] or access["route2"], access["status"] or access["status2"]
        if access["method"] == "POST" and not status.startswith("5"):
            self.served_line = number
        if len(self.routes) < 64 or route in self.routes:
            counts = self.routes.setdefault(route, {})
            counts[status] = counts.get(status, 0) + 1

    def received(self, message: str) -> None:
        """A request came in; its end is not always logged, so it is recent, not known to be in flight."""
        match = _RECEIVED.match(message)
        if match is None:
            return
        self.recent = [*self.recent[1 - _MAX_RECENT :], match.group(1)]

    def dump(self, message: str) -> None:
        """Requests in flight, from the scheduler's own dump."""
        self.requests = {}
        for name, length in _NEW_REQUEST.findall(message)[:_MAX_REQUESTS]:
            self.requests[name] = {"id": name, "prompt_tokens": int(length)}
        for name, length in _REQUEST_TOKENS.findall(message[:20000])[:_MAX_REQUESTS]:
            if name in self.requests:
                self.requests[name]["max_tokens"] = int(length)
        cached = _CACHED_REQUEST.search(message)
        for name in re.findall(r"[\w.-]+", cached.group(1))[:_MAX_REQUESTS] if cached else []:
            self.requests.setdefault(name, {"id": name})


def options_of(message: str) -> Dict[str, object]:
    """Start options of the line that lists them; values whose name says that they are secret are left out."""
    match = _OPTIONS.match(message)
    if match is None or len(match.group(1)) > 32768:
        return {}
    try:
        value = ast.literal_eval(match.group(1))
    except (
        ValueError,
        SyntaxError,
        MemoryError,
        RecursionError,
    ):  # a value that is no literal, such as an enum
        value = {key: _literal(text) for key, text in _PAIR.findall(match.group(1))}
    if not isinstance(value, Mapping):
        return {}
    return {
        str(key): "<redacted>" if _SECRET.search(str(key)) else _plain(item) for key, item in value.items()
    }


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _plain(value: object) -> object:
    """A value that JSON can hold."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value)
