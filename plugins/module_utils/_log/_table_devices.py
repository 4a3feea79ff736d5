# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures of the stage devices and of the kernel's log; private to the collection.

How to add one: docs/adding-a-signature.md
"""

from __future__ import annotations

from typing import Tuple

from ansible_collections.gpufleet.baseline.plugins.module_utils._log._signature import (
    KERNEL,
    LIKELY,
    RAISED,
    ROOT,
    TORCH_SOURCE,
    VLLM_SOURCE,
    WARNED,
    Signature,
    github,
    vllm,
)

# fmt: off
DEVICES: Tuple[Signature, ...] = (
    Signature(
        "cuda-library-missing",
        ("Failed to import from vllm._C", "libcudart.so", "libcublas.so", "libnvrtc.so", "libcudnn.so"),
        ROOT, "devices", "libraries", also=("cannot open shared object file",), where=WARNED, since="0.9",
        advice="Compare the image's CUDA build with the libraries in it; another wheel or base "
        "image was mixed in.",
        source=github("llm-d/llm-d", 1402),
    ),
    Signature(
        "cuda-library-missing", ("Failed to import from vllm._C",), ROOT, "devices", "libraries",
        where=WARNED, name="extension", since="0.9",
        advice="The compiled extension did not load: compare the image's torch and CUDA builds.",
        source=VLLM_SOURCE + "platforms/cuda.py",
    ),
    Signature(
        "cuda-library-missing", (".abi3.so: undefined symbol: ", "libtorch_cuda.so: undefined symbol: "),
        ROOT, "devices", "libraries", where=RAISED, name="symbol", since="0.9",
        advice="The compiled extension was built for another torch: compare the image's torch and vLLM builds.",
        source=VLLM_SOURCE + "platforms/cuda.py",
    ),
    Signature(
        "driver-too-old", ("The NVIDIA driver on your system is too old",), ROOT, "devices", "init-device",
        where=WARNED, since="0.9",
        advice="Compare the host's driver branch with the CUDA build of the image.",
        source=vllm(33992, "pull"),
    ),
    Signature(
        "driver-803-compat-libs", ("Error 803: ", "unsupported display driver / cuda driver combination"),
        ROOT, "devices", "init-device", where=WARNED, since="0.9",
        advice="See which libcuda the process maps: compat libraries of the image shadow the "
        "host's driver.",
        source=github("llm-d/llm-d", 706),
    ),
    Signature(
        "driver-804-forward-compat",
        ("Error 804: ", "forward compatibility was attempted on non supported HW"), ROOT, "devices",
        "init-device", where=WARNED, since="0.9",
        advice="Compat libraries of the image do not work on this GPU: use the host driver's "
        "libcuda or an older CUDA build.",
        source=github("gpustack/gpustack", 1254),
    ),
    Signature(
        "fabric-manager-802", ("Error 802: ", "system not yet initialized"), ROOT, "devices", "init-device",
        where=WARNED, since="0.9",
        advice="Look at the fabric manager service and the GPUs' fabric state on this host.",
        source=github("gpustack/gpustack", 1254),
    ),
    Signature(
        "unsupported-arch", ("no kernel image is available for execution on the device",), ROOT, "devices",
        "kernel-image",
        advice="Compare the GPU's compute capability with the architectures this build was made for.",
        source=vllm(19185), since="0.9",
    ),
    Signature(
        "gpu-ecc", ("uncorrectable ECC error encountered", "cudaErrorECCUncorrectable"), ROOT, "",
        advice="Look for Xid 48, 63, 64, 94 and 95 in the kernel log and at the GPU's remapped rows.",
        source=TORCH_SOURCE,
    ),
    Signature(
        "no-gpu-visible", ("No CUDA GPUs are available", "no CUDA-capable device is detected"), ROOT,
        "devices", "init-device", since="0.9",
        advice="Compare the container's device request and CUDA_VISIBLE_DEVICES with the host's GPUs.",
        source=vllm(26774),
    ),
    Signature(
        "no-gpu-visible", ("Failed to infer device type", "Found no NVIDIA driver on your system"), ROOT,
        "devices", "platform", name="platform", since="0.9",
        advice="The container was probably started without GPUs: compare its device request with "
        "the host.",
        source=VLLM_SOURCE + "config/device.py",
    ),
    Signature(
        "no-gpu-visible", ("libcuda.so.1: cannot open shared object file",), LIKELY, "devices", "platform",
        name="libcuda", since="0.9",
        advice="No driver library in the container: compare its device request with the host.",
        source=VLLM_SOURCE + "config/device.py",
    ),
    Signature(
        "device-ordinal-invalid", ("CUDA error: invalid device ordinal",), ROOT, "devices", "init-device",
        advice="Compare the number of GPUs in the container with the ranks placed on this host.",
        source=TORCH_SOURCE,
    ),
    Signature(
        "device-busy",
        (
            "all CUDA-capable devices are busy or unavailable",
            "CUDA-capable device(s) is/are busy or unavailable",
        ),
        ROOT, "devices", "init-device", advice="Look at compute mode, MIG and the processes on each GPU.",
        source=TORCH_SOURCE,
    ),
    Signature(
        "gpu-count-mismatch",
        ("is larger than the number of available GPUs", "exceeds assigned_physical_gpu_ids count"), ROOT,
        "devices", "gpu-count", since="0.9",
        advice="Compare the parallel sizes with the GPUs that the container sees on each host.",
        source=VLLM_SOURCE + "config/parallel.py",
    ),
    Signature(
        "gpu-count-mismatch", ("DP adjusted local rank ",), ROOT, "devices", "gpu-count",
        also=("is out of bounds",), name="local-rank", since="0.11",
        advice="Compare the data-parallel ranks of this host with the GPUs that the container sees.",
        source=VLLM_SOURCE + "v1/worker/gpu_worker.py",
    ),
    Signature(
        "gpu-count-mismatch",
        (
            "required GPUs exceeds the total number of available GPUs",
            "Cannot provide a placement group of", "Current node has no GPU available",
        ),
        ROOT, "devices", "gpu-count", name="ray", since="0.9",
        advice="Compare the parallel sizes with the GPUs that ray status shows for each node.",
        source=VLLM_SOURCE + "v1/executor/ray_utils.py",
    ),
    Signature(
        "gpu-memory-occupied",
        (
            "is less than desired GPU memory utilization",
            "is less than the engine's budget after excluding external",
            "Externally held weights on device",
        ),
        ROOT, "devices", "memory-check", since="0.9",
        advice="See which processes hold memory on this GPU, in containers and outside, before "
        "changing anything.",
        source=vllm(20305),
    ),
    Signature(
        "memory-changed-during-profiling", ("Error in memory profiling. Initial free memory",), ROOT,
        "engine", "profile", since="0.9",
        advice="Another process took or freed GPU memory during profiling: see who shares the GPU.",
        source=VLLM_SOURCE + "v1/worker/gpu_worker.py",
    ),
    Signature(
        "nvml-library-not-found", ("NVMLError_LibraryNotFound", "NVML Shared Library Not Found"), ROOT,
        "devices", "nvml", where=RAISED, since="0.9",
        advice="The driver's user libraries are not in the container: compare its device request "
        "with the host.",
        source="https://docs.nvidia.com/deploy/nvml-api/",
    ),
    Signature(
        "nvml-driver-library-mismatch",
        ("NVMLError_LibRmVersionMismatch", "Driver/library version mismatch"), ROOT, "devices", "nvml",
        name="python", since="0.9",
        advice="Compare the loaded kernel module with the driver's user libraries.",
        source="https://docs.nvidia.com/deploy/nvml-api/",
    ),
    Signature(
        "capability-dtype", ("Bfloat16 is only supported on GPUs with compute capability",), ROOT,
        "devices", "capability", since="0.9",
        advice="Compare the GPU's compute capability with what the model's data type needs.",
        source=VLLM_SOURCE + "platforms/cuda.py",
    ),
    Signature(
        "driver-unknown-error",
        ("CUDA unknown error", "CUDA driver initialization failed", "cuInit returned"), LIKELY, "devices",
        "init-device", advice="Run a CUDA program outside the container and look at the kernel log.",
        source=TORCH_SOURCE,
    ),
)

KERNEL_LOG: Tuple[Signature, ...] = (
    Signature(
        "nvml-driver-library-mismatch", ("NVRM: API mismatch",), ROOT, "container", "start", where=KERNEL,
        name="kernel", advice="Compare the loaded kernel module with the driver's user libraries.",
        source="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Signature(
        "gpu-xid", ("NVRM: Xid (", "GPU has fallen off the bus"), ROOT, "", where=KERNEL,
        advice="Look the Xid number up and test this GPU alone.",
        source="https://docs.nvidia.com/deploy/xid-errors/",
    ),
    Signature(
        "gpu-sxid", ("SXid (",), ROOT, "", where=KERNEL,
        advice="Look the SXid up: an NVSwitch or a link reports it, not a GPU.", source=vllm(40652),
    ),
    Signature(
        "host-oom-killed",
        ("oom-kill:", "Out of memory: Killed process", "Memory cgroup out of memory: Killed process"), ROOT,
        "", where=KERNEL,
        advice="Compare the container's memory limit and the host's free memory with what "
        "loading needs.",
        source="https://docs.kernel.org/admin-guide/cgroup-v2.html",
    ),
    Signature(
        "process-crashed", ("segfault at ", "general protection"), LIKELY, "", where=KERNEL, also=("VLLM",),
        name="kernel", advice="Look for the crashing library in the kernel's line.",
        source="https://docs.kernel.org/admin-guide/bug-hunting.html",
    ),
)
