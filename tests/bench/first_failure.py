# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: E501 (lines of logs stand whole)
"""First failure in a long log, against one grep of the whole signature table over the same bytes.

Prints wall time, processor time, their ratio to grep's, and the peak memory, for a plain log and for Docker's
json-file. The log is a start, many hours of serving, and a failure at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._judge import LogSource, judge_files
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signatures import TABLE

BUDGET = 3.0
MIB = 1024 * 1024
START = (
    "(APIServer pid=1) INFO 07-28 20:00:00 [utils.py:299] vLLM server version 0.27.1, serving model m",
    "(APIServer pid=1) INFO 07-28 20:00:01 [model.py:645] Resolved architecture: KimiK3ForConditionalGeneration",
    "(Worker_TP0 pid=340) INFO 07-28 20:00:26 [gpu_model_runner.py:5308] Starting to load model m...",
    "(APIServer pid=1) INFO:     Application startup complete.",
)
END = (
    "(Worker_TP5 pid=345) ERROR 07-29 08:01:16 [multiproc_executor.py:1018] WorkerProc hit an exception.",
    "(Worker_TP5 pid=345) ERROR 07-29 08:01:16 [multiproc_executor.py:1018] Traceback (most recent call last):",
    '(Worker_TP5 pid=345) ERROR 07-29 08:01:16 [multiproc_executor.py:1018]   File "/x/w.py", line 9, in execute_model',
    "(Worker_TP5 pid=345) ERROR 07-29 08:01:16 [multiproc_executor.py:1018] torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
)


def serving(dice: random.Random) -> str:
    """One line of an engine at work: access, statistics, a logged request, now and then a warning."""
    clock = f"{dice.randrange(24):02}:{dice.randrange(60):02}:{dice.randrange(60):02}"
    kind = dice.random()
    if kind < 0.7:
        peer = f"10.20.{dice.randrange(255)}.{dice.randrange(255)}:{dice.randrange(65535)}"
        return f'(APIServer pid=1) INFO:     {peer} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    if kind < 0.9:
        return (
            f"(APIServer pid=1) INFO 07-28 {clock} [loggers.py:271] Engine 000: Avg prompt throughput: {dice.random():.3f} tokens/s, "
            "Avg generation throughput: 34.7 tokens/s, Running: 24 reqs, Waiting: 3 reqs, GPU KV cache usage: 41.0%"
        )
    if kind < 0.99999:
        return (
            f"(APIServer pid=1) INFO 07-28 {clock} [logger.py:40] Received request chatcmpl-{dice.getrandbits(96):024x}: prompt: None, "
            "params: SamplingParams(n=1, temperature=0.6, top_p=0.95, stop=[], max_tokens=65536, logprobs=None), lora_request: None."
        )
    return f"(APIServer pid=1) WARNING 07-28 {clock} [protocol.py:80] The following fields were present in the request but ignored"


def write_log(path: Path, size: int, wrap: bool) -> None:
    """A log of about this many bytes."""

    def line(text: str) -> str:
        if not wrap:
            return text + "\n"
        entry = {"log": text + "\n", "stream": "stderr", "time": "2026-07-28T20:00:00.123456789Z"}
        return json.dumps(entry, separators=(",", ":")) + "\n"

    dice = random.Random(1)
    blocks = ["".join(line(serving(dice)) for _line in range(20000)) for _block in range(12)]
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(map(line, START))
        while stream.tell() < size:
            stream.write(dice.choice(blocks))
        stream.writelines(map(line, END))


def patterns() -> str:
    """Every text of the table as an extended regular expression, one a line."""
    texts = sorted({text for row in TABLE for text in row.literals})
    return "\n".join(re.sub(r"([][.^$*+?(){}|\\])", r"\\\1", text) for text in texts) + "\n"


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def judge_once(path: str) -> None:
    """One verdict in a process of its own; prints its peak memory in MiB."""
    verdict = judge_files([LogSource(path)])
    if verdict["failure_class"] != "cuda-illegal-memory-access":
        raise SystemExit(f"expected cuda-illegal-memory-access, found {verdict['failure_class']}")
    status = Path("/proc/self/status").read_text(
        encoding="ascii"
    )  # getrusage would count the parent's memory too
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


def compare(path: Path, table: Path, rounds: int) -> tuple[float, float, float, float, float]:
    """The best of some rounds each: wall and processor seconds of grep and of the verdict, peak memory."""
    grep, judge = (
        ["grep", "-c", "-E", "-f", str(table), str(path)],
        [sys.executable, __file__, "--judge", str(path)],
    )
    peak = float(subprocess.run(judge, check=True, capture_output=True, text=True).stdout)
    pairs = [
        (timed(grep), timed(judge)) for _round in range(rounds)
    ]  # in turn, so that both meet the same load
    greps, judges = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return (
        min(wall for wall, _cpu in greps),
        min(cpu for _wall, cpu in greps),
        min(wall for wall, _cpu in judges),
        min(cpu for _wall, cpu in judges),
        peak,
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of each log")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--judge", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.judge:
        judge_once(arguments.judge)
        return
    print(f"first failure in {arguments.mib} MiB   (budget: {BUDGET:g} x grep in wall time)")
    print("log          grep wall   cpu   verdict wall   cpu   wall ratio   cpu ratio   peak MiB")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table"
        table.write_text(patterns(), encoding="utf-8")
        for name, wrap in (("plain", False), ("json-file", True)):
            path = Path(folder) / "log"
            write_log(path, arguments.mib * MIB, wrap)
            wall, cpu, own_wall, own_cpu, peak = compare(path, table, arguments.rounds)
            print(
                f"{name:11} {wall:9.2f} s {cpu:5.2f} {own_wall:12.2f} s {own_cpu:5.2f} "
                f"{own_wall / wall:12.2f} {own_cpu / cpu:11.2f} {peak:10.1f}"
            )


if __name__ == "__main__":
    main()
