// Copyright (c) 2026, the gpufleet.baseline authors
// GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// A stand-in for nvidia-smi over the same state as the simulated library: the calls -L, -q, -q -x, the plain
// table, topo -m, nvlink -s, --query-gpu and --query-compute-apps. What -q prints are captures of a real host
// (smi/query.txt and smi/query.xml) whose facts are replaced by places to fill:
//   %{key}             the GPU's (or the driver's) key; "N/A" when the state has none, or %{key|this}
//   %{key=0:No,1:Yes}  the word for its number; %{key&0x4=...} for 1 when the bit is set;
//                      %{key>8.4=...} for the number in the four bits from bit 8
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "sim.h"

enum { NOT_LOADED = 9, LOST = 15, MISMATCH = 18 };

int nvmlInitWithFlags(unsigned flags);
const char *nvmlErrorString(int code);

// The GPUs that are spoken of; `offset` is the index of the first one where -i chose it.
static int gpus[SIM_GPUS], gpu_count, offset;

// --- one fact -------------------------------------------------------------------------------------------------

static void processes(int gpu, int xml, char *out, size_t size) {
    sim_holder holders[64];
    int count = sim_processes(gpu, holders, 64);
    size_t used = 0;
    const char *form = xml ? "\t\t\t<process_info>\n\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>\n"
                             "\t\t\t\t<compute_instance_id>N/A</compute_instance_id>\n\t\t\t\t<pid>%u</pid>\n"
                             "\t\t\t\t<type>C</type>\n\t\t\t\t<process_name>%s</process_name>\n"
                             "\t\t\t\t<used_memory>%llu MiB</used_memory>\n\t\t\t</process_info>\n"
                           : "        GPU instance ID                                : N/A\n"
                             "        Compute instance ID                            : N/A\n"
                             "        Process ID                                     : %u\n"
                             "            Type                                       : C\n"
                             "            Name                                       : %s\n"
                             "            Used GPU Memory                            : %llu MiB\n";
    out[0] = 0;
    if (!xml) used = (size_t)snprintf(out, size, count ? "    Processes\n" : "    %-51s: None\n", "Processes");
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, form, holders[i].pid, holders[i].name, holders[i].bytes >> 20);
}

// Facts that are not a key of the state as it stands.
static int composed(int gpu, int xml, const char *key, char *out, size_t size) {
    unsigned domain = 0, bus = 0, slot = 0;
    const char *pci = gpu >= 0 ? sim_gpu(gpu, "pci") : NULL, *shown;
    time_t now = time(NULL);
    if (pci) sscanf(pci, "%x:%x:%x", &domain, &bus, &slot);
    if (!strcmp(key, "bus_id")) return snprintf(out, size, "%08X:%02X:%02X.0", domain, bus, slot);
    if (!strcmp(key, "pci.domain")) return snprintf(out, size, "%04X", domain);
    if (!strcmp(key, "pci.bus")) return snprintf(out, size, "%02X", bus);
    if (!strcmp(key, "pci.device")) return snprintf(out, size, "%02X", slot);
    if (!strcmp(key, "pci.id")) return snprintf(out, size, "%08llX", sim_number(sim_gpu(gpu, "pci_device_id"), 0));
    if (!strcmp(key, "pci.subsystem"))
        return snprintf(out, size, "%08llX", sim_number(sim_gpu(gpu, "pci_subsystem_id"), 0));
    if (!strcmp(key, "board_id")) return snprintf(out, size, "0x%x", domain << 16 | bus << 8 | slot);
    if (!strcmp(key, "minor")) return snprintf(out, size, "%d", gpu);
    if (!strcmp(key, "attached")) return snprintf(out, size, "%d", gpu_count);
    if (!strcmp(key, "timestamp")) return (int)strftime(out, size, "%a %b %e %H:%M:%S %Y", localtime(&now));
    if (!strcmp(key, "cuda")) {
        long long version = sim_number(sim_get("cuda_version"), 0);
        return snprintf(out, size, "%lld.%lld", version / 1000, version % 1000 / 10);
    }
    if (!strncmp(key, "memory.", 7)) {
        unsigned long long rest = sim_memory(gpu, "reserved") + sim_memory(gpu, "used");
        unsigned long long bytes = strcmp(key, "memory.free") ? sim_memory(gpu, key + 7) : sim_memory(gpu, "total") - rest;
        return snprintf(out, size, "%llu", (bytes + (1 << 20) - 1) >> 20);  // the real one rounds up
    }
    if (!strcmp(key, "power.watts") || !strcmp(key, "power_limit.watts")) {
        shown = sim_gpu(gpu, strcmp(key, "power.watts") ? "power_limit" : "power");
        return snprintf(out, size, "%.2f", (double)sim_number(shown, 0) / 1000);
    }
    if (!strcmp(key, "processes")) {
        processes(gpu, xml, out, size);
        return 1;
    }
    if (!strncmp(key, "fabric.", 7)) {
        int joined = sim_number(sim_gpu(gpu, "fabric.state"), 0) == 3;
        long long status = sim_number(sim_gpu(gpu, "fabric.status"), 0);
        if (!strcmp(key, "fabric.outcome") && joined)
            return snprintf(out, size, "%s",
                            status == 0 ? "Success" : status == 23 ? "Insufficient Resources" : "Unknown Error");
        if (!strcmp(key, "fabric.clique.shown") && joined)
            return snprintf(out, size, "%s", sim_gpu(gpu, "fabric.clique") ? sim_gpu(gpu, "fabric.clique") : "0");
        if (!strcmp(key, "fabric.cluster.shown") && joined) {
            shown = sim_gpu(gpu, "fabric.cluster");
            return snprintf(out, size, "%s", shown ? shown : "00000000-0000-0000-0000-000000000000");
        }
    }
    return 0;
}

