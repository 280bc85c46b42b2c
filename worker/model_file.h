// A model file and how it is to be loaded.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct model_file {
    int fd; // from its start; no one changes what it holds. -1: none
    uint64_t size;
    const char *name;    // for messages and logs
    const char *options; // npu_model_source.options
};

/// A copy with an fd and texts of its own. STATUS_MALLOC_FAIL: no memory, or no fd is free; then
/// there is nothing to free.
int model_file_copy(struct model_file *to, const struct model_file *from, struct error *e);

/// Of a copy, or of one that is {.fd = -1}.
void model_file_done(struct model_file *f);
