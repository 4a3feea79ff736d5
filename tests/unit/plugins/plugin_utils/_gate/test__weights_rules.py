# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The model's files: whole on every host, and the same on all of them, without reading them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._gate._weights_rules import identities
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    changed,
    document,
    fact,
    judged,
    model,
    verdict,
    with_engine,
)


def hosts(*models: dict[str, Any]) -> list[dict[str, Any]]:
    return [with_engine(document(number), models=[found]) for number, found in enumerate(models, 1)]


@pytest.mark.parametrize(
    ("found", "expected", "word"),
    [
        (fact(model()), "pass", ""),
        (fact(None, "absent", "/models/k3: no such directory"), "fail", "not on this host"),
        (fact(None, "timeout", "no answer within 10 s"), "undecided", "timeout"),
        (fact(None, "denied", "permission"), "undecided", "denied"),
        (fact({**model(), "unread": ["x: broken link"]}), "fail", "1 files cannot be opened"),
        (fact(changed(model(), index__missing=["m-2.safetensors"], index__shards=2)), "fail", "1 of 2 files"),
        (fact({**model(), "index": {"name": "i", "why": "cannot be read: x"}}), "fail", "cannot be read"),
        (fact({**model(), "index": None, "shards": {}, "shard_count": 0}), "fail", "no weights"),
        (fact({**model(), "index": None}), "pass", ""),
    ],
)
def test_whole(found: dict[str, Any], expected: str, word: str) -> None:
    answer = about(judged(hosts(found, fact(model()))), "weights.present", "n1").answer
    assert answer.verdict == expected
    assert word in answer.reason


def test_a_command_without_a_model_is_undecided() -> None:
    made = with_engine(document(1), models=[])
    assert verdict(judged([made, with_engine(document(2))]), "weights.present", "n1") == "undecided"


@pytest.mark.parametrize(
    "difference",
    [
        {"shards__model-1.safetensors__bytes": 999},
        {"shards__model-1.safetensors__blob": "c" * 64},
        {"files__config.json__sha256": "0" * 64},
        {"revision": "b" * 40},
    ],
)
def test_one_host_with_another_model_is_named(difference: dict[str, Any]) -> None:
    other = changed(model(), **difference)
    finding = about(judged(hosts(fact(model()), fact(other), fact(model()))), "weights.equal")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n2",))


def test_a_cache_and_a_plain_directory_may_hold_the_same() -> None:
    plain = changed(model(), **{"shards__model-1.safetensors__blob": None, "revision": None})
    names = identities({"n1": [model()], "n2": [plain]})
    assert len(set(names.values())) == 1
    assert verdict(judged(hosts(fact(model()), fact(plain))), "weights.equal") == "pass"


def test_t29_weights_that_were_not_read_on_one_host() -> None:
    result = judged(hosts(fact(model()), fact(None, "timeout", "dead mount")))
    assert about(result, "weights.equal").hosts == ("n2",)
    assert verdict(result, "weights.equal") == "undecided"


def hashed(number: int, digest: str = "1" * 64, blob: str | None = None, **more: Any) -> dict[str, Any]:
    made = document(number)
    files = {"m.safetensors": {"bytes": 9, "sha256": digest, "blob": blob}}
    made["weights"] = {"schema": "gpufleet.baseline/weights/1", "paths": {"/models/k3": fact(files, **more)}}
    return made


def test_bytes_are_compared_when_asked_for() -> None:
    assert verdict(judged([document(1), document(2)]), "weights.bytes") == "not applicable"
    assert verdict(judged([hashed(1), hashed(2)]), "weights.bytes") == "pass"
    finding = about(judged([hashed(1), hashed(2, "2" * 64), hashed(3)]), "weights.bytes")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n2",))


def test_a_file_that_is_not_what_its_name_in_the_cache_says() -> None:
    result = judged([hashed(1, "1" * 64, "2" * 64), hashed(2, "1" * 64, "1" * 64)])
    assert verdict(result, "weights.hashes", "n1") == "fail"
    assert verdict(result, "weights.hashes", "n2") == "pass"


def test_t29_hashes_that_could_not_be_read_are_undecided() -> None:
    result = judged([hashed(1, outcome="denied", message="no"), document(2)])
    assert verdict(result, "weights.hashes", "n1") == "undecided"
    finding = about(result, "weights.bytes")
    assert (finding.answer.verdict, finding.hosts) == ("undecided", ("n1", "n2"))