static const char *plain(int gpu, const char *key) {
    const char *value = gpu >= 0 ? sim_gpu(gpu, key) : sim_get(key);
    char base[60];
    size_t length = strlen(key);
    if (!value && length > 8 && !strcmp(key + length - 8, ".pending")) {
        snprintf(base, sizeof base, "%.*s", (int)(length - 8), key);
        value = sim_gpu(gpu, base);  // what is pending is what is current unless the state says otherwise
    }
    return value ? value : sim_get(key);
}

static void word(int gpu, char *key, const char *words, char *out, size_t size) {
    char *mask = strchr(key, '&'), *bits = strchr(key, '>');
    unsigned from = 0, width = 32, bit = 0;
    if (bits && sscanf(bits, ">%u.%u", &from, &width) == 2) *bits = 0;
    if (mask && sscanf(mask, "&%x", &bit) == 1) *mask = 0;
    long long number = sim_number(plain(gpu, key), 0);
    number = mask ? (number & bit) != 0 : (number >> from) & ((1LL << width) - 1);
    snprintf(out, size, "N/A");
    for (const char *at = words; at; at = strchr(at, ',')) {
        char text[60];
        long long candidate;
        if (*at == ',') at++;
        if (sscanf(at, "%lld:%59[^,]", &candidate, text) == 2 && candidate == number) snprintf(out, size, "%s", text);
    }
}

static void fact(int gpu, int xml, const char *place, char *out, size_t size) {
    char key[200];
    snprintf(key, sizeof key, "%s", place);
    char *words = strchr(key, '='), *otherwise = strchr(key, '|');
    if (words) {
        *words = 0;
        word(gpu, key, words + 1, out, size);
        return;
    }
    if (otherwise) *otherwise++ = 0;
    if (composed(gpu, xml, key, out, size)) return;
    const char *value = plain(gpu, key);
    snprintf(out, size, "%s", value ? value : otherwise ? otherwise : "N/A");
}

// --- -q and -q -x ---------------------------------------------------------------------------------------------

static void fill(int gpu, int xml, const char *line) {
    static char value[16384];
    char place[200];
    for (const char *at = line; *at;) {
        const char *end = strncmp(at, "%{", 2) ? NULL : strchr(at, '}');
        if (!end) {
            putchar(*at++);
            continue;
        }
        snprintf(place, sizeof place, "%.*s", (int)(end - at - 2), at + 2);
        fact(gpu, xml, place, value, sizeof value);
        fputs(value, stdout);
        at = end + 1;
    }
}

