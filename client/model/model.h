// A model to be opened: bytes in memory, a file or a part of one, or one that the server has.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "client/model/bundle.h"
#include "protocol/message.h"

struct model {
    const uint8_t *data; // the program's memory; NULL: a file
    int fd;
    struct bundle *bundle; // of the file and others; NULL: it is alone
    uint64_t offset;       // of the model in the file
    uint64_t size;
    uint8_t sha256[MODEL_SHA256_SIZE];
    char name[128];   // for people
    char stored[100]; // NAME[@VERSION] in the server's store (stored.h); "": the bytes are here
};

/// The part [offset, offset + size) of memory or of a file (size 0: all from offset on), hashed. A
/// file's hash is remembered as long as the file is unchanged. A whole file called *.onnx is joined
/// with the weights that it has in other files. The memory must stay until model_done().
int model_from_memory(struct model *m, const void *data, uint64_t all, uint64_t offset,
                      uint64_t size, struct error *e);
int model_from_file(struct model *m, const char *path, uint64_t offset, uint64_t size,
                    struct error *e);

/// `size` bytes from `at` on, which is inside: a pointer into memory, or they are read into
/// `buffer`. NULL when the file cannot be read (any more).
const uint8_t *model_read(const struct model *m, uint64_t at, size_t size, uint8_t *buffer,
                          struct error *e);

void model_done(struct model *m);

void model_before_fork(void);
void model_after_fork(bool child);
