#!/usr/bin/python3
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the vLLM server, for everything that a machine without GPUs cannot show.

`vllm serve MODEL --flags` replays a recorded start (files in `recordings/`, taken from real logs) with its
timing, then answers the OpenAI endpoints, `/health` and `/metrics` under vLLM's own names. One name picks
what happens: LAB_SCENARIO (README.md beside this file lists them all). It is one file, for Python 3.9 and
newer and the standard library only, because it is copied into an image that holds nothing else; that is why
it is longer than its neighbours. It invents no log line: process ids, times, port, model, versions and the
launch's own flags are put into the recorded ones, and nothing else is changed.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, List, Match, Optional, Tuple

HERE = Path(os.path.realpath(__file__)).parent
READY = b"Application startup complete."
STALL = b"No available shared memory broadcast block"
SERVING = re.compile(rb'INFO:     [\d.]+:\d+ - "|Avg prompt throughput|' + STALL)
STAMP = re.compile(
    rb"(?:(?<=INFO )|(?<=DEBUG )|(?<=ERROR )|(?<=WARNING ))\d\d-\d\d \d\d:\d\d:\d\d(?= \[)"
    rb"|\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{3})?"
    rb"|(?<=\[[WEI])\d{3,4} \d\d:\d\d:\d\d\.\d{9}"
)
PROCESS = re.compile(rb"\(([A-Z]\w*(?:[ -]\w+)?) pid=(\d+)\)")
PID = re.compile(rb'(pid[= ]|process \[|"process": |^[\w.-]+:(?=\d+:\d+ \[)|^[\w.-]+:\d+:(?=\d+ \[))(\d+)')
MAIN_PROCESSES = (b"APIServer", b"MainProcess")

# Where a healthy start stops for good, by the last line it prints.
HANGS = {
    "hang-in-container": b"",
    "hang-in-model-config": b"non-default args",
    "hang-in-devices": b"Initializing a V1 LLM engine",
    "hang-in-weights": b"Completed | 0/",
    "hang-in-engine": b"Model loading took",
    "hang-in-api": b"Supported tasks",
}
ANSWERS = {"wrong-content": "repeated", "empty-content": "empty", "never-answers": "never"}
TEXT = "The capital of France is Paris. It lies on the Seine and has been the seat of government for long."


def setting(name: str, default: str) -> str:
    return os.environ.get("LAB_" + name, default)


# --- the launch ---------------------------------------------------------------------------------------------


class Launch:
    """What `vllm serve` was asked for: the model, and the flags under vLLM's own names."""

    def __init__(self, argv: List[str]) -> None:
        self.model = ""
        self.flags: Dict[str, Any] = {}
        self.unknown: List[str] = []
        words = list(argv)
        while words:
            word = words.pop(0)
            if word.startswith("-"):
                self.read_flag(word, words)
            elif self.model:
                self.unknown.append(word)
            else:
                self.model = word
        self.model = str(self.flags.get("model", self.model))

    def read_flag(self, word: str, words: List[str]) -> None:
        """Take a flag, and its values from the words behind it, as vLLM's own list of flags says."""
        name, equals, value = word.partition("=")
        first, dot, rest = name.partition(".")
        first = first.replace("_", "-") if first.startswith("--") else first
        flag, kind = FLAGS.get(first, ("", ""))
        if not flag:
            self.unknown.append(word)
            return
        values = [value] if equals else []
        while not equals and words and not re.match(r"--?[a-zA-Z]", words[0]) and (kind or dot):
            values.append(words.pop(0))
            if kind != "VALUES":
                break
        key = flag.lstrip("-").replace("-", "_") + dot + rest
        typed_values = [typed(one) for one in values]
        switched = not first.startswith("--no-")
        self.flags[key] = typed_values if kind == "VALUES" else (typed_values or [switched])[0]

    def number(self, name: str, default: int) -> int:
        """A flag's number; what is none (`--max-model-len auto`) counts as not given."""
        value = self.flags.get(name)
        return value if isinstance(value, int) else default

    @property
    def served(self) -> str:
        return str(self.flags.get("served_model_name", [self.model])[0])

    @property
    def nodes(self) -> int:
        return self.number("nnodes", 1)

    @property
    def rank(self) -> int:
        return self.number("node_rank", 0)

    @property
    def world(self) -> int:
        return self.number("tensor_parallel_size", 1) * self.number("pipeline_parallel_size", 1)

    @property
    def fraction(self) -> float:
        return float(self.flags.get("gpu_memory_utilization", 0.92))

    @property
    def master(self) -> Tuple[str, int]:
        return str(self.flags.get("master_addr", "127.0.0.1")), self.number("master_port", 29501)

    def has(self, condition: str) -> bool:
        """`--flag`, `--flag=value`, `VARIABLE` or `VARIABLE=value` holds for this launch."""
        name, equals, wanted = condition.partition("=")
        found = os.environ.get(name)
        if name.startswith("-"):
            value = self.flags.get(name.lstrip("-").replace("-", "_"))
            found = None if value in (None, False) else str(value)
        return found is not None and (not equals or found == wanted)

    def scenario(self) -> str:
        rules = [rule.strip() for rule in setting("SCENARIO_IF", "").split(";")]
        for condition, _space, name in (rule.rpartition(" ") for rule in rules if rule):
            if self.has(condition):
                return name
        return setting("SCENARIO", "healthy")