static int query(int xml) {
    static char lines[1000][300];
    char path[300];
    int count = 0, first = 0;
    snprintf(path, sizeof path, "%s/query.%s", sim_folder(), xml ? "xml" : "txt");
    FILE *file = fopen(path, "r");
    if (!file) return perror(path), 1;
    while (count < 1000 && fgets(lines[count], sizeof lines[0], file)) count++;
    fclose(file);
    for (int i = 0; i < count; i++) {
        if (!strcmp(lines[i], "@gpu\n")) first = i + 1;
        else if (!first) fill(-1, xml, lines[i]);
        else if (!strcmp(lines[i], "@end\n")) {
            for (int g = 0; g < gpu_count; g++)
                for (int l = first; l < i; l++) fill(gpus[g], xml, lines[l]);
            first = 0;
        }
    }
    return 0;
}

// --- the other forms ------------------------------------------------------------------------------------------

static const char *say(int gpu, const char *place) {
    static char values[8][300];
    static int next;
    char *value = values[next++ % 8];
    fact(gpu, 0, place, value, sizeof values[0]);
    return value;
}

static const char *memory(int gpu, const char *place) {
    static char values[2][40];
    static int next;
    char *value = values[next++ % 2];
    snprintf(value, sizeof values[0], "%sMiB", say(gpu, place));
    return value;
}

static void table_process(int gpu, int index, int *any) {
    sim_holder holders[64];
    int count = sim_processes(gpu, holders, 64);
    for (int i = 0; i < count; i++, *any = 1) {
        char name[40], use[40];
        size_t length = strlen(holders[i].name);
        snprintf(name, sizeof name, length > 30 ? "...%s" : "%s", holders[i].name + (length > 30 ? length - 27 : 0));
        snprintf(use, sizeof use, "%lluMiB", holders[i].bytes >> 20);
        if (strlen(use) > 8) strcpy(use + 5, "...");  // as the real one does above 99999 MiB
        printf("|  %3d   N/A  N/A %15u      C   %-30s  %8s |\n", index, holders[i].pid, name, use);
    }
}

static int table(void) {
    const char *rule = "+-----------------------------------------+------------------------+----------------------+\n";
    const char *line = "+-----------------------------------------------------------------------------------------+\n";
    int any = 0;
    printf("%s       \n%s", say(-1, "timestamp"), line);
    printf("| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", say(-1, "driver_version"),
           say(-1, "driver_version"), say(-1, "cuda"));
    printf("%s| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
           "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
           "|                                         |                        |               MIG M. |\n"
           "|=========================================+========================+======================|\n",
           rule);
    for (int i = 0; i < gpu_count; i++) {
        int g = gpus[i];
        printf("| %3d  %-27s %5s  |   %s Off | %20s |\n", i + offset, say(g, "name"), say(g, "persistence=0:Off,1:On"),
               say(g, "bus_id"), say(g, "ecc.uncorrected|0"));
        printf("| N/A  %3sC    P%s  %13.0fW / %4.0fW | %10s / %9s | %6s%%      Default |\n", say(g, "temperature"),
               say(g, "performance_state"), (double)(int)atof(say(g, "power.watts")), atof(say(g, "power_limit.watts")),
               memory(g, "memory.used"), memory(g, "memory.total"), say(g, "utilization|0"));
        printf("|                                         |                        | %20s |\n%s",
               say(g, "mig=0:Disabled,1:Enabled"), rule);
    }
    printf("\n%s| Processes:                                                                              |\n"
           "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
           "|        ID   ID                                                               Usage      |\n"
           "|=========================================================================================|\n",
           line);
    for (int i = 0; i < gpu_count; i++) table_process(gpus[i], i + offset, &any);
    if (!any) printf("|  No running processes found                                                             |\n");
    fputs(line, stdout);
    return 0;
}

static int list(void) {
    for (int i = 0; i < gpu_count; i++)
        printf("GPU %d: %s (UUID: %s)\n", i + offset, say(gpus[i], "name"), say(gpus[i], "uuid"));
    return 0;
}

