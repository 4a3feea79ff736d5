# Copyright (c) 2026, the gpufleet.baseline authors
# SPDX-License-Identifier: GPL-3.0-or-later
# The stand-in engine in an image that looks like vllm/vllm-openai from outside: entry point, environment, labels,
# working folder and *.dist-info, so that versions are read as on a real host, without exec.
# https://github.com/vllm-project/vllm/blob/main/docker/Dockerfile
ARG BASE=gpufleet-lab/base:latest
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/*
ARG VLLM_VERSION=0.32.0
ARG TORCH_VERSION=2.13.0+cu130
ARG NCCL_VERSION=2.28.9
ARG CUDA_VERSION=13.0.2
LABEL org.opencontainers.image.title="stand-in for vllm/vllm-openai" \
    org.opencontainers.image.version="${VLLM_VERSION}" \
    maintainer="the gpufleet.baseline authors"
ENV NVARCH=x86_64 \
    CUDA_VERSION=${CUDA_VERSION} \
    NVIDIA_REQUIRE_CUDA=cuda>=13.0 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64 \
    VLLM_USAGE_SOURCE=production-docker-image \
    LAB_TIME_FACTOR=0.05
RUN cd /usr/local/lib && mkdir -p python3.12/dist-packages && cd python3.12/dist-packages \
    && for part in "vllm ${VLLM_VERSION}" "torch ${TORCH_VERSION}" "nvidia_nccl_cu13 ${NCCL_VERSION}"; do \
         set -- $part; mkdir "$1-$2.dist-info"; \
         printf 'Metadata-Version: 2.4\nName: %s\nVersion: %s\n' "$(echo "$1" | tr _ -)" "$2" \
           > "$1-$2.dist-info/METADATA"; \
       done
COPY recordings /usr/local/share/stand-in/recordings
COPY stand_in.py /usr/local/share/stand-in/stand_in.py
RUN chmod 755 /usr/local/share/stand-in/stand_in.py && ln -s /usr/local/share/stand-in/stand_in.py /usr/local/bin/vllm
WORKDIR /vllm-workspace
ENTRYPOINT ["vllm", "serve"]
