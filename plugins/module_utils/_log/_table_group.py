# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of process groups, rendezvous, NCCL and Gloo; private to the collection.

How to add one: docs/adding-a-signature.md
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    CONSEQUENCE,
    FAILING,
    LIKELY,
    NCCL_SOURCE,
    RAISED,
    ROOT,
    SYMPTOM,
    VLLM_SOURCE,
    Signature,
    github,
    vllm,
)

# fmt: off
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"

GROUP: Tuple[Signature, ...] = (
    Signature(
        "shm-too-small",
        (
            "Error while creating shared memory segment", "Call to posix_fallocate failed",
            "attaching to shared memory segment", "unable to mmap", "/dev/shm/nccl-",
        ),
        ROOT, "engine", "nccl-init",
        advice="Compare the size of /dev/shm in the container with the official launch, and see "
        "what fills it.",
        source=github("llm-d/llm-d", 352),
    ),
    Signature(
        "shm-too-small", ("No space left on device",), ROOT, "engine", "shared-memory",
        frames=(
            "shm_broadcast.py:__init__", "shared_memory.py:__init__", "shared_memory.py",
            "shm_object_storage.py",
        ),
        where=RAISED, name="python", since="0.9",
        advice="Compare the size of /dev/shm in the container with the official launch, and see "
        "what fills it.",
        source=vllm(18831),
    ),
    Signature(
        "shm-too-small", ("No space left on device", "not enough space"), ROOT, "engine", "shared-memory",
        also=("/dev/shm",), name="path",
        advice="Compare the size of /dev/shm in the container with the official launch, and see "
        "what fills it.",
        source=vllm(18831),
    ),
    Signature(
        "nccl-nvls", ("transport/nvls.cc:",), ROOT, "engine", "nccl-init", where=("nccl",),
        advice="Look at fabric manager, fabric state and driver of this host; NVLS multicast "
        "could not be set up.",
        source=github("NVIDIA/nccl", 1788),
    ),
    Signature(
        "nccl-nvls", ("Cuda failure 401", "Failed to bind NVLink SHARP (NVLS) Multicast memory"), ROOT,
        "engine", "nccl-init", where=("nccl",), name="401",
        advice="Look at fabric manager, fabric state and driver of this host; NVLS multicast "
        "could not be set up.",
        source=github("NVIDIA/nccl", 1672),
    ),
    Signature(
        "nccl-rdma-registration",
        (
            "Call to ibv_reg_mr", "Call to ibv_reg_dmabuf_mr", "errno 524", "Call to ibv_create_qp",
            "Call to ibv_create_cq",
        ),
        ROOT, "engine", "nccl-init", where=("nccl",),
        advice="Look at the memlock limit, the peer-memory module or DMA-BUF support, and the "
        "adapter's firmware on this host.",
        source=github("MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark", 259),
    ),
    Signature(
        "nccl-rdma-lib", ("undefined symbol: mlx5dv_get_data_direct_sysfs_path",), SYMPTOM, "engine",
        "nccl-init",
        advice="Usually only direct NIC access is off; compare rdma-core in the image with the host's.",
        source=vllm(42750),
    ),
    Signature(
        "nccl-ib-transport",
        ("with error 12", "status=IBV_WC_RETRY_EXC_ERR", "Got async event : GID table change", "with status=12"),
        LIKELY, "engine", "nccl-init", where=("nccl",),
        advice="The peer was not reached over RDMA: compare GID index, MTU and link state on "
        "both hosts.",
        source=github("NVIDIA/nccl", 1737),
    ),
    Signature(
        "nccl-ib-transport", ("Got completion from peer",), CONSEQUENCE, "engine", "nccl-init",
        where=("nccl",), name="flushed", advice="Look at the peer named in the line.",
        source=github("NVIDIA/nccl", 1737),
    ),
    Signature(
        "nccl-socket-ifname", ("Bootstrap : no socket interface found", "no socket interface found"), ROOT,
        "engine", "nccl-init", where=("nccl",),
        advice="Compare NCCL_SOCKET_IFNAME with the interface names of this host; each host "
        "needs its own.",
        source=vllm(40991, "pull"),
    ),
    Signature(
        "gloo-ifname", ("Unable to find address for:", "ifa != nullptr", "Unable to find interface for"),
        ROOT, "engine", "process-group",
        advice="Compare GLOO_SOCKET_IFNAME with the interface names of this host; each host "
        "needs its own.",
        source="https://github.com/pytorch/gloo",
    ),
    Signature(
        "gloo-connect", ("Gloo connectFullMesh failed",), ROOT, "engine", "process-group",
        advice="Compare the address each host gives for itself (hosts file, interface variables) "
        "with one the others can reach.",
        source=vllm(7074),
    ),
    Signature(
        "gloo-timeout", ("ms for recv operation to complete", "ms for send operation to complete"), SYMPTOM,
        "engine", "process-group", where=RAISED,
        advice="One rank did not arrive: compare the last line of every rank and the way between the hosts.",
        source=vllm(19045),
    ),
    Signature(
        "nccl-remote-peer",
        (
            "ncclRemoteError", "remote process exited or there was a network error",
            "Connection closed by remote peer",
        ),
        CONSEQUENCE, "engine", "nccl-init",
        advice="Look at the other ranks and hosts: this one only lost its peer.", source=_NCCL,
    ),
    Signature(
        "nccl-duplicate-gpu", ("Duplicate GPU detected",), ROOT, "engine", "nccl-init",
        advice="Two ranks were given the same GPU: compare rank placement with visible devices.",
        source=NCCL_SOURCE + "init.cc",
    ),
    Signature(
        "nccl-unknown",
        (
            "unhandled cuda error", "unhandled system error", "NCCL error: internal error",
            "internal error - please report this issue to the NCCL", "NCCL error: invalid usage",
            "ncclSystemError", "ncclInternalError", "ncclUnhandledCudaError", "ncclInvalidUsage",
            "NCCL error in:", "NCCL error: ",
        ),
        SYMPTOM, "engine", "nccl-init", since="0.9",
        advice="The cause is not in this log: run once more with NCCL_DEBUG=INFO and read the "
        "first NCCL WARN of every rank.",
        source=_NCCL,
    ),
    Signature(
        "internal-port-in-use", ("Address already in use (addr=",), ROOT, "engine", "handshake",
        since="0.9",
        advice="A stale engine or another start holds an internal port: see the processes of "
        "earlier runs.",
        source=github("gpustack/gpustack", 6019),
    ),
    Signature(
        "internal-port-in-use",
        ("The server socket has failed to listen on any local network address", "EADDRINUSE"), ROOT,
        "engine", "process-group", name="master",
        advice="A stale engine or another start holds the rendezvous port: see the processes of "
        "earlier runs.",
        source=vllm(11617),
    ),
    Signature(
        "rendezvous-timeout",
        (
            "The client socket has timed out after",
            "The client socket has failed to connect to any network address", "waiting for clients. ",
        ),
        ROOT, "engine", "process-group", where=FAILING,
        advice="Check that every host reaches the head's address and port; 172.17.x.x is a "
        "Docker bridge.",
        source=vllm(19670),
    ),
    Signature(
        "rendezvous-timeout",
        ("DistNetworkError", "DistStoreError: Timed out", "Timed out after", "wait timeout after"), LIKELY,
        "engine", "process-group", where=RAISED,
        frames=(
            "init_process_group", "init_distributed_environment", "_create_c10d_store",
            "_store_based_barrier", "rendezvous.py",
        ),
        name="exception",
        advice="Check that every host reaches the head's address and port, and which rank never came.",
        source=vllm(19670),
    ),
    Signature(
        "rendezvous-refused", ("(errno: 111 - Connection refused)",), SYMPTOM, "engine", "process-group",
        advice="Nothing listens at the head's address: see whether the head had already died.",
        source=vllm(19670),
    ),
    Signature(
        "peer-lost",
        (
            "recvValue failed", "Failed to recv, got 0 bytes", "sendBytes failed",
            'Failed to check the "should dump" flag on TCPStore', "Connection closed by peer",
            "Connection reset by peer [", "heartbeat monitor timed out",
        ),
        CONSEQUENCE, "", "peer", advice="Look at the other ranks and hosts: this one only lost its peer.",
        source=vllm(32136),
    ),
    Signature(
        "nccl-collective-timeout",
        ("Watchdog caught collective operation timeout", "ran for ", "collective operation timeout"),
        SYMPTOM, "engine", "collective", also=("WorkNCCL(",),
        advice="One rank did not arrive: compare the last line of every rank and the launch on "
        "every host.",
        source=vllm(44718, "pull"),
    ),
    Signature(
        "host-address-wrong", ("Cannot assign requested address",), ROOT, "engine", "handshake",
        since="0.9",
        advice="The address given for this host is not one of its own: compare VLLM_HOST_IP and "
        "the head address with the interfaces.",
        source=VLLM_SOURCE + "utils/network_utils.py",
    ),
    Signature(
        "dp-config-mismatch",
        (
            "use --headless in external or hybrid dp lb mode", "Configuration mismatch detected for engine",
            ", expected it to be",
        ),
        ROOT, "engine", "handshake", since="0.10",
        advice="Compare the data-parallel arguments of all hosts with each other and with the "
        "official launch.",
        source=github("gpustack/gpustack", 6221),
    ),
    Signature(
        "dp-config-mismatch", ("Remote engine ", "message from local engine", "message from remote engine"),
        ROOT, "engine", "handshake", also=("must",), where=RAISED, name="mode", since="0.10",
        advice="Compare the data-parallel arguments of all hosts with each other and with the "
        "official launch.",
        source=VLLM_SOURCE + "v1/engine/utils.py",
    ),
    Signature(
        "handshake-no-answer", ("Did not receive response from front-end process within",), CONSEQUENCE,
        "engine", "handshake", since="0.10", advice="Look at the head node: it failed or can't be reached.",
        source=VLLM_SOURCE + "v1/engine/core.py",
    ),
    Signature(
        "engine-ready-timeout",
        (
            "Timed out waiting for engine core processes to start",
            "Timed out waiting for engines to send initial message", "DP Coordinator process failed",
        ),
        SYMPTOM, "engine", "handshake", since="0.9",
        advice="See what each rank was doing at that time: it may still have been loading.",
        source=vllm(32116),
    ),
)