static int topology(void) {
    printf("\t\033[4m");
    for (int i = 0; i < gpu_count; i++) printf("GPU%d\t", i);
    printf("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\n");
    for (int i = 0; i < gpu_count; i++) {
        printf("GPU%d", i);
        for (int j = 0; j < gpu_count; j++)
            if (i == j) printf("\t X ");
            else printf("\tNV%s", say(gpus[i], "nvlink.count"));
        printf("\t%s\t%s\t\t%s\n", say(gpus[i], "cpus"), say(gpus[i], "numa_affinity"), say(gpus[i], "numa_node|N/A"));
    }
    printf("\nLegend:\n\n  X    = Self\n"
           "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
           "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
           "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
           "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
           "  PIX  = Connection traversing at most a single PCIe bridge\n"
           "  NV#  = Connection traversing a bonded set of # NVLinks\n");
    return 0;
}

static int nvlink(void) {
    for (int i = 0; i < gpu_count; i++) {
        long long links = sim_number(sim_gpu(gpus[i], "nvlink.count"), 0);
        long long active = sim_number(sim_gpu(gpus[i], "nvlink.active"), links);
        printf("GPU %d: %s (UUID: %s)\n", i + offset, say(gpus[i], "name"), say(gpus[i], "uuid"));
        for (long long link = 0; link < links; link++)
            if (link < active) printf("\t Link %lld: %s GB/s\n", link, say(gpus[i], "nvlink.speed"));
            else printf("\t Link %lld: <inactive>\n", link);
    }
    return 0;
}

// --- comma-separated questions ---------------------------------------------------------------------------------

static const struct {
    const char *name, *place, *unit;
} columns[] = {
    {"timestamp", "timestamp", ""},
    {"driver_version", "driver_version", ""},
    {"count", "attached", ""},
    {"name", "name", ""},
    {"gpu_name", "name", ""},
    {"uuid", "uuid", ""},
    {"gpu_uuid", "uuid", ""},
    {"serial", "serial", ""},
    {"pci.bus_id", "bus_id", ""},
    {"gpu_bus_id", "bus_id", ""},
    {"vbios_version", "vbios", ""},
    {"compute_cap", "compute_capability", ""},
    {"memory.total", "memory.total", " MiB"},
    {"memory.reserved", "memory.reserved", " MiB"},
    {"memory.used", "memory.used", " MiB"},
    {"memory.free", "memory.free", " MiB"},
    {"mig.mode.current", "mig=0:Disabled,1:Enabled", ""},
    {"mig.mode.pending", "mig.pending=0:Disabled,1:Enabled", ""},
    {"persistence_mode", "persistence=0:Disabled,1:Enabled", ""},
    {"ecc.mode.current", "ecc=0:Disabled,1:Enabled", ""},
    {"ecc.errors.uncorrected.volatile.total", "ecc.uncorrected|0", ""},
    {"temperature.gpu", "temperature", ""},
    {"power.draw", "power.watts", " W"},
    {"power.limit", "power_limit.watts", " W"},
    {"utilization.gpu", "utilization|0", " %"},
    {"pstate", "performance_state=0:P0,2:P2,8:P8", ""},
    {"fabric.state", "fabric.state=1:Not Started,2:In Progress,3:Completed", ""},
    {"fabric.status", "fabric.outcome|N/A", ""},
};

static int csv(const char *wanted, const char *format, int apps) {
    static const char *app_names[] = {"pid", "process_name", "used_gpu_memory", "used_memory", "gpu_uuid", "gpu_bus_id"};
    int units = !strstr(format, "nounits"), fields[40], count = 0;
    char copy[400], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", wanted);
    while (count < 40 && (name = strtok_r(rest, ", ", &rest))) {
        int known = apps ? (int)(sizeof app_names / sizeof *app_names) : (int)(sizeof columns / sizeof *columns), i;
        for (i = 0; i < known && strcmp(apps ? app_names[i] : columns[i].name, name); i++) {}
        if (i == known) return printf("Field \"%s\" is not a valid field to query.\n\n", name), 2;
        fields[count++] = i;
    }
    for (int f = 0; f < count && !strstr(format, "noheader"); f++) {
        const char *unit = apps ? (fields[f] == 2 || fields[f] == 3 ? " MiB" : "") : columns[fields[f]].unit;
        printf("%s%s", f ? ", " : "", apps ? app_names[fields[f]] : columns[fields[f]].name);
        if (*unit) printf(" [%s]", unit + 1);
        if (f == count - 1) putchar('\n');
    }
    for (int i = 0; i < gpu_count; i++) {
        sim_holder holders[64];
        int rows = apps ? sim_processes(gpus[i], holders, 64) : 1;
        for (int row = 0; row < rows; row++)
            for (int f = 0; f < count; f++) {
                if (f) printf(", ");
                if (!apps) printf("%s%s", say(gpus[i], columns[fields[f]].place), units ? columns[fields[f]].unit : "");
                else if (fields[f] == 0) printf("%u", holders[row].pid);
                else if (fields[f] == 1) printf("%s", holders[row].name);
                else if (fields[f] <= 3) printf("%llu%s", holders[row].bytes >> 20, units ? " MiB" : "");
                else printf("%s", say(gpus[i], fields[f] == 4 ? "uuid" : "bus_id"));
                if (f == count - 1) putchar('\n');
            }
    }
    return 0;
}

