// Whole files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct input_bytes {
    void *data;
    size_t size;
    bool kept; // standard input: not the caller's
};

/// Reads a file, a pipe or, for "-", standard input; that is read once and kept until the program
/// ends, for commands that look at their inputs twice. Refuses folders, terminals, what is empty
/// and what has more than `most` bytes, but for pictures. The words do not name the file.
int input_bytes_read(const char *path, uint64_t most, struct input_bytes *ret, struct error *e);
void input_bytes_done(struct input_bytes *b);
