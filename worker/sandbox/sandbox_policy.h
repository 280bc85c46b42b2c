// What the sandbox of a worker process is to allow.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "npu/npu.h"

enum sandbox_mode {
    SANDBOX_ON,      // what the kernel offers
    SANDBOX_OFF,     // nothing
    SANDBOX_REQUIRED // all of it, or the worker does not start
};

#define SANDBOX_MAX_PATHS  24
#define SANDBOX_MAX_GROUPS 8

struct sandbox_path {
    char path[1024];
    enum npu_access access;
};

// Who the worker becomes if the daemon is root's.
struct sandbox_user {
    uint32_t uid, gid; // uid 0: it stays what it is
    uint32_t groups[SANDBOX_MAX_GROUPS];
    uint32_t n_groups;
};

// Besides what every program needs (libraries, what the kernel tells of the machine).
struct sandbox {
    enum sandbox_mode mode;
    struct sandbox_user user;
    struct sandbox_path paths[SANDBOX_MAX_PATHS]; // what is not there is left out
    size_t n_paths;
};

/// Adds a path ("": nothing). A negative status: there is no room, or it is too long.
int sandbox_add(struct sandbox *s, const char *path, enum npu_access access, struct error *e);

/// Calls look() with each folder of LD_LIBRARY_PATH, which the dynamic linker searches first, until
/// that is not 0. Returns what it said last, or a negative status: no memory.
int sandbox_each_library_folder(int (*look)(void *owner, const char *folder, struct error *e),
                                void *owner, struct error *e);
