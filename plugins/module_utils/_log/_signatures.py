# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one table of failure signatures, and how a block is looked up in it; private to the collection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log import (
    _table_container,
    _table_devices,
    _table_engine,
    _table_group,
    _table_serving,
    _table_weights,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._block import (
    ERROR,
    TRACEBACK,
    Block,
    Raised,
)
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._markers import place_of
from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    CONSEQUENCE,
    NOISE,
    SYMPTOM,
    Signature,
)

# The first row that fits wins: harmless texts, then texts that only quote another failure, then causes,
# then symptoms.
TABLE: Tuple[Signature, ...] = (
    _table_serving.HARMLESS
    + _table_engine.QUOTES
    + _table_container.CONTAINER
    + _table_devices.DEVICES
    + _table_group.GROUP
    + _table_weights.MODEL
    + _table_weights.WEIGHTS
    + _table_engine.MEMORY
    + _table_engine.COMPILE
    + _table_serving.API
    + _table_serving.RUNTIME
    + _table_engine.ABORT
    + _table_devices.KERNEL_LOG
)

UNKNOWN = Signature("unclassified", (), "likely", advice="Read the named block: its text is in no table yet.")

_OOM_PLACES: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    (
        "cuda-oom-graph-capture",
        ("capture_model", "cuda_graph.py", "cudagraph_utils.py", "capture_graph", "capture_graphs"),
    ),
    (
        "cuda-oom-profiling",
        (
            "profile_run",
            "determine_available_memory",
            "determine_available_memories",
            "profile_cudagraph_memory",
        ),
    ),
    (
        "cuda-oom-kv-cache",
        (
            "initialize_kv_cache",
            "initialize_kv_cache_tensors",
            "_allocate_kv_cache_tensors",
            "_allocate_kv_cache",
        ),
    ),
    (
        "cuda-oom-warmup",
        (
            "compile_or_warm_up_model",
            "kernel_warmup",
            "kernel_warmup.py",
            "_dummy_sampler_run",
            "_dummy_pooler_run",
            "warmup",
        ),
    ),
    (
        "cuda-oom-weights",
        ("load_model", "load_weights", "initialize_model", "base_loader.py", "process_weights_after_loading"),
    ),
)
_OOM_STAGES: Dict[Tuple[str, str], str] = {
    ("weights", ""): "cuda-oom-weights",
    ("engine", "graph-capture"): "cuda-oom-graph-capture",
    ("engine", "warmup"): "cuda-oom-warmup",
    ("engine", "kv-cache"): "cuda-oom-kv-cache",
    ("engine", ""): "cuda-oom-profiling",
    ("devices", ""): "cuda-oom-devices",
    ("runtime", ""): "cuda-oom-runtime",
}
_OOM_SUBSTAGES = {
    "cuda-oom-weights": ("weights", "load"),
    "cuda-oom-profiling": ("engine", "profile"),
    "cuda-oom-kv-cache": ("engine", "kv-cache"),
    "cuda-oom-warmup": ("engine", "warmup"),
    "cuda-oom-graph-capture": ("engine", "graph-capture"),
    "cuda-oom-runtime": ("runtime", "serving"),
    "cuda-oom-devices": ("devices", "init-device"),
}


def _by_kind() -> Dict[str, Tuple[Signature, ...]]:
    kinds = sorted({kind for row in TABLE for kind in row.where})
    return {kind: tuple(row for row in TABLE if kind in row.where) for kind in kinds}


ROWS = _by_kind()
_TELLING = {
    kind: re.compile(
        "|".join(sorted({re.escape(text) for row in rows for text in row.literals}, key=len, reverse=True))
    )
    for kind, rows in ROWS.items()
}


_BEFORE = ("", "platform", "model-config")  # parts of a start in which no engine core exists


