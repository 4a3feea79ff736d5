// Copyright (c) 2026, the gpufleet.baseline authors
// GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// A stand-in for libnvidia-ml.so.1 that answers from the state file (sim.h), written over the official header
// (nvml.h of the package nvidia-nvml-dev). A function that is not here is, for nvidia-ml-py, one that the
// driver does not have. A key that is missing is a fact that the GPU does not support.
#define _POSIX_C_SOURCE 200809L
#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include <nvml.h>
#include <string.h>
#include <time.h>

#include "sim.h"

static int references;

// A handle is the state's GPU number plus one.
#define GPU ((int)((size_t)device - 1))
#define HANDLE(gpu) ((nvmlDevice_t)(size_t)((gpu) + 1))

static nvmlReturn_t check(int gpu, const char *key) {
    sim_load();
    int code = sim_failure(gpu, key);
    if (code) return (nvmlReturn_t)code;
    if (!references) return NVML_ERROR_UNINITIALIZED;
    if (gpu == -1) return NVML_SUCCESS;
    if (gpu < 0 || gpu >= SIM_GPUS || !sim_gpu(gpu, "uuid")) return NVML_ERROR_INVALID_ARGUMENT;
    return sim_gpu(gpu, "lost") || sim_gpu(gpu, "missing") ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}
#define ASK(gpu, key)                     \
    nvmlReturn_t result = check(gpu, key); \
    if (result) return result
#define WANT(pointer) \
    if (!(pointer)) return NVML_ERROR_INVALID_ARGUMENT
#define VERSION(structure, tag) \
    if ((structure)->version != (tag)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH

static nvmlReturn_t text(const char *value, char *out, unsigned size) {
    WANT(out);
    if (!value) return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(value) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, value);
    return NVML_SUCCESS;
}
static nvmlReturn_t number(const char *value, unsigned *out) {
    WANT(out);
    if (!value) return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned)sim_number(value, 0);
    return NVML_SUCCESS;
}
#define TEXT(function, key)                                                   \
    nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned size) { \
        ASK(GPU, key);                                                     \
        return text(sim_gpu(GPU, key), out, size);                         \
    }
#define NUMBER(function, key)                                       \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *out) { \
        ASK(GPU, key);                                          \
        return number(sim_gpu(GPU, key), out);                  \
    }
// A current value and a pending one, which is the same unless the state says otherwise.
#define PENDING(function, type, key)                                               \
    nvmlReturn_t function(nvmlDevice_t device, type *current, type *pending) {     \
        ASK(GPU, key);                                                             \
        WANT(current && pending);                                                  \
        const char *now = sim_gpu(GPU, key), *next = sim_gpu(GPU, key ".pending"); \
        if (!now) return NVML_ERROR_NOT_SUPPORTED;                                 \
        *current = (type)sim_number(now, 0);                                       \
        *pending = (type)sim_number(next, *current);                               \
        return NVML_SUCCESS;                                                       \
    }

// --- library and system -------------------------------------------------------------------------------------

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    sim_load();
    int code = sim_failure(-1, "init");
    const char *loaded = sim_get("driver_version"), *library = sim_get("library_version");
    if (code) return (nvmlReturn_t)code;
    if (!loaded) return NVML_ERROR_DRIVER_NOT_LOADED;
    if (library && strcmp(loaded, library)) return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    references++;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlShutdown(void) {
    if (!references) return NVML_ERROR_UNINITIALIZED;
    references--;
    return NVML_SUCCESS;
}
const char *nvmlErrorString(nvmlReturn_t code) {
    switch (code) {
        case NVML_SUCCESS: return "Success";
        case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
        case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
        case NVML_ERROR_NOT_FOUND: return "Not Found";
        case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
        case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
        case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
        default: return "Unknown Error";
    }
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) {
    ASK(-1, "driver_version");
    return text(sim_get("driver_version"), out, size);
}
nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *branch, unsigned size) {
    ASK(-1, "driver_branch");
    WANT(branch);
    return text(sim_get("driver_branch"), branch->branch, size);
}
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    ASK(-1, "nvml_version");
    return text(sim_get("nvml_version"), out, size);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ASK(-1, "cuda_version");
    return number(sim_get("cuda_version"), (unsigned *)out);
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

