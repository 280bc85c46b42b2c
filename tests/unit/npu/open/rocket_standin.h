// Stands in for a kernel with mainline's driver, as kernel_standin.h does for the maker's.
#pragma once

#include <stdbool.h>

#define STANDIN_ACCEL "/dev/accel/accel2"

struct rocket_standin_settings {
    bool hangs;    // fences never end
    int fence;     // how fences end: 0, or -errno
    bool poisoned; // registers hold something before each task, as of other programs
    // The request number fail_at (counted from 0, of all) fails with this errno, fail_times times.
    long fail_at;
    int fail_errno, fail_times;
};

struct rocket_standin_counts {
    long requests, wrong, tasks;
    int open_files, objects, kept, maps, fences;
};

void rocket_standin_begin(const struct rocket_standin_settings *settings);
struct rocket_standin_counts rocket_standin_end(void);
