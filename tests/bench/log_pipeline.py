# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""A kept container log, against gzip -1 of the same bytes: decode, redact, judge, compress, seal, scan again.

Prints wall time, processor time, their ratio to gzip's, and the peak memory, for logs of several kinds: an engine at
work (the one with a budget), lines that are all different, one secret on every line, and one line without an end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ansible_collections.gpufleet.baseline.plugins.module_utils import _seal
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log import Limits, collect
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_decode import JSON_FILE
from ansible_collections.gpufleet.baseline.plugins.module_utils._container_log_source import LogSource
from ansible_collections.gpufleet.baseline.plugins.module_utils._log import _judge
from ansible_collections.gpufleet.baseline.plugins.module_utils._redact._redactor import Redactor

BUDGET, MEMORY_BUDGET = 3.0, 96
MIB = 1024 * 1024
LETTERS = string.ascii_letters + string.digits


def word(dice: random.Random, letters: str, length: int) -> str:
    return "".join(dice.choices(letters, k=length))


def environment() -> dict[str, str]:
    """The secrets of a usual host; always the same ones."""
    dice = random.Random(3)
    return {
        "HF_TOKEN": "hf_" + word(dice, LETTERS, 34),
        "VLLM_API_KEY": word(dice, "0123456789abcdef", 32),
        "AWS_SECRET_ACCESS_KEY": word(dice, LETTERS, 40),
        "WANDB_API_KEY": word(dice, "0123456789abcdef", 40),
        "NGC_API_KEY": "nvapi-" + word(dice, LETTERS, 60),
        "REDIS_PASSWORD": word(dice, LETTERS, 12),
        "http_proxy": f"http://me:{word(dice, LETTERS, 16)}@proxy:3128",
    }


START = (
    "(APIServer pid=1) INFO 07-28 20:00:00 [utils.py:299] vLLM server version 0.27.1, serving model m",
    "(APIServer pid=1) INFO 07-28 20:00:01 [model.py:645] Resolved architecture: KimiK3ForConditionalGeneration",
    "(Worker_TP0 pid=340) INFO 07-28 20:00:26 [gpu_model_runner.py:5308] Starting to load model m...",
    "(APIServer pid=1) INFO:     Application startup complete.",
)


def serving(dice: random.Random) -> str:
    """One line of an engine at work."""
    clock = f"{dice.randrange(24):02}:{dice.randrange(60):02}:{dice.randrange(60):02}"
    kind = dice.random()
    if kind < 0.6:
        peer = f"10.20.{dice.randrange(255)}.{dice.randrange(255)}:{dice.randrange(65535)}"
        return f'(APIServer pid=1) INFO:     {peer} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    if kind < 0.85:
        return (
            f"(APIServer pid=1) INFO 07-28 {clock} [loggers.py:271] Engine 000: Avg prompt throughput: {dice.random() * 9000:.1f} tokens/s, "
            f"Avg generation throughput: {dice.random() * 900:.1f} tokens/s, Running: {dice.randrange(90)} reqs, GPU KV cache usage: 41.0%"
        )
    if kind < 0.99999:
        return (
            f"(APIServer pid=1) INFO 07-28 {clock} [logger.py:40] Received request chatcmpl-{dice.getrandbits(128):032x}: prompt: None, "
            "params: SamplingParams(n=1, temperature=0.6, max_tokens=65536, skip_special_tokens=True), prompt_token_ids: None."
        )
    return f"(APIServer pid=1) WARNING 07-28 {clock} [protocol.py:{dice.randrange(99)}] The following fields were present in the request but ignored"


def different(dice: random.Random) -> str:
    """A line of words that stand in no other line."""
    return " ".join(word(dice, string.ascii_lowercase, dice.randrange(2, 12)) for _word in range(16))


def secret(dice: random.Random) -> str:
    """A request with a key in it, a new one each time."""
    return f'INFO: 10.20.0.1 - "GET /v1/models?api_key={word(dice, LETTERS, 24)} HTTP/1.1" 200 OK, took {dice.random():.3f} s'


def endless(dice: random.Random) -> str:
    """A piece of a line that never ends, in the size that Docker cuts at."""
    return (different(dice) + ", ") * 120


