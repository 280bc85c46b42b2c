// The folder that the runtime dumps layers to, watched.
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct dump_folder {
    int fd;                                        // the folder, locked: one dump at a time uses it
    int watch;                                     // readable when files have been written
    char events[4096] __attribute__((aligned(8))); // read from `watch`
    size_t at, size;                               // what of them is left
};

/// Waits until no other worker uses it; makes it if it is not there. Files that are in it stay.
int dump_folder_open(struct dump_folder *d, const char *path, struct error *e);
void dump_folder_close(struct dump_folder *d);

/// The name of a .npy file that has been written since, without blocking: valid until the next
/// call. 1, 0: none yet, or negative.
int dump_folder_next(struct dump_folder *d, const char **ret_name, struct error *e);

/// Reads a file of the folder and removes it. *ret is malloc'ed.
int dump_folder_take(const struct dump_folder *d, const char *name, void **ret, size_t *ret_size,
                     struct error *e);