// --- the program ----------------------------------------------------------------------------------------------

static int broken(int code) {
    const char *library = sim_get("library_version");
    if (code == NOT_LOADED) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
               "NVIDIA driver is installed and running.\n\n");
        return code;
    }
    printf("Failed to initialize NVML: %s\n", nvmlErrorString(code));
    if (code == MISMATCH && library) printf("NVML library version: %.*s\n", (int)(strrchr(library, '.') - library), library);
    return code < 255 ? code : 255;
}

// Keeps only the GPU of -i: an index, a UUID or a bus id.
static int choose(const char *wanted) {
    for (int i = 0; i < gpu_count; i++) {
        char index[12];
        snprintf(index, sizeof index, "%d", i);
        if (strcmp(wanted, index) && strcmp(wanted, say(gpus[i], "uuid")) && strcasecmp(wanted, say(gpus[i], "bus_id")))
            continue;
        gpus[0] = gpus[i];
        gpu_count = 1;
        offset = i;
        return 0;
    }
    printf("No devices were found\n");
    return 6;
}

int main(int argc, char **argv) {
    int xml = 0, wants_query = 0, wants_list = 0, code;
    const char *query_gpu = NULL, *query_apps = NULL, *format = "", *only = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-L") || !strcmp(argv[i], "--list-gpus")) wants_list = 1;
        else if (!strcmp(argv[i], "-q") || !strcmp(argv[i], "--query")) wants_query = 1;
        else if (!strcmp(argv[i], "-x") || !strcmp(argv[i], "--xml-format")) xml = 1;
        else if (!strcmp(argv[i], "-i") && i + 1 < argc) only = argv[++i];
        else if (!strncmp(argv[i], "--id=", 5)) only = argv[i] + 5;
        else if (!strncmp(argv[i], "--query-gpu=", 12)) query_gpu = argv[i] + 12;
        else if (!strncmp(argv[i], "--query-compute-apps=", 21)) query_apps = argv[i] + 21;
        else if (!strncmp(argv[i], "--format=", 9)) format = argv[i] + 9;
        else if (i == 1 && (!strcmp(argv[i], "topo") || !strcmp(argv[i], "nvlink"))) break;
        else return printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"), 1;
    }
    if ((code = nvmlInitWithFlags(0))) return broken(code);
    gpu_count = sim_visible(gpus);
    if (sim_failure(-1, "smi")) return 1;  // so that a state can hang nvidia-smi alone
    if (!gpu_count) return printf("No devices were found\n"), 6;
    for (int i = 0; i < gpu_count; i++) {
        if (!sim_gpu(gpus[i], "lost")) continue;
        printf("Unable to determine the device handle for GPU%d: %s: GPU is lost.  Reboot the system to recover this GPU\n\n",
               i, say(gpus[i], "bus_id"));
        return LOST;
    }
    if (only && (code = choose(only))) return code;
    if (argc > 1 && !strcmp(argv[1], "topo")) return topology();
    if (argc > 1 && !strcmp(argv[1], "nvlink")) return nvlink();
    if (query_gpu) return csv(query_gpu, format, 0);
    if (query_apps) return csv(query_apps, format, 1);
    if (wants_list) return list();
    return wants_query ? query(xml) : table();
}
