# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image and what is in it: one build on all hosts, new enough, for this processor."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpufleet.baseline.tests.unit.plugins.plugin_utils._gate._made import (
    about,
    bad,
    changed,
    document,
    fact,
    judged,
    verdict,
    with_engine,
)


def group(second: dict[str, Any] | None = None, **both: Any) -> list[dict[str, Any]]:
    """Two hosts with engines; the second may differ."""
    return [with_engine(document(1), **both), with_engine(document(2), **{**both, **(second or {})})]


def test_a_healthy_group_with_engines_passes() -> None:
    result = judged(group())
    assert bad(result) == {}
    assert verdict(result, "image.equal") == verdict(result, "engine.versions") == "pass"


def test_without_any_engine_there_is_nothing_to_judge_yet() -> None:
    result = judged([document(1), document(2)])
    for rule in ("image.name", "image.cuda", "image.equal", "engine.vllm", "weights.present"):
        assert verdict(result, rule) == "not applicable"


def test_t29_an_engine_on_one_host_only_leaves_the_other_undecided() -> None:
    result = judged([with_engine(document(1)), document(2)])
    assert verdict(result, "engine.vllm", "n2") == "undecided"
    assert verdict(result, "image.equal") == "undecided"
    assert result.verdict == "undecided"


@pytest.mark.parametrize("outcome", ["denied", "timeout", "error"])
def test_t29_engines_that_could_not_be_listed_are_not_none(outcome: str) -> None:
    made = changed(document(1), engine__engine__version=fact(None, outcome, "no"))
    result = judged([made, document(2)])
    assert verdict(result, "engine.vllm", "n1") == "undecided"
    assert result.verdict == "undecided"


def test_t29_no_document_of_engines_is_not_none() -> None:
    made = document(1)
    del made["engine"]
    assert verdict(judged([made, document(2)]), "image.cuda", "n1") == "undecided"


def test_a_host_without_docker_has_no_engine() -> None:
    made = changed(document(1), engine__engine__version=fact(None, "absent", "no socket"))
    assert verdict(judged([made, document(2)]), "engine.vllm", "n1") == "not applicable"


@pytest.mark.parametrize(
    ("name", "tags", "expected"),
    [
        ("vllm/vllm-openai:kimi-k3", [], "pass"),
        ("mirror.example.org/vllm/vllm-openai:kimi-k3", [], "pass"),
        ("sha256:1111", ["vllm/vllm-openai:kimi-k3"], "pass"),
        ("vllm/vllm-openai:latest", [], "warn"),
        ("vllm/vllm-openai:kimi-k3-cu129", [], "warn"),
    ],
)
def test_image_of_the_model(name: str, tags: list[str], expected: str) -> None:
    result = judged(group(image__name=name, image__tags=tags, image__digests=["x@sha256:1"]))
    assert verdict(result, "image.name", "n1") == expected


def test_t31_other_image_fails_by_name_of_host() -> None:
    documents = [*group(), with_engine(document(3), image__id="sha256:" + "2" * 64)]
    finding = about(judged(documents), "image.equal")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n3",))


def test_ids_of_two_kinds_of_store_are_not_compared() -> None:
    second = with_engine(document(2), image__id="sha256:" + "2" * 64)
    second["engine"]["engine"]["info"] = fact(
        {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    )
    assert verdict(judged([with_engine(document(1)), second]), "image.equal") != "fail"


def test_ids_of_two_architectures_are_not_compared() -> None:
    second = with_engine(document(2), image__id="sha256:" + "2" * 64, image__architecture="amd64")
    result = judged([with_engine(document(1)), second])
    assert verdict(result, "image.equal") != "fail"
    assert verdict(result, "image.architecture", "n2") == "fail"


@pytest.mark.parametrize(
    ("name", "digests", "moved", "digest", "tag"),
    [
        ("a@sha256:1", ["a@sha256:1"], None, "pass", "pass"),
        ("a:1", ["a@sha256:1"], False, "warn", "pass"),
        ("a:1", [], False, "warn", "pass"),
        ("a:1", ["a@sha256:1"], True, "warn", "warn"),
        ("a:1", ["a@sha256:1"], None, "warn", "undecided"),
    ],
)
def test_digest_and_tag(name: str, digests: list[str], moved: bool | None, digest: str, tag: str) -> None:
    result = judged(group(image__name=name, image__digests=digests, image__tag_moved=moved))
    assert (verdict(result, "image.digest", "n1"), verdict(result, "image.tag", "n1")) == (digest, tag)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.27.0", "fail"),
        ("0.27.1rc1", "fail"),
        ("0.27.1", "pass"),
        ("0.27.1+cu130", "pass"),
        ("0.100.0", "pass"),
    ],
)
def test_version_of_vllm(version: str, expected: str) -> None:
    assert verdict(judged(group(versions__value={"vllm": [version]})), "engine.vllm", "n1") == expected


