# Copyright (c) 2026, the gpufleet.baseline authors
# SPDX-License-Identifier: GPL-3.0-or-later
# What the real vLLM for the CPU needs beside its interpreter, its environment and the model: those are mounted.
ARG BASE=gpufleet-lab/base:latest
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends libssl3 libffi8 libsqlite3-0 libreadline8 \
        libbz2-1.0 liblzma5 libgomp1 libnuma1 libncursesw6 \
    && rm -rf /var/lib/apt/lists/*
# Dynamo off: there is no compiler in the image, and the first request would end in InvalidCxxCompiler.
ENV HF_HUB_OFFLINE=1 \
    VLLM_CPU_KVCACHE_SPACE=1 \
    VLLM_NO_USAGE_STATS=1 \
    VLLM_USAGE_SOURCE=production-docker-image \
    TORCHDYNAMO_DISABLE=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /vllm-workspace
ENTRYPOINT ["vllm", "serve"]