// --- devices ------------------------------------------------------------------------------------------------

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) {
    int gpus[SIM_GPUS];
    ASK(-1, "count");
    WANT(out);
    *out = (unsigned)sim_visible(gpus);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    int gpus[SIM_GPUS];
    ASK(-1, "handle");
    WANT(device);
    if (index >= (unsigned)sim_visible(gpus)) return NVML_ERROR_INVALID_ARGUMENT;
    result = check(gpus[index], "handle");
    if (!result) *device = HANDLE(gpus[index]);
    return result;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    int gpus[SIM_GPUS];
    ASK(-1, "handle");
    WANT(uuid && device);
    for (int i = sim_visible(gpus) - 1; i >= 0; i--)
        if (!strcmp(sim_gpu(gpus[i], "uuid"), uuid)) return nvmlDeviceGetHandleByIndex_v2((unsigned)i, device);
    return NVML_ERROR_NOT_FOUND;
}
static int place(int gpu, unsigned *domain, unsigned *bus, unsigned *slot) {
    const char *value = sim_gpu(gpu, "pci");
    return value && sscanf(value, "%x:%x:%x", domain, bus, slot) == 3;
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device) {
    int gpus[SIM_GPUS];
    unsigned wanted[3], found[3];
    ASK(-1, "handle");
    WANT(address && device);
    if (sscanf(address, "%x:%x:%x", &wanted[0], &wanted[1], &wanted[2]) != 3) return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = sim_visible(gpus) - 1; i >= 0; i--)
        if (place(gpus[i], &found[0], &found[1], &found[2]) && !memcmp(wanted, found, sizeof found))
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, device);
    return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out) {
    int gpus[SIM_GPUS];
    ASK(GPU, "index");
    WANT(out);
    for (int i = sim_visible(gpus) - 1; i >= 0; i--)
        if (gpus[i] == GPU) *out = (unsigned)i;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *out) {
    ASK(GPU, "minor");
    WANT(out);
    *out = (unsigned)GPU;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ASK(GPU, "pci");
    WANT(pci);
    memset(pci, 0, sizeof *pci);
    if (!place(GPU, &pci->domain, &pci->bus, &pci->device)) return NVML_ERROR_NOT_SUPPORTED;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, pci->domain & 0xffff,
             pci->bus, pci->device);
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, pci->domain, pci->bus, pci->device);
    pci->pciDeviceId = (unsigned)sim_number(sim_gpu(GPU, "pci_device_id"), 0);
    pci->pciSubSystemId = (unsigned)sim_number(sim_gpu(GPU, "pci_subsystem_id"), 0);
    return NVML_SUCCESS;
}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetModuleId, "module_id")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetNumaNodeId, "numa_node")
NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
NUMBER(nvmlDeviceGetPowerUsage, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit")
NUMBER(nvmlDeviceGetVirtualizationMode, "virtualization")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig.devices")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages_pending")
PENDING(nvmlDeviceGetMigMode, unsigned, "mig")
PENDING(nvmlDeviceGetEccMode, nvmlEnableState_t, "ecc")

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *out) {
    ASK(GPU, "gsp_firmware");
    return text(sim_get("driver_version"), out, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}
nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned *enabled, unsigned *standard) {
    ASK(GPU, "gsp_firmware");
    WANT(enabled && standard);
    *enabled = *standard = 1;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    ASK(GPU, "compute_capability");
    WANT(major && minor);
    const char *value = sim_gpu(GPU, "compute_capability");
    return value && sscanf(value, "%d.%d", major, minor) == 2 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode) {
    ASK(GPU, "addressing_mode");
    WANT(mode);
    return number(sim_gpu(GPU, "addressing_mode"), &mode->value);
}
nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *mode) {
    ASK(GPU, "c2c");
    WANT(mode);
    return number(sim_gpu(GPU, "c2c"), &mode->isC2cEnabled);
}
nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info) {
    ASK(GPU, "platform");
    WANT(info);
    VERSION(info, nvmlPlatformInfo_v2);
    const char *chassis = sim_gpu(GPU, "platform.chassis");
    if (!chassis) return NVML_ERROR_NOT_SUPPORTED;
    unsigned version = info->version;
    memset(info, 0, sizeof *info);
    info->version = version;
    memcpy(info->chassisSerialNumber, chassis, strnlen(chassis, sizeof info->chassisSerialNumber));
    info->slotNumber = (unsigned char)sim_number(sim_gpu(GPU, "platform.slot"), 0);
    info->trayIndex = (unsigned char)sim_number(sim_gpu(GPU, "platform.tray"), 0);
    info->hostId = (unsigned char)sim_number(sim_gpu(GPU, "platform.host"), 0);
    info->peerType = (unsigned char)sim_number(sim_gpu(GPU, "platform.peer_type"), 0);
    info->moduleId = (unsigned char)sim_number(sim_gpu(GPU, "module_id"), 0);
    return NVML_SUCCESS;
}

