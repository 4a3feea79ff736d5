# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of the stage weights, model artefacts included (private to the collection). How to add one:
docs/adding-a-signature.md
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    FAILING,
    LIKELY,
    RAISED,
    ROOT,
    SYMPTOM,
    VLLM_SOURCE,
    WARNED,
    Signature,
    github,
    vllm,
)

# fmt: off
_HUB = "https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/errors.py"

MODEL: Tuple[Signature, ...] = (
    Signature(
        "trust-remote-code", ("contains custom code which must be executed to correctly load",), ROOT,
        "weights", "model-config", since="0.9",
        advice="The model's own code must be allowed: compare with the official launch's arguments.",
        source=github("vllm-project/guidellm", 860, "pull"),
    ),
    Signature(
        "trust-remote-code", ("trust_remote_code=True",), ROOT, "weights", "model-config",
        also=("custom code",), name="option", since="0.9",
        advice="The model's own code must be allowed: compare with the official launch's arguments.",
        source=github("vllm-project/guidellm", 860, "pull"),
    ),
    Signature(
        "hf-auth-401", ("GatedRepoError", "Cannot access gated repo"), ROOT, "weights", "model-config",
        also=("401",), where=RAISED,
        advice="Check that a token reaches the container and that it may read this repository.",
        source=_HUB,
    ),
    Signature(
        "hf-auth-403", ("403 Client Error", "403 Forbidden"), ROOT, "weights", "model-config", where=RAISED,
        advice="The token is known and not allowed: ask for access to this repository.", source=_HUB,
    ),
    Signature(
        "hf-not-found", ("RepositoryNotFoundError", "RevisionNotFoundError"), ROOT, "weights",
        "model-config", where=RAISED,
        advice="Check the repository name and revision, and whether it is private.", source=_HUB,
    ),
    Signature(
        "hf-auth-401",
        ("401 Client Error", "401 Unauthorized", "GatedRepoError", "Cannot access gated repo"), ROOT,
        "weights", "model-config", where=RAISED, name="client",
        advice="Check that a token reaches the container and that it may read this repository.",
        source=_HUB,
    ),
    Signature(
        "hf-unreachable",
        (
            "LocalEntryNotFoundError", "OfflineModeIsEnabled", "Temporary failure in name resolution",
            "couldn't connect to 'https://huggingface.co'", "Max retries exceeded with url",
            "outgoing traffic has been disabled",
        ),
        ROOT, "weights", "model-config", where=RAISED,
        advice="Check the cache mount and the container's way to the hub; nothing of the model "
        "was read.",
        source=_HUB,
    ),
    Signature(
        "tokenizer-missing",
        (
            "Couldn't instantiate the backend tokenizer", "Can't load tokenizer for", "Tokenizer class",
            "Failed to load the tokenizer",
        ),
        ROOT, "weights", "model-config", where=FAILING, since="0.9",
        advice="List the tokenizer files in the model directory and compare them with the repository's.",
        source=VLLM_SOURCE + "tokenizers/registry.py",
    ),
    Signature(
        "model-path-not-found",
        (
            "Invalid repository ID or local directory specified", "Incorrect path_or_model_id",
            "does not appear to have a file named config.json", "Repo id must be in the form",
            "HFValidationError", "Can't load the configuration of", "is not a valid model identifier",
        ),
        ROOT, "weights", "model-config", since="0.9",
        advice="Check that the path exists inside the container: compare mounts with the model "
        "argument.",
        source=VLLM_SOURCE + "transformers_utils/config.py",
    ),
    Signature(
        "model-unsupported",
        (
            "but Transformers does not recognize this architecture", "are not supported for now",
            "has no vLLM implementation", "Cannot find model module", "are not supported by vLLM",
        ),
        ROOT, "weights", "model-config", since="0.9",
        advice="Compare the image's vLLM and transformers versions with the model's minimum.",
        source=vllm(40249),
    ),
    Signature(
        "model-unsupported", ("KeyError: '",), LIKELY, "weights", "model-config", where=RAISED, name="key",
        since="0.9",
        frames=(
            "get_config", "from_pretrained", "create_model_config", "AutoConfig", "configuration_auto.py",
        ),
        advice="Compare the image's vLLM and transformers versions with the model's minimum.",
        source=vllm(40249),
    ),
    Signature(
        "model-config-invalid", ("validation error for ModelConfig",), LIKELY, "weights", "model-config",
        where=RAISED, since="0.10",
        advice="Read the lines below the validation error: they name the field and what was found.",
        source=VLLM_SOURCE + "config/model.py",
    ),
)

