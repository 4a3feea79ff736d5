// Copyright (c) 2026, the gpufleet.baseline authors
// GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What the simulated driver knows: a state file of "key = value" lines, read again for every question, so
// that a test changes the GPUs under a running process. See tests/lab/README.md for the keys.
#ifndef SIM_H
#define SIM_H
#include <stdio.h>

#define SIM_GPUS 64

// The folder of the state: SIMULATED_GPU or /run/simulated-gpu.
const char *sim_folder(void);
void sim_path(char *path, size_t size, int gpu);
void sim_load(void);
// Value of a key, or NULL. Inside a container "container.<key>" comes first.
const char *sim_get(const char *key);
// Value of gpu.<gpu>.<key>, else of gpu.*.<key>, or NULL.
const char *sim_gpu(int gpu, const char *key);
long long sim_number(const char *value, long long otherwise);
int sim_in_container(void);
// Fills indexes with the state's numbers of the GPUs that are seen here, in order; returns how many.
int sim_visible(int indexes[SIM_GPUS]);
// The code that a question ends with: fail.<key> or gpu.<gpu>.fail.<key>; never returns for "hang".
int sim_failure(int gpu, const char *key);

typedef struct {
    unsigned pid;
    unsigned long long bytes;
    char name[256];
} sim_holder;
// Processes that hold memory on the GPU: those of the state's "processes", and those that really run and
// allocated it through the simulated libcuda. Each of these holds a read lock, as long as its memory is large,
// on the GPU's file beside the state: /proc/locks shows that to every user and across containers.
int sim_holders(int gpu, sim_holder *holders, int room);
// The same as NVML tells it: nothing inside a container with its own PID namespace.
int sim_processes(int gpu, sim_holder *holders, int room);
// Memory of the GPU in bytes: what = "total", "reserved" or "used" (used without reserved).
unsigned long long sim_memory(int gpu, const char *what);

#endif