// --- memory, health and use -----------------------------------------------------------------------------------

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ASK(GPU, "memory");
    WANT(memory);
    memory->total = sim_memory(GPU, "total");
    memory->used = sim_memory(GPU, "used") + sim_memory(GPU, "reserved");  // the first version adds the two
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    ASK(GPU, "memory");
    WANT(memory);
    VERSION(memory, nvmlMemory_v2);
    memory->total = sim_memory(GPU, "total");
    memory->reserved = sim_memory(GPU, "reserved");
    memory->used = sim_memory(GPU, "used");
    memory->free = memory->total - memory->used - memory->reserved;
    return NVML_SUCCESS;
}
// Asked twice: with no room it answers how many there are.
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out) {
    sim_holder holders[64];
    ASK(GPU, "processes");
    WANT(count);
    unsigned found = (unsigned)sim_processes(GPU, holders, 64), room = out ? *count : 0;
    *count = found;
    if (found > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++)
        out[i] = (nvmlProcessInfo_t){.pid = holders[i].pid,
                                     .usedGpuMemory = holders[i].bytes,
                                     .gpuInstanceId = ~0u,
                                     .computeInstanceId = ~0u};
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out) {
    (void)out;
    ASK(GPU, "processes");
    WANT(count);
    *count = 0;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, out);
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    ASK(GPU, "utilization");
    WANT(rates);
    rates->gpu = (unsigned)sim_number(sim_gpu(GPU, "utilization"), 0);
    rates->memory = (unsigned)sim_number(sim_gpu(GPU, "utilization.memory"), 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature) {
    ASK(GPU, "temperature");
    WANT(temperature);
    VERSION(temperature, nvmlTemperature_v1);
    return number(sim_gpu(GPU, "temperature"), (unsigned *)&temperature->temperature);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *out) {
    (void)sensor;
    ASK(GPU, "temperature");
    return number(sim_gpu(GPU, "temperature"), out);
}
static nvmlReturn_t clock_rate(int gpu, const char *prefix, nvmlClockType_t type, unsigned *out) {
    static const char *const names[] = {"graphics", "graphics", "memory", "video"};  // SM runs as graphics does
    char key[40];
    if ((unsigned)type > NVML_CLOCK_VIDEO) return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%s.%s", prefix, names[type]);
    return number(sim_gpu(gpu, key), out);
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *out) {
    ASK(GPU, "clock");
    return clock_rate(GPU, "clock", type, out);
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *out) {
    ASK(GPU, "clock");
    return clock_rate(GPU, "clock.max", type, out);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *out) {
    ASK(GPU, "clocks_event_reasons");
    WANT(out);
    *out = (unsigned long long)sim_number(sim_gpu(GPU, "clocks_event_reasons"), 1);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *out) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, out);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *out) {
    (void)counter;
    ASK(GPU, "ecc_errors");
    WANT(out);
    const char *key = type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? "ecc.uncorrected" : "ecc.corrected";
    *out = (unsigned long long)sim_number(sim_gpu(GPU, key), 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                       unsigned *pending, unsigned *failure) {
    ASK(GPU, "remapped_rows");
    WANT(corrected && uncorrected && pending && failure);
    *corrected = (unsigned)sim_number(sim_gpu(GPU, "remapped.corrected"), 0);
    *uncorrected = (unsigned)sim_number(sim_gpu(GPU, "remapped.uncorrected"), 0);
    *pending = (unsigned)sim_number(sim_gpu(GPU, "remapped.pending"), 0);
    *failure = (unsigned)sim_number(sim_gpu(GPU, "remapped.failure"), 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_t *status) {
    ASK(GPU, "repair");
    WANT(status);
    status->bChannelRepairPending = (unsigned)sim_number(sim_gpu(GPU, "repair.channel"), 0);
    status->bTpcRepairPending = (unsigned)sim_number(sim_gpu(GPU, "repair.tpc"), 0);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, nvmlUnrepairableMemoryStatus_v1_t *status) {
    ASK(GPU, "repair");
    WANT(status);
    status->bUnrepairableMemory = (unsigned)sim_number(sim_gpu(GPU, "repair.unrepairable"), 0);
    return NVML_SUCCESS;
}
// A field is the state's field.<number>; the two that have names of their own are under these.
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields) {
    ASK(GPU, "fields");
    WANT(fields);
    for (int i = 0; i < count; i++) {
        char key[40];
        snprintf(key, sizeof key, "field.%u", fields[i].fieldId);
        if (fields[i].fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT) strcpy(key, "nvlink.count");
        if (fields[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) strcpy(key, "recovery_action");
        fields[i].timestamp = (long long)time(NULL) * 1000000;
        fields[i].latencyUsec = 0;
        fields[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        fields[i].nvmlReturn = number(sim_gpu(GPU, key), &fields[i].value.uiVal);
    }
    return NVML_SUCCESS;
}

// --- NVLink and its fabric ------------------------------------------------------------------------------------

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *out) {
    ASK(GPU, "nvlink");
    WANT(out);
    long long links = sim_number(sim_gpu(GPU, "nvlink.count"), 0);
    if (!links) return NVML_ERROR_NOT_SUPPORTED;
    if (link >= links) return NVML_ERROR_INVALID_ARGUMENT;
    *out = link < sim_number(sim_gpu(GPU, "nvlink.active"), links) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *out) {
    (void)link;
    ASK(GPU, "nvlink");
    return number(sim_gpu(GPU, "nvlink.version"), out);
}
static void cluster_uuid(int gpu, unsigned char out[NVML_GPU_FABRIC_UUID_LEN]) {
    const char *value = sim_gpu(gpu, "fabric.cluster");
    memset(out, 0, NVML_GPU_FABRIC_UUID_LEN);
    for (int i = 0; value && *value && i < NVML_GPU_FABRIC_UUID_LEN;) {
        unsigned byte;
        if (*value == '-') {
            value++;
        } else {
            if (sscanf(value, "%2x", &byte) != 1 || !value[1]) return;
            out[i++] = (unsigned char)byte;
            value += 2;
        }
    }
}
#define FABRIC(info)                                                                         \
    if (!sim_gpu(GPU, "fabric.state")) return NVML_ERROR_NOT_SUPPORTED;                      \
    cluster_uuid(GPU, (info)->clusterUuid);                                                  \
    (info)->status = (nvmlReturn_t)sim_number(sim_gpu(GPU, "fabric.status"), NVML_SUCCESS); \
    (info)->state = (nvmlGpuFabricState_t)sim_number(sim_gpu(GPU, "fabric.state"), 0)
#define FABRIC_HEALTH(info) (info)->healthMask = (unsigned)sim_number(sim_gpu(GPU, "fabric.health_mask"), 0)
#define CLIQUE ((unsigned)sim_number(sim_gpu(GPU, "fabric.clique"), 0))
#define HEALTH ((unsigned char)sim_number(sim_gpu(GPU, "fabric.health"), 0))

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info) {
    ASK(GPU, "fabric");
    WANT(info);
    FABRIC(info);
    info->cliqueId = CLIQUE;
    return NVML_SUCCESS;
}
// One entry point for two versions; the older structure ends before the health summary.
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info) {
    ASK(GPU, "fabric");
    WANT(info);
    if (info->version != nvmlGpuFabricInfo_v2) VERSION(info, nvmlGpuFabricInfo_v3);
    FABRIC(info);
    FABRIC_HEALTH(info);
    info->cliqueId = CLIQUE;
    if (info->version == nvmlGpuFabricInfo_v3) info->healthSummary = HEALTH;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, nvmlIntNvLinkDeviceType_t *out) {
    (void)link;
    ASK(GPU, "nvlink");
    WANT(out);
    *out = NVML_NVLINK_DEVICE_TYPE_SWITCH;
    return NVML_SUCCESS;
}