WEIGHTS: Tuple[Signature, ...] = (
    Signature(
        "checkpoint-corrupt",
        (
            "Error while deserializing header", "MetadataIncompleteBuffer", "HeaderTooLarge",
            "incomplete metadata, file not fully covered", "InvalidHeaderDeserialization",
            "PytorchStreamReader failed",
        ),
        ROOT, "weights", "load", since="0.9",
        advice="Compare size and checksum of each shard with the repository's list; a pointer "
        "file of git-lfs is a few lines of text.",
        source=vllm(15445),
    ),
    Signature(
        "weights-missing",
        (
            "Weight files referenced in index but missing", "Cannot find any model weights with",
            "Cannot find any safetensors model weights",
        ),
        ROOT, "weights", "load", since="0.9",
        advice="List the model directory inside the container and compare it with the index file.",
        source=VLLM_SOURCE + "model_executor/model_loader/weight_utils.py",
    ),
    Signature(
        "weights-missing", ("No such file or directory", "FileNotFoundError"), ROOT, "weights", "load",
        also=(".safetensors",), where=RAISED, name="shard",
        advice="List the model directory inside the container and compare it with the index file.",
        source=VLLM_SOURCE + "model_executor/model_loader/weight_utils.py",
    ),
    Signature(
        "disk-full",
        (
            "No space left on device (os error 28)", "[Errno 28] No space left on device",
            "IO Error: No space left on device",
        ),
        ROOT, "weights", "download",
        advice="Look at the file system of the cache mount: free space and inodes.",
        source=github("huggingface/text-generation-inference", 3087),
    ),
    Signature(
        "disk-full", ("Not enough free disk space to download the file",), SYMPTOM, "weights", "download",
        where=WARNED, name="warning",
        advice="Look at the file system of the cache mount: free space and inodes.",
        source=github("huggingface/text-generation-inference", 3087),
    ),
    Signature(
        "shm-too-small", ("Bus error", "SIGBUS", "(exit code: -7)"), LIKELY, "", "load",
        where=("raw", "error", "traceback", "launcher"), name="bus",
        advice="Compare the size of /dev/shm in the container with the official launch; a mapped "
        "file was cut off.",
        source="https://docs.docker.com/engine/containers/run/",
    ),
    Signature(
        "unsupported-kernel-backend",
        (
            " backend supports ", "No valid attention backend found", "is not valid for this configuration",
            "No suitable backend",
        ),
        ROOT, "weights", "model-init", since="0.11",
        advice="Compare GPU model, quantisation and the image's build with the official launch "
        "for this hardware.",
        source=vllm(50000, "pull"),
    ),
    Signature(
        "checkpoint-mismatch",
        (
            "weights were not initialized from checkpoint", "There is no module or parameter named",
            "size mismatch for", "loaded_weight.shape", "Attempted to load weight",
        ),
        ROOT, "weights", "load", since="0.9",
        advice="Compare the checkpoint's revision and quantisation with config.json and the "
        "launch arguments.",
        source=VLLM_SOURCE + "model_executor/models/utils.py",
    ),
    Signature(
        "checkpoint-mismatch", ("AssertionError",), LIKELY, "weights", "load", where=RAISED,
        frames=(
            "weight_loader", "weight_loader_v2", "default_weight_loader", "load_column_parallel_weight",
            "load_row_parallel_weight", "load_qkv_weight", "load_merged_column_weight",
        ),
        name="assert", since="0.9",
        advice="Compare the checkpoint's revision and quantisation with config.json and the "
        "launch arguments.",
        source=VLLM_SOURCE + "model_executor/model_loader/weight_utils.py",
    ),
    Signature(
        "checkpoint-mismatch", ("KeyError: '",), LIKELY, "weights", "load", frames=("load_weights",),
        where=RAISED, name="key", since="0.9",
        advice="Compare the checkpoint's revision and quantisation with config.json and the "
        "launch arguments.",
        source=VLLM_SOURCE + "model_executor/models/utils.py",
    ),
    Signature(
        "cuda-oom-weights", ("Failed to load model - not enough GPU memory",), LIKELY, "weights", "load",
        name="hint", since="0.13",
        advice="Compare weights per rank with free memory per GPU before the start; see who else "
        "holds memory.",
        source=vllm(31273),
    ),
)
