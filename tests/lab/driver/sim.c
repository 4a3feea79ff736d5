// Copyright (c) 2026, the gpufleet.baseline authors
// GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

#define _DEFAULT_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define LINES 1024
#define VISIBLE "/etc/simulated-gpu.visible"

typedef struct {
    char key[80], value[400];
} entry;
typedef struct {
    int count;
    entry entries[LINES];
} table;

// One table for each thread: NVML may be asked by several threads, and one of them may hang for ever.
static _Thread_local table *state;

const char *sim_folder(void) {
    const char *folder = getenv("SIMULATED_GPU");
    return folder ? folder : "/run/simulated-gpu";
}

void sim_path(char *path, size_t size, int gpu) { snprintf(path, size, "%s/gpu%d", sim_folder(), gpu); }

void sim_load(void) {
    char path[300], line[512];
    if (!state) state = malloc(sizeof *state);
    state->count = 0;
    snprintf(path, sizeof path, "%s/state", sim_folder());
    FILE *file = fopen(path, "r");
    if (!file) return;
    while (fgets(line, sizeof line, file) && state->count < LINES) {
        entry *e = &state->entries[state->count];
        if (line[0] != '#' && sscanf(line, "%79[^= ] = %399[^\n]", e->key, e->value) == 2) state->count++;
    }
    fclose(file);
}

static const char *find(const char *key) {
    if (!state) sim_load();
    for (int i = state->count - 1; i >= 0; i--)
        if (!strcmp(state->entries[i].key, key)) return state->entries[i].value;
    return NULL;
}

int sim_in_container(void) { return access(VISIBLE, F_OK) == 0; }

const char *sim_get(const char *key) {
    char inside[100];
    const char *value;
    snprintf(inside, sizeof inside, "container.%s", key);
    if (sim_in_container() && (value = find(inside))) return value;
    return find(key);
}

const char *sim_gpu(int gpu, const char *key) {
    char full[100];
    snprintf(full, sizeof full, "gpu.%d.%s", gpu, key);
    const char *value = sim_get(full);
    if (value) return value;
    snprintf(full, sizeof full, "gpu.*.%s", key);
    return sim_get(full);
}

long long sim_number(const char *value, long long otherwise) { return value ? strtoll(value, NULL, 0) : otherwise; }

int sim_visible(int indexes[SIM_GPUS]) {
    int count = 0, gpu;
    FILE *granted = fopen(VISIBLE, "r");
    if (granted) {
        while (count < SIM_GPUS && fscanf(granted, "%d", &gpu) == 1)
            if (!sim_gpu(gpu, "missing")) indexes[count++] = gpu;
        fclose(granted);
        return count;
    }
    for (gpu = 0; gpu < SIM_GPUS && sim_gpu(gpu, "uuid"); gpu++)
        if (!sim_gpu(gpu, "missing")) indexes[count++] = gpu;
    return count;
}

int sim_failure(int gpu, const char *key) {
    char full[80];
    snprintf(full, sizeof full, "fail.%s", key);
    const char *code = gpu >= 0 ? sim_gpu(gpu, full) : NULL;
    if (!code) code = sim_get(full);
    if (code && !strcmp(code, "hang"))
        for (;;) pause();
    return (int)sim_number(code, 0);
}

static void process_name(unsigned pid, char *name, size_t size) {
    char path[40];
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(name, 1, size - 1, file) : 0;
    name[length] = 0;  // argv[0] ends at its own zero byte
    if (file) fclose(file);
}

// processes = pid:MiB:name pid:MiB:name ...
static int listed(int gpu, sim_holder *holders, int room) {
    char copy[400], *rest = copy, *word;
    int count = 0;
    const char *value = sim_gpu(gpu, "processes");
    snprintf(copy, sizeof copy, "%s", value ? value : "");
    while ((word = strtok_r(rest, " ", &rest)) && count < room) {
        sim_holder *h = &holders[count];
        unsigned long long mib;
        if (sscanf(word, "%u:%llu:%255s", &h->pid, &mib, h->name) != 3) continue;
        h->bytes = mib << 20;
        count++;
    }
    return count;
}

int sim_holders(int gpu, sim_holder *holders, int room) {
    char path[300], line[200], access_mode[8];
    struct stat file;
    int count = listed(gpu, holders, room);
    sim_path(path, sizeof path, gpu);
    FILE *locks = fopen("/proc/locks", "r");
    if (!locks) return count;
    while (!stat(path, &file) && count < room && fgets(line, sizeof line, locks)) {
        unsigned pid, major_number, minor_number;
        unsigned long long inode, first, last;
        if (sscanf(line, "%*[^:]: POSIX %*s %7s %u %x:%x:%llu %llu %llu", access_mode, &pid, &major_number, &minor_number,
                   &inode, &first, &last) != 7 ||
            makedev(major_number, minor_number) != file.st_dev || inode != file.st_ino)
            continue;
        holders[count].pid = pid;
        holders[count].bytes = last - first + 1;
        process_name(pid, holders[count].name, sizeof holders[count].name);
        count++;
    }
    fclose(locks);
    return count;
}

int sim_processes(int gpu, sim_holder *holders, int room) {
    return sim_in_container() ? 0 : sim_holders(gpu, holders, room);
}

// The state gives MiB, with a fraction where the GPU has one.
unsigned long long sim_memory(int gpu, const char *what) {
    char key[40];
    sim_holder holders[64];
    snprintf(key, sizeof key, "memory.%s", what);
    const char *mib = sim_gpu(gpu, key);
    unsigned long long bytes = mib ? (unsigned long long)(strtod(mib, NULL) * (1 << 20)) : 0;
    if (strcmp(what, "used")) return bytes;
    int count = sim_holders(gpu, holders, 64);
    while (count-- > 0) bytes += holders[count].bytes;
    return bytes;
}
