// The file to send: a tar.xz of a few texts.
#pragma once

#include <stddef.h>

#include "base/error.h"

struct pack_file {
    const char *name;
    const char *data;
    size_t size;
};

/// Writes the archive, whole or not at all; without times, owners or names of this machine.
int pack_write(const char *path, const struct pack_file *files, size_t n, struct error *e);
