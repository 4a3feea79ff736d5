// Copyright (c) 2026, the gpufleet.baseline authors
// GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// A stand-in for libcuda.so.1, as much of it as makes a process a holder of GPU memory: the process opens the
// GPU's device file and holds a lock as long as what it allocated (sim.h). Nothing computes. Every cuInit is noted in cuda.log beside the state where that can be written.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <unistd.h>

#include "sim.h"

typedef int CUresult;
typedef int CUdevice;
typedef struct context *CUcontext;
typedef unsigned long long CUdeviceptr;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };

static const unsigned long long CONTEXT_BYTES = 500ULL << 20;  // a context alone holds about as much
static struct context {
    int lock;  // descriptor of the GPU's file; the lock on it is as long as the memory is large
    unsigned long long bytes;
} contexts[SIM_GPUS];
static int initialized, current = -1;

static void note(void) {
    char text[300];
    snprintf(text, sizeof text, "%s/cuda.log", sim_folder());
    int file = open(text, O_WRONLY | O_APPEND);
    int length = snprintf(text, sizeof text, "cuInit by %d\n", getpid());
    if (file < 0) return;
    if (write(file, text, (size_t)length) < 0) perror("cuda.log");
    close(file);
}

CUresult cuInit(unsigned flags) {
    (void)flags;
    int gpus[SIM_GPUS];
    sim_load();
    note();
    int code = sim_failure(-1, "cuda");
    if (code) return code;
    if (!sim_visible(gpus)) return NO_DEVICE;
    initialized = 1;
    return SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
    sim_load();
    *version = (int)sim_number(sim_get("cuda_version"), 0);
    return SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    int gpus[SIM_GPUS];
    if (!initialized) return NOT_INITIALIZED;
    *count = sim_visible(gpus);
    return SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    int gpus[SIM_GPUS];
    if (!initialized) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= sim_visible(gpus)) return INVALID_DEVICE;
    *device = gpus[ordinal];
    return SUCCESS;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    const char *value = sim_gpu(device, "name");
    snprintf(name, (size_t)size, "%s", value ? value : "");
    return SUCCESS;
}

static CUresult grow(int gpu, unsigned long long bytes) {
    struct context *context = &contexts[gpu];
    if (sim_memory(gpu, "used") + sim_memory(gpu, "reserved") + bytes > sim_memory(gpu, "total")) return OUT_OF_MEMORY;
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = (off_t)(context->bytes + bytes)};
    if (fcntl(context->lock, F_SETLK, &range)) return OUT_OF_MEMORY;
    context->bytes += bytes;
    return SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice gpu) {
    char path[300];
    if (!initialized) return NOT_INITIALIZED;
    if (gpu < 0 || gpu >= SIM_GPUS) return INVALID_DEVICE;
    *context = &contexts[gpu];
    current = gpu;
    if (contexts[gpu].bytes) return SUCCESS;
    snprintf(path, sizeof path, "/dev/nvidia%d", gpu);
    if (open(path, O_RDWR) < 0 || open("/dev/nvidiactl", O_RDWR) < 0) return NO_DEVICE;
    sim_path(path, sizeof path, gpu);
    if ((contexts[gpu].lock = open(path, O_RDONLY)) < 0) return NO_DEVICE;
    return grow(gpu, CONTEXT_BYTES);
}
CUresult cuCtxSetCurrent(CUcontext context) {
    current = (int)(context - contexts);
    return SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    if (current < 0) return NOT_INITIALIZED;
    if (!bytes) return INVALID_VALUE;
    *pointer = contexts[current].bytes;
    return grow(current, bytes);
}
CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (current < 0) return NOT_INITIALIZED;
    sim_load();
    *total = sim_memory(current, "total");
    *free = *total - sim_memory(current, "reserved") - sim_memory(current, "used");
    return SUCCESS;
}
