# What the real vLLM for the CPU needs beside its interpreter and environment, which are mounted read-only.
ARG BASE=gpufleet-lab/base:bookworm
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends libssl3 libffi8 libsqlite3-0 libreadline8 \
        libbz2-1.0 liblzma5 libgomp1 libnuma1 libncursesw6 \
    && rm -rf /var/lib/apt/lists/*