def flags_of_vllm() -> Dict[str, Tuple[str, str]]:
    """Each flag and short form: its full name, and VALUE, VALUES or nothing for a switch."""
    flags: Dict[str, Tuple[str, str]] = {}
    for line in (HERE / "recordings" / "flags.txt").read_text(encoding="utf-8").splitlines():
        words = [word for word in line.split() if word.startswith("-")]
        kind = line.split()[-1] if line.split()[-1].startswith("VALUE") else ""
        flags.update((word, (words[0], kind)) for word in words)
    return flags


FLAGS = flags_of_vllm()


@functools.cache
def gpus() -> Optional[List[Tuple[int, int]]]:
    """Total and free MiB of each GPU that this container sees, or None where there is no driver to ask."""
    query = ["nvidia-smi", "--query-gpu=memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, timeout=5, check=False).stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return [] if setting("NEEDS_GPU", "") else None
    return [(int(total), int(free)) for total, free in re.findall(r"^(\d+), (\d+)$", said, re.M)]


def occupied(launch: Launch) -> Optional[Tuple[int, int, int]]:
    """Number, total and free MiB of the first GPU of this launch that has less free than it may use."""
    here = (gpus() or [])[: max(launch.world // launch.nodes, 1)]
    short = ((n, *memory) for n, memory in enumerate(here) if memory[1] < memory[0] * launch.fraction)
    return next(short, None)


def typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# --- recordings ---------------------------------------------------------------------------------------------


class Recording:
    """A log below a few header lines (`#| key: value`), cut where the server became ready."""

    def __init__(self, path: Path) -> None:
        # Only a line feed ends a line: progress bars carry carriage returns inside one.
        lines = [line + b"\n" for line in path.read_bytes().split(b"\n")]
        if lines[-1] == b"\n":
            lines.pop()
        self.header: Dict[str, str] = {}
        while lines and lines[0].startswith(b"#| "):
            key, _colon, value = lines.pop(0)[3:].decode().partition(":")
            self.header[key] = value.strip()
        # A rank without an endpoint is never "ready": its header names the first line that came later.
        mark = self.header.get("after", "").encode()
        wanted = (number for number, line in enumerate(lines) if (mark in line if mark else READY in line))
        found = next(wanted, len(lines))
        cut = 0 if self.header.get("part") == "tail" else min(found + (not mark), len(lines))
        self.start, rest = lines[:cut], lines[cut:]
        self.serving = [line for line in rest if SERVING.search(line)]
        self.after = [line for line in rest if line not in self.serving]
        self.end = self.header.get("end", "serve")
        self.serves = self.end == "serve" or found < len(lines) or cut == 0


def recording(name: str, launch: Launch, family: str = "") -> Recording:
    """The recording that fits this launch's shape: of its node, of more than one GPU, or the plain one.

    A family (`-v032`) is a set of recordings of one version, so that an end has the form of its start.
    """
    folder = HERE / "recordings"
    names = [name + family, name] if family else [name]
    if launch.nodes > 1 and launch.rank:
        wanted = [one + ".node1" for one in [*names, "healthy" + family, "healthy"]]
    elif launch.nodes > 1:
        wanted = [one + ".node0" for one in names] + names
    elif launch.world > 1:
        wanted = [one + size for one in names for size in ("-tp2", "")]
    else:
        wanted = names
    for candidate in wanted:
        if (folder / (candidate + ".log")).is_file():
            return Recording(folder / (candidate + ".log"))
    known = ", ".join(sorted(path.stem for path in folder.glob("*.log")))
    sys.exit("stand-in engine: no recording for scenario %r; there are: %s" % (name, known))


def widen(lines: List[bytes], launch: Launch) -> List[bytes]:
    """The recorded ranks of a node as this launch numbers them; the last one stands for all further ones."""
    recorded: Dict[bytes, Tuple[int, int]] = {}
    for line in lines:
        found = re.search(rb"pid=(\d+)\) .*world_size=\d+ rank=(\d+) local_rank=(\d+)", line)
        if found:
            recorded[found.group(1)] = (int(found.group(2)), int(found.group(3)))
    here = launch.world // launch.nodes
    if not recorded or launch.world < 2:
        return lines
    last = max(recorded, key=lambda pid: recorded[pid][1])
    out: List[bytes] = []
    for line in lines:
        line = re.sub(rb"(?<!local_)(world[_ ]size[= ])\d+", rb"\g<1>%d" % launch.world, line)
        line = re.sub(rb"(local_world_size=)\d+", rb"\g<1>%d" % here, line)
        found = re.match(rb"\(\S+ pid=(\d+)\)", line)
        pid = found.group(1) if found else b""
        if pid not in recorded:
            out.append(line)
            continue
        rank, local = recorded[pid]
        for seat in range(local, here) if pid == last else [local]:
            copy = line.replace(
                b"pid=" + pid, b"pid=%s" % (pid if seat == local else b"%s%03d" % (pid, seat))
            )
            number = b"%d" % (launch.rank * here + seat)
            copy = re.sub(rb"(?<!local_)(rank[= ]|_TP|TP rank )%d\b" % rank, rb"\g<1>" + number, copy)
            out.append(re.sub(rb"(local_rank=)%d\b" % local, rb"\g<1>%d" % seat, copy))
    return out


# --- printing -----------------------------------------------------------------------------------------------


class Log:
    """Prints recorded lines at their recorded distance in time, with what must differ put in."""

    CONFIG = ["tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enforce_eager"]
    CONFIG += ["kv_cache_dtype", "enable_prefix_caching", "load_format", "quantization", "served_model_name"]

    def __init__(self, launch: Launch, parts: List[Recording]) -> None:
        self.launch = launch
        self.factor = float(setting("TIME_FACTOR", "1"))
        self.lock = threading.Lock()
        self.children: Dict[bytes, Child] = {}
        self.names: Dict[bytes, bytes] = {}
        self.swaps: List[Tuple[bytes, bytes]] = []
        for part in parts:
            self.learn(part)
        wanted = {part.header["nccl-debug"] for part in parts if "nccl-debug" in part.header}
        self.quiet = bool(wanted) and os.environ.get("NCCL_DEBUG", "").upper() not in wanted | {"TRACE"}

    def learn(self, part: Recording) -> None:
        """What is to be replaced in a recording, and which of its processes run here already."""
        self.swaps += swaps(part.header, self.launch)
        lines = part.start + part.serving + part.after
        for name, pid in (found for line in lines for found in PROCESS.findall(line)):
            same = [known for known, title in self.names.items() if title == name and known in self.children]
            if same and pid not in self.names:
                self.children[pid] = self.children[same[0]]
            self.names[pid] = name

    def replay(self, lines: List[bytes]) -> None:
        began, first = time.monotonic(), None
        for line in lines:
            stamp = STAMP.search(line)
            if stamp:
                at = recorded_seconds(stamp.group())
                first = at if first is None else first
                pause = (at - first) * self.factor - (time.monotonic() - began)
                if pause > 0:
                    time.sleep(pause)
            self.write(line)

    def write(self, line: bytes) -> None:
        if self.quiet and b" NCCL INFO " in line:
            return
        stream = sys.stdout.buffer if STAMP.search(line) or b" NCCL " in line else sys.stderr.buffer
        line = self.rewrite(line)
        with self.lock:
            stream.write(line)
            stream.flush()

    def rewrite(self, line: bytes) -> bytes:
        for old, new in self.swaps:
            line = line.replace(old, new)
        flags = self.launch.flags
        if b"non-default args: {" in line:
            given = {"model_tag": self.launch.model, "model": self.launch.model, **flags}
            line = line[: line.index(b"args: {")] + b"args: " + repr(given).encode() + line[-2:].lstrip(b"}")
        if isinstance(flags.get("max_model_len"), int):
            line = re.sub(rb"(max model len |max_seq_len=)\d+", rb"\g<1>%d" % flags["max_model_len"], line)
        if b"LLM engine (v" in line:
            for name in [name for name in self.CONFIG if name in flags]:
                line = re.sub(rb"\b%s=[^,]*" % name.encode(), f"{name}={flags[name]}".encode(), line, count=1)
        now = datetime.now()
        line = PID.sub(lambda found: found.group(1) + str(self.pid(found.group(2))).encode(), line)
        return STAMP.sub(lambda found: stamp_like(found, now), line)

    def pid(self, recorded: bytes) -> int:
        """The process that plays a recorded one; it is started when the log first names it."""
        name = self.names.get(recorded)
        if name is None:
            return int(recorded)
        if name in MAIN_PROCESSES:
            return os.getpid()
        if recorded not in self.children:
            self.children[recorded] = Child(name.decode(), self.launch)
        return self.children[recorded].process.pid

    def load_slowly(self, line: bytes, shards: int) -> None:
        """The recorded progress line of a checkpoint for each of so many shards, two seconds apart."""
        start = line[: line.index(b":") + 1]
        for done in range(shards + 1):
            clocks = tuple(part for left in (done, shards - done) for part in divmod(left * 2, 60))
            progress = " %3d%% Completed | %d/%d [%02d:%02d<%02d:%02d,  2.00s/it]\n"
            self.write(start + (progress % (100 * done // shards, done, shards, *clocks)).encode())
            time.sleep(2 * self.factor if done < shards else 0)

    def fill(self, lines: List[bytes], wanted: int) -> None:
        """The same recorded lines again and again, in blocks, until so many bytes are written."""
        while wanted > 0:
            block = b"".join(self.rewrite(line) for line in lines) * 200
            with self.lock:
                sys.stdout.buffer.write(block)
                sys.stdout.buffer.flush()
            wanted -= len(block)


def swaps(header: Dict[str, str], launch: Launch) -> List[Tuple[bytes, bytes]]:
    """What stands in a recording and what stands there in this run."""
    host, port = launch.master
    actual = {"model": launch.model, "port": "http://0.0.0.0:%d" % launch.number("port", 8000)}
    actual.update(head="%s:%d" % (host, port), host=socket.gethostname())
    actual.update(version=installed("vllm"), nccl=installed("nvidia_nccl_cu13"))
    actual.update(flag=" ".join(launch.unknown))
    if gpus() is not None:
        actual["world"] = "World size (%d)" % launch.world
        actual["gpus"] = "available GPUs (%d)" % len(gpus() or [])
    short = occupied(launch)
    if short:
        number, total, free = short
        actual["free"] = "device cuda:%d (%.2f/%.1f GiB)" % (number, free / 1024, total / 1024)
        actual["wanted"] = "utilization (%s, %.2f GiB)" % (launch.fraction, total / 1024 * launch.fraction)
    recorded = dict(header, port="http://0.0.0.0:" + header.get("port", "-"))
    pairs = [(recorded.get(key, ""), new) for key, new in actual.items()]
    return [(old.encode(), new.encode()) for old, new in pairs if old and new and old != new]


def installed(package: str) -> str:
    """The version that the image's *.dist-info names, so that log, image and API agree."""
    found = sorted(Path("/usr/local/lib").glob("python3*/dist-packages/%s-*.dist-info" % package))
    return found[0].name[len(package) + 1 : -len(".dist-info")] if found else ""


def recorded_seconds(stamp: bytes) -> float:
    text = stamp.decode().replace(",", ".")
    if re.match(r"\d{3,4} ", text):  # c10d: the month without a leading zero, a day of two digits
        date, clock = text.split(" ")
        text = "%s-%s %s" % (date[:-2], date[-2:], clock)
    date, clock = text.split(" ")
    month, day = (int(part) for part in date.split("-")[-2:])
    hours, minutes, seconds = clock.split(":")
    days = datetime(2026, month, day).timetuple().tm_yday
    return days * 86400.0 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def stamp_like(found: Match[bytes], now: datetime) -> bytes:
    text = found.group()
    if text[4:5] == b"-":
        millis = text[19:20].decode() + "%03d" % (now.microsecond // 1000)
        shape = "%Y-%m-%d %H:%M:%S" + (millis if text[19:] else "")
    elif text[2:3] == b"-":
        shape = "%m-%d %H:%M:%S"
    else:
        shape = "%d%%d %%H:%%M:%%S.%06d000" % (now.month, now.microsecond)
    return now.strftime(shape).encode()


class Child:
    """A process with vLLM's title that ends with its parent; where the driver is simulated it holds memory."""

    # No argument but the title, as setproctitle leaves the command line; so this comes on standard input.
    PROGRAM = """
import ctypes, os
open("/proc/self/comm", "w").write({title!r}[:15])
if {seat} >= 0 and os.path.exists("/etc/simulated-gpu.visible"):
    cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    device, free, total = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), {seat})
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    # The context itself holds 500 MiB.
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(total.value * {fraction}) - (500 << 20)))
os.read({life}, 1)
"""

    def __init__(self, name: str, launch: Launch) -> None:
        self.name = name
        rank = re.search(r"_TP(\d+)$", name)
        seat = int(rank.group(1)) % max(launch.world // launch.nodes, 1) if rank else -1
        if launch.world == 1:  # then the engine core is the worker
            seat = 0 if name == "EngineCore" else -1
        title = "VLLM::" + name
        life, self.held = os.pipe()
        self.process = subprocess.Popen(
            [title], executable=sys.executable, stdin=subprocess.PIPE, pass_fds=(life,)
        )
        os.close(life)
        program = self.PROGRAM.format(title=title, seat=seat, fraction=launch.fraction, life=life)
        assert self.process.stdin is not None
        self.process.stdin.write(program.encode())
        self.process.stdin.close()

    def watch(self, engine: Engine) -> None:
        self.process.wait()
        engine.die(
            "runtime-worker-killed" if self.name.startswith("Worker") else "runtime-engine-core-killed"
        )


# --- the ranks of one launch --------------------------------------------------------------------------------


class Group:
    """The connections between the head and the other nodes, made where the recorded ranks meet."""

    def __init__(self, launch: Launch, factor: float, notices: bool) -> None:
        self.launch = launch
        self.factor = factor
        self.notices = notices
        self.peers: List[socket.socket] = []

    def join(self) -> str:
        """Wait for the others as torch does: the head for ever, the rest for (scaled) ten minutes.

        Returns the name of the failure, or nothing.
        """
        if self.launch.rank == 0:
            try:
                listener = socket.create_server(("", self.launch.master[1]), backlog=self.launch.nodes)
            except OSError:
                return "engine-master-port-in-use"
            while len(self.peers) < self.launch.nodes - 1:
                self.peers.append(listener.accept()[0])
            listener.close()
            return ""
        until = time.monotonic() + max(600 * self.factor, 10)
        while time.monotonic() < until:
            try:
                self.peers = [socket.create_connection(self.launch.master, timeout=5)]
                return ""
            except OSError:
                time.sleep(0.2)
        return "engine-rendezvous-timeout"

    def step(self, stalled: Callable[[], None]) -> str:
        """One step of the model on all ranks: `ok`, `killed` (a connection closed) or `silent`.

        NCCL does not notice a closed connection: the step ends when vLLM's own limit is over.
        """
        given = os.environ.get("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS")
        limit = float(given) if given else max(300 * self.factor, 5)
        for peer in self.peers:
            until = time.monotonic() + limit
            answer = exchange(peer, b".", min(60 * self.factor or limit, limit))
            while answer != "ok":
                if answer == "killed" and self.notices:
                    return "killed"
                left = until - time.monotonic()
                if left <= 0:
                    return "silent"
                stalled()
                pause = min(60 * self.factor or limit, left)
                if answer == "killed":
                    time.sleep(pause)
                else:
                    answer = exchange(peer, b"", pause)
            exchange(peer, b"!", 0)
        return "ok"

    def follow(self) -> bool:
        """The other side of `step`, until the head is gone; was it in the middle of a step?"""
        head, under_way = self.peers[0], False
        head.settimeout(None)
        try:
            for word in iter(lambda: head.recv(1), b""):
                under_way = word == b"."
                if under_way:
                    head.sendall(b".")
        except OSError:
            return under_way
        return under_way


def exchange(peer: socket.socket, word: bytes, seconds: float) -> str:
    """Send a word and, given any time, wait for the answer: `ok`, `killed` or `silent`."""
    peer.settimeout(max(seconds, 0.01))
    try:
        peer.sendall(word)
        return "ok" if not seconds or peer.recv(1) else "killed"
    except socket.timeout:  # noqa: UP041 - another class than TimeoutError in Python 3.9
        return "silent"
    except OSError:
        return "killed"


# --- answering ----------------------------------------------------------------------------------------------


# What is counted: the metric's name and, where it has several lines, the label of the one meant.
COUNTERS = {
    "queries": ("prefix_cache_queries_total", ""),
    "hits": ("prefix_cache_hits_total", ""),
    "prompt": ("prompt_tokens_total", ""),
    "generation": ("generation_tokens_total", ""),
    "running": ("num_requests_running", ""),
    "stop": ("request_success_total", 'finished_reason="stop"'),
    "length": ("request_success_total", 'finished_reason="length"'),
}


class Engine:
    """What the endpoints share: tokens, the prefix cache, the counters, and when it dies."""

    def __init__(self, launch: Launch, answer: str, default_length: int) -> None:
        self.launch = launch
        self.answer = answer
        self.limit = launch.number("max_model_len", default_length)
        self.block = launch.number("block_size", 16)
        self.caching = launch.flags.get("enable_prefix_caching", True) is not False
        self.blocks: set[int] = set()
        self.lock = threading.Lock()
        self.steps = threading.Lock()
        self.dead = threading.Event()
        self.group: Optional[Group] = None
        self.stalled: Callable[[], None] = lambda: None
        self.fault, _colon, number = setting("FAULT", "none").partition(":")
        self.fault_at = float(number or 1)
        self.requests = 0
        self.cause = ""
        self.counters = dict.fromkeys(COUNTERS, 0.0)

    def count(self, **added: float) -> None:
        with self.lock:
            for name, number in added.items():
                self.counters[name] += number

    def look_up(self, tokens: List[str]) -> None:
        """Count how many full blocks of this prompt were seen before, as vLLM's prefix cache does."""
        hits, key, matching = 0, 0, True
        with self.lock:
            for end in range(self.block, len(tokens) + 1, self.block):
                key = hash((key, tuple(tokens[end - self.block : end])))
                matching = matching and key in self.blocks
                # The last token is always computed, so a prompt is never taken from the cache whole.
                hits += self.block if matching and end < len(tokens) else 0
                self.blocks.add(key)
        self.count(queries=len(tokens), hits=hits)

    def generate(self, tokens: List[str], wanted: int) -> List[str]:
        """The answered tokens; an engine that dies on the way answers nothing."""
        self.count(running=1)
        try:
            self.requests += 1
            seen = {"requests": self.requests, "prompt": len(tokens), "parallel": self.counters["running"]}
            if self.fault in seen and seen[self.fault] >= self.fault_at:
                self.die("")
            if self.group:
                with self.steps:
                    state = self.group.step(self.stalled)
                if state != "ok":
                    self.die("peer-" + state)
            if self.answer == "never":
                self.dead.wait()
            if self.caching:
                self.look_up(tokens)
            words = {"text": tokens_of(TEXT), "repeated": ["!"] * 4096}.get(self.answer, [])
            out = (words * (wanted // max(len(words), 1) + 1 if self.answer == "repeated" else 1))[:wanted]
            self.dead.wait(len(out) * float(setting("TOKEN_SECONDS", "0.002")))
            self.count(prompt=len(tokens), generation=len(out))
            return [] if self.dead.is_set() else out
        finally:
            self.count(running=-1)

    def metrics(self) -> bytes:
        """vLLM's own metrics as recorded on an idle server, with the numbers that are counted here."""
        text = (HERE / "recordings" / "metrics.txt").read_text(encoding="utf-8")
        text = text.replace('model_name="./tiny-model"', 'model_name="%s"' % self.launch.served)
        for key, (name, label) in COUNTERS.items():
            line = r"^(vllm:%s\{[^\n]*%s[^\n]*\}) \S+$" % (name, label)
            text = re.sub(line, r"\g<1> %s" % float(self.counters[key]), text, flags=re.M)
        return text.encode()

    def die(self, cause: str) -> None:
        self.cause = self.cause or cause
        self.dead.set()


def longest(asked: Dict[str, Any]) -> int:
    return int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 0)


def tokens_of(text: str) -> List[str]:
    return re.findall(r"\s?\w{1,5}|\s?[^\w\s]|\s", text)


class Handler(BaseHTTPRequestHandler):
    """The endpoints; their bodies are recorded ones (`recordings/http.json`) with this request's values."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "uvicorn", ""
    engine: Engine
    log: Log
    access = b"INFO:     "
    bodies: Dict[str, Any] = {}

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            return self.send(200, self.engine.metrics(), "text/plain; version=1.0.0; charset=utf-8")
        if path in ("/health", "/ping"):
            return self.send(200, b"")
        if path == "/version":
            return self.send(200, {"version": installed("vllm")})
        if path == "/v1/models":
            body = self.body("models")
            launch = self.engine.launch
            body["data"][0].update(id=launch.served, root=launch.model, created=int(time.time()))
            body["data"][0]["max_model_len"] = self.engine.limit
            return self.send(200, body)
        known = path in ("/v1/chat/completions", "/v1/completions")
        return self.send(405 if known else 404, self.body("method_not_allowed" if known else "not_found"))

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chat = self.path == "/v1/chat/completions"
        if not chat and self.path != "/v1/completions":
            return self.send(404, self.body("not_found"))
        try:
            asked = json.loads(data)
            prompt = "\n".join(str(m["content"]) for m in asked["messages"]) if chat else str(asked["prompt"])
        except ValueError:
            return self.send(400, self.body("bad_json"))
        except (KeyError, TypeError):
            return self.send(400, self.body("no_messages"))
        tokens = tokens_of(prompt)
        refusal = self.refusal(asked, len(tokens))
        if refusal:
            return self.send(refusal["error"]["code"], refusal)
        limit = longest(asked) or (self.engine.limit if chat else 16)
        wanted = min(limit, self.engine.limit - len(tokens))
        out = self.engine.generate(tokens, wanted)
        if self.engine.dead.is_set():
            return self.send(500, self.body("engine_dead"))
        return self.answer(asked, "chat" if chat else "completion", out, len(tokens), wanted)

    def refusal(self, asked: Dict[str, Any], given: int) -> Optional[Dict[str, Any]]:
        launch, limit = self.engine.launch, self.engine.limit
        if asked.get("model", launch.served) != launch.served:
            return self.body("wrong_model", nope=str(asked["model"]), **{"./tiny-model": launch.served})
        wanted = longest(asked) or 1
        if given >= limit:
            return self.body("prompt_too_long", **{"1024": str(limit), "1025": str(given)})
        if wanted > limit:
            return self.body("too_many_tokens", **{"1024": str(limit), "5000": str(wanted)})
        return None

    def body(self, name: str, **changes: str) -> Dict[str, Any]:
        """A recorded body; in an error's message the recorded values make room for this request's."""
        body: Dict[str, Any] = json.loads(json.dumps(self.bodies[name]))
        for old, new in changes.items():
            body["error"]["message"] = body["error"]["message"].replace(old, new)
        return body

    def answer(self, asked: Dict[str, Any], kind: str, out: List[str], given: int, wanted: int) -> None:
        reason = "length" if len(out) >= wanted else "stop"
        self.engine.count(**{reason: 1})
        common = {"id": "chatcmpl-" + os.urandom(8).hex(), "created": int(time.time())}
        common["model"] = self.engine.launch.served
        if asked.get("stream"):
            return self.stream(kind, common, out, reason)
        body = self.body(kind)
        body.update(common)
        body["usage"].update(prompt_tokens=given, completion_tokens=len(out), total_tokens=given + len(out))
        body["choices"][0]["finish_reason"] = reason
        say(body["choices"][0], kind, "".join(out))
        return self.send(200, body)

    def stream(self, kind: str, common: Dict[str, Any], out: List[str], reason: str) -> None:
        events: List[Dict[str, Any]] = json.loads(json.dumps(self.bodies[kind + "_stream"]))
        first, middle, last = events[:-2], events[-2], events[-1]
        last["choices"][0]["finish_reason"] = reason
        chunks = list(first)
        for token in out:
            chunk = json.loads(json.dumps(middle))
            say(chunk["choices"][0], kind, token)
            chunks.append(chunk)
        text = "".join("data: %s\n\n" % json.dumps({**chunk, **common}) for chunk in chunks + [last])
        self.send(200, (text + "data: [DONE]\n\n").encode(), "text/event-stream; charset=utf-8")

    def send(self, status: int, body: Any, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        line = '%s:%d - "%s %s HTTP/1.1" %d %s\n'
        request = (*self.client_address[:2], self.command, self.path, status, self.responses[status][0])
        self.log.write(self.access + (line % request).encode())
        self.send_response(status)
        if data:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_ignored: Any) -> None:
        """The access log is printed by `send`, in the form the recording has."""


def say(choice: Dict[str, Any], kind: str, text: str) -> None:
    """Put the text where this kind of answer carries it."""
    if kind == "chat":
        choice["delta" if "delta" in choice else "message"]["content"] = text
    else:
        choice["text"] = text


class Server(ThreadingHTTPServer):
    """Bound at the start, as vLLM does it; listening only when the engine is ready."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, launch: Launch) -> None:
        address = (str(launch.flags.get("host", "0.0.0.0")), launch.number("port", 8000))
        super().__init__(address, Handler, bind_and_activate=False)
        self.server_bind()


# --- one run ------------------------------------------------------------------------------------------------


class Run:
    """One `vllm serve` from its first line to its exit."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.name = launch.scenario()
        self.server: Optional[Server] = None
        name, dash, version = self.name.partition("-v0")
        self.family = dash + version
        varied = name in HANGS or name in ANSWERS or name == "slow-weights"
        self.name = name
        self.recording = self.find(self.obstacle() or ("healthy" if varied else name))
        self.tail = self.recording
        if self.recording.header.get("part") == "tail":
            self.recording = self.find("healthy")
        if self.recording.serves:
            self.recording.start = widen(self.recording.start, launch)
        self.log = Log(launch, [self.recording, self.tail])

    def find(self, name: str) -> Recording:
        return recording(name, self.launch, self.family)

    def obstacle(self) -> str:
        """What really stands in the way of this launch, whatever the scenario says."""
        if self.launch.unknown:
            return "container-unknown-flag"
        seen = gpus()
        if seen is not None and len(seen) * self.launch.nodes < self.launch.world:
            return "devices-world-size" if seen else "devices-no-cuda-gpus"
        if occupied(self.launch):
            return "devices-gpu-occupied"
        if not self.launch.rank:
            try:
                self.server = Server(self.launch)
            except OSError:
                return "api-port-in-use"
        return ""

    def play(self) -> int:
        # A SIGTERM while it starts has no effect: real ones (0.24, 0.32) went on, became ready and served.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.start()
        if self.name in HANGS or self.recording.end == "hang":
            return wait_for_ever()
        if self.launch.rank and self.group and self.recording.end == "serve":
            return self.follow(self.group)
        if not self.recording.serves or not self.server:
            return self.finish(self.recording)
        return self.serve(self.server)

    def start(self) -> None:
        """Print the start, and meet the other nodes at the line with which the recorded ranks met."""
        lines = self.recording.start
        if self.name in HANGS:
            marker = HANGS[self.name]
            ends = (number + 1 for number, line in enumerate(lines) if marker in line)
            lines = lines[: next(ends, len(lines))] if marker else []
        self.group = None
        if self.launch.nodes > 1:
            cut = self.meeting(lines)
            self.log.replay(lines[:cut])
            lines = lines[cut:]
            group = Group(self.launch, self.log.factor, notices=self.family == "-v032")
            if not cut:
                return self.log.replay(lines)
            failure = group.join()
            if failure:
                self.recording = self.find(failure)
                self.log.learn(self.recording)
                lines = self.recording.start[self.meeting(self.recording.start) :]
            else:
                self.group = group
        shards = [n for n, line in enumerate(lines) if b"Completed | " in line]
        if self.name == "slow-weights" and shards:
            self.log.replay(lines[: shards[0]])
            self.log.load_slowly(lines[shards[0]], int(setting("SHARDS", "8")))
            lines = lines[shards[-1] + 1 :]
        return self.log.replay(lines)

    def meeting(self, lines: List[bytes]) -> int:
        """Where the ranks of a launch meet: after the last line that names the address; 0 where none does."""
        named = [number for number, line in enumerate(lines) if b"distributed_init_method=" in line]
        return named[-1] + 1 if named else 0

    def follow(self, group: Group) -> int:
        """A rank without an endpoint stays when the head is gone; what it says then, its backend says."""
        after = self.recording.after
        cut = next((number for number, line in enumerate(after) if b"[shutdown]" in line), len(after))
        signal.signal(signal.SIGTERM, lambda *_: self.leave(after[cut:]))
        under_way = group.follow()
        if self.recording.after:
            self.log.replay(after[:cut])
        elif under_way:
            lost = self.find("peer-lost")
            self.log.learn(lost)
            self.log.replay(lost.after)
        return wait_for_ever()

    def leave(self, lines: List[bytes]) -> None:
        self.log.replay(lines)
        os._exit(0)

    def serve(self, server: Server) -> int:
        text = b"".join(self.recording.start)
        length = re.search(rb"max model len (\d+)", text)
        engine = Engine(self.launch, ANSWERS.get(self.name, "text"), int(length.group(1)) if length else 4096)
        engine.group = self.group
        if self.group:
            silent = self.find("peer-silent")
            self.log.learn(silent)
            stall = next(line for line in silent.serving if STALL in line)
            engine.stalled = lambda: self.log.write(stall)
        if self.tail.end != "serve" and engine.fault == "none":
            engine.fault = "requests"
        Handler.engine, Handler.log = engine, self.log
        Handler.bodies = json.loads((HERE / "recordings" / "http.json").read_text(encoding="utf-8"))
        ready = next(line for line in self.recording.start if READY in line)
        Handler.access = ready[: ready.index(b"INFO: ")] + b"INFO:     "
        # Before anybody can see that it is ready.
        signal.signal(signal.SIGTERM, lambda *_: engine.die("stopped"))
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for child in self.log.children.values():
            threading.Thread(target=child.watch, args=(engine,), daemon=True).start()
        self.log.fill(self.recording.serving, int(setting("LOG_BYTES", "0")))
        engine.dead.wait(engine.fault_at if engine.fault == "seconds" else None)
        engine.die("")
        return self.end(engine.cause)

    def end(self, cause: str) -> int:
        """Print how it ends: stopped in order, a peer gone, or the death that the scenario names."""
        time.sleep(0.2)  # the request that was under way gets its answer first
        tail = self.tail
        if cause == "stopped":
            tail = self.recording if self.recording.end == "serve" else self.find("healthy")
        elif cause:
            tail = self.find(cause)
        self.log.learn(tail)
        self.log.replay(tail.after)
        return self.finish(tail)

    def finish(self, played: Recording) -> int:
        what, _space, code = played.end.partition(" ")
        if what == "hang":
            return wait_for_ever()
        return int(code) if what == "exit" else 0


def wait_for_ever() -> int:
    while True:
        signal.pause()


def main(argv: List[str]) -> int:
    if argv[:1] == ["--version"]:
        print(installed("vllm"))
        return 0
    if argv[:1] != ["serve"]:
        print("usage: vllm serve [model_tag] [options]", file=sys.stderr)
        return 2
    return Run(Launch(argv[1:])).play()


if __name__ == "__main__":
    CODE = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(CODE)  # the threads that serve are not waited for