@dataclass
class Finding:
    """What a block says."""

    row: Signature
    failure_class: str
    stage: str
    substage: str
    raised: Optional[Raised] = None
    placed: bool = True  # False when traceback and progress do not agree on the place

    @property
    def role(self) -> str:
        """root, likely, symptom, consequence or noise."""
        return self.row.role

    @property
    def is_oom(self) -> bool:
        """Whether GPU memory ran out."""
        return self.failure_class.startswith("cuda-oom")


def telling(kind: str, text: str) -> bool:
    """Whether a single line of this kind of block holds a text of the table."""
    pattern = _TELLING.get(kind)
    return pattern is not None and pattern.search(text) is not None


def _fits(row: Signature, text: str, frames: List[str]) -> bool:
    if not any(literal in text for literal in row.literals):
        return False
    if any(other not in text for other in row.also):
        return False
    if not row.frames:
        return True
    names = set(frames)
    for frame in frames:
        names.update(frame.split(":"))
    return any(wanted in names for wanted in row.frames)


def find_row(kind: str, text: str, frames: Optional[List[str]] = None) -> Optional[Signature]:
    """The first row of the table that fits a text of this kind of block."""
    for row in ROWS.get(kind, ()):
        if _fits(row, text, frames or []):
            return row
    return None


def classify(block: Block) -> Finding:
    """The row for a block: of a chain the first exception that the table knows; unknown blocks get the row
    UNKNOWN.
    """
    if block.header:
        noise = find_row(block.kind if block.kind != TRACEBACK else ERROR, block.header)
        if noise is not None and noise.role == NOISE:
            return Finding(noise, noise.failure_class, "", "")
    weak: Optional[Finding] = None
    for raised in block.raised:
        row = find_row(TRACEBACK, raised.whole, raised.frames)
        if row is None:
            continue
        finding = _finding(row, block, raised)
        if row.role not in (CONSEQUENCE, SYMPTOM, NOISE):
            return finding
        if weak is None or weak.role == NOISE:
            weak = finding
    if weak is not None:
        return weak
    text = "\n".join([block.line.source, block.header] + block.body)
    kind = ERROR if block.kind == TRACEBACK else block.kind
    row = find_row(kind, text, block.frames)
    if row is not None:
        return _finding(row, block, None)
    return _finding(UNKNOWN, block, block.raised[0] if block.raised else None)


def _finding(row: Signature, block: Block, raised: Optional[Raised]) -> Finding:
    failure_class = row.failure_class
    frames = [frame for one in block.raised for frame in one.frames] + block.frames
    if failure_class in ("cuda-oom", "cuda-oom-weights") and row.name != "hint":
        failure_class = oom_class(frames, block)
        stage, substage = _OOM_SUBSTAGES[failure_class]
        found = _OOM_STAGES.get(block.stage, _OOM_STAGES.get((block.stage[0], "")))
        return Finding(
            row, failure_class, stage, substage, raised, block.after_ready or failure_class == found
        )
    stage, substage = row.stage, row.substage
    if stage and block.after_ready and row.role != NOISE:
        stage = "runtime"  # whatever its subject: it served before
    if not stage:
        stage, placed = _stage_of(frames, block)
        substage = placed or substage
    return Finding(row, failure_class, stage, substage, raised)


def _stage_of(frames: List[str], block: Block) -> Tuple[str, str]:
    if block.after_ready:
        return "runtime", "serving"
    stage, substage = place_of(frames)
    if any(frame.endswith(":wait_for_engine_startup") for frame in frames) and block.stage[1] not in _BEFORE:
        return block.stage  # who waits for the engine does not say how far it was
    if stage and stage != "runtime":
        return stage, substage
    return block.stage


def oom_class(frames: List[str], block: Block) -> str:
    """Which kind of memory shortage: by the functions in the traceback, else by the stage the process was
    in.
    """
    if block.after_ready:
        return "cuda-oom-runtime"
    names = set()
    for frame in frames:
        names.update(frame.split(":"))
    for name, places in _OOM_PLACES:
        if names.intersection(places):
            return name
    stage, substage = block.stage
    return _OOM_STAGES.get((stage, substage)) or _OOM_STAGES.get((stage, "")) or "cuda-oom-profiling"