KINDS: dict[str, tuple[Callable[[random.Random], str], str]] = {
    "an engine at work": (serving, "\n"),
    "all lines different": (different, "\n"),
    "a secret on every line": (secret, "\n"),
    "one line": (endless, ""),
}


def write_log(path: Path, size: int, kind: str) -> None:
    """A json-file log of about this many bytes."""
    make, end = KINDS[kind]
    dice = random.Random(1)
    stamp = "2026-07-28T20:%02d:%02d.%09dZ"

    def entry(text: str) -> str:
        moment = stamp % (dice.randrange(60), dice.randrange(60), dice.randrange(10**9))
        return (
            json.dumps({"log": text + end, "stream": "stderr", "time": moment}, separators=(",", ":")) + "\n"
        )

    # The same blocks come again and again, in another order; to gzip and to us a block from far back is new.
    blocks = ["".join(entry(make(dice)) for _line in range(10_000 if end else 300)) for _block in range(16)]
    with path.open("w", encoding="utf-8") as stream:
        if make is serving:
            stream.writelines(map(entry, START))
        while stream.tell() < size:
            stream.write(dice.choice(blocks))


class Content:
    """A file as the content of a member."""

    def __init__(self, opened: BinaryIO) -> None:
        self._opened = opened

    def open(self) -> BinaryIO:
        self._opened.seek(0)
        return self._opened


def keep(path: str) -> None:
    """The whole way of one log in a process of its own; prints its peak memory in MiB and the times of its steps."""
    redactor = Redactor(b"a key for nothing but this measurement")
    redactor.learn_environment(environment())
    steps = [time.perf_counter()]
    with tempfile.TemporaryFile() as kept, tempfile.TemporaryFile() as sealed:
        judge = _judge.Judge([_judge.LogSource("log")])
        source = LogSource.of_files([path], JSON_FILE)
        collect(source, kept, redactor, Limits(), observe=partial(judge.feed, 0))
        judge.end(0)
        judge.verdict()
        steps.append(time.perf_counter())
        _seal.write_archive([_seal.Member("log.txt.gz", Content(kept))], sealed, 0)  # type: ignore[arg-type]
        steps.append(time.perf_counter())
        sealed.seek(0)
        hits = _seal.scan(sealed, redactor.scanner)
        steps.append(time.perf_counter())
    if hits:
        raise SystemExit(f"the sealed log holds secrets: {hits}")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    seconds = [end - start for start, end in itertools.pairwise(steps)]
    print(json.dumps({"peak": int(status.partition("VmHWM:")[2].split()[0]) / 1024, "steps": seconds}))


def timed(command: list[str]) -> tuple[float, float, str]:
    """Wall and processor seconds of a command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--mib",
        type=int,
        default=1024,
        help="size of the log of an engine at work; the others are 16 MiB at most",
    )
    parser.add_argument("--keep", help=argparse.SUPPRESS)
    arguments, _others = parser.parse_known_args()
    if arguments.keep:
        keep(arguments.keep)
        return
    print(
        f"kept json-file log   (budget for an engine at work: {BUDGET:g} x gzip -1 in wall time, {MEMORY_BUDGET} MiB)"
    )
    print(
        f"{'log':24}{'MiB':>5}{'gzip':>8}{'ours':>8}{'ratio':>7}{'cpu ratio':>11}{'peak MiB':>10}   collect, seal, scan"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        for kind in KINDS:
            mib = arguments.mib if kind == "an engine at work" else min(arguments.mib, 16)
            write_log(path, mib * MIB, kind)
            gzip_wall, gzip_cpu, _nothing = timed(["sh", "-c", 'exec gzip -1 < "$0" > "$0.gz"', str(path)])
            wall, cpu, answer = timed([sys.executable, __file__, "--keep", str(path)])
            told = json.loads(answer)
            steps = ", ".join(f"{seconds:.1f}" for seconds in told["steps"])
            print(
                f"{kind:24}{mib:5}{gzip_wall:7.1f}s{wall:7.1f}s{wall / gzip_wall:7.2f}{cpu / gzip_cpu:11.2f}{told['peak']:10.1f}   {steps} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