@pytest.mark.parametrize(
    "versions",
    [fact({}), fact(None, "denied", "no"), fact(None, "timeout", "dead mount"), fact({"torch": ["2"]})],
)
def test_t29_an_unknown_version_is_undecided(versions: dict[str, Any]) -> None:
    result = judged(group(versions=versions))
    assert verdict(result, "engine.vllm", "n1") == "undecided"
    assert not result.good


def test_other_nccl_on_one_host() -> None:
    versions = {"vllm": ["0.27.1"], "torch": ["2.13.0"], "nccl": ["2.28.9"]}
    documents = [*group(), with_engine(document(3), versions__value=versions)]
    finding = about(judged(documents), "engine.versions")
    assert (finding.answer.verdict, finding.hosts) == ("fail", ("n3",))
    assert "nccl 2.28.9: n3" in finding.answer.found


def test_t29_an_image_without_a_cuda_version_is_undecided() -> None:
    result = judged(group(cuda=fact({}), environment=["HOME=/root"]))
    assert verdict(result, "image.cuda", "n1") == "undecided"


def test_a_plain_process_is_not_the_official_image() -> None:
    made = document(1)
    start = {key: fact(None, "absent", "no") for key in ("cuda", "visible_devices")}
    made["engine"]["plain_processes"] = [
        {"pid": 7, "versions": fact({"vllm": ["0.27.1"]}), "models": [], **start}
    ]
    made["engine"]["processes"] = [{"pid": 7, "title": "", "argv": ["vllm", "serve"], "environment": ["A=1"]}]
    finding = about(judged([made, with_engine(document(2))]), "image.name", "n1")
    assert (finding.answer.verdict, finding.answer.found) == ("warn", "process 7: no image")


PULLED = "registry.example/vllm/vllm-openai:kimi-k3"


def with_image(inspected: Any, name: str = PULLED, **changes: Any) -> dict[str, Any]:
    image = {"id": "sha256:" + "1" * 64, "tags": [name], "digests": [], "inspected": inspected}
    return changed(document(1), engine__images=fact([image], source="/run/docker.sock"), **changes)


def told(**variables: Any) -> dict[str, Any]:
    return {
        "architecture": "arm64",
        "variables": {"CUDA_VERSION": None, "NVIDIA_REQUIRE_CUDA": None, **variables},
    }


@pytest.mark.parametrize(
    ("inspected", "expected"),
    [
        (told(CUDA_VERSION="13.0.2"), "pass"),
        (told(CUDA_VERSION="13.2.0"), "warn"),
        (told(CUDA_VERSION="14.0.0"), "fail"),
        (told(NVIDIA_REQUIRE_CUDA="cuda>=13.0 brand=unknown,driver>=535"), "pass"),
        (told(NVIDIA_REQUIRE_CUDA="cuda>=13.2 brand=tesla,driver>=550,driver<551"), "warn"),
        (told(NVIDIA_REQUIRE_CUDA="driver>=550"), "undecided"),
        (told(), "undecided"),
        ({"architecture": "arm64"}, "undecided"),
        (None, "undecided"),
    ],
)
def test_t30_cuda_of_an_image_before_any_container(inspected: Any, expected: str) -> None:
    finding = about(judged([with_image(inspected), document(2)]), "image.cuda", "n1")
    assert finding.answer.verdict == expected
    assert finding.evidence[-1]["probe"] == "/run/docker.sock"


def test_an_image_of_another_model_is_none_of_ours() -> None:
    made = with_image(told(CUDA_VERSION="14.0.0"), "other/vllm:latest")
    assert verdict(judged([made, document(2)]), "image.cuda") == "not applicable"


def test_a_host_that_lacks_the_engine_of_the_others_is_still_undecided() -> None:
    result = judged([with_image(told(CUDA_VERSION="13.0.2")), with_engine(document(2))])
    assert verdict(result, "image.cuda", "n1") == "undecided"


def test_t29_engines_that_could_not_be_listed_on_one_host_are_not_none_of_the_group() -> None:
    unknown = changed(document(2), engine__engine__version=fact(None, "timeout", "no answer"))
    result = judged([document(1), unknown])
    assert verdict(result, "engine.versions") == "undecided"
    assert verdict(result, "image.equal") == "undecided"
    assert verdict(result, "weights.equal") == "undecided"
