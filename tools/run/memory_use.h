// A model's memory: sizes reported by the runtime, the arena, the file's size.
#pragma once

#include <jansson.h>

#include "rknnd.h"
#include "tools/task.h"

struct memory {
    rknnd_server_info server;
    rknn_mem_size size;
    uint64_t file_size;  // of the model
    json_t *description; // description_get()
};

/// Opens the model and asks. memory_done() is safe after a failure.
int memory_measure(struct memory *m, const struct task *task, struct error *e);
void memory_done(struct memory *m);

/// Bytes that are neither weights nor internal tensors; and all.
uint64_t memory_other(const struct memory *m);
uint64_t memory_total(const struct memory *m);

/// Sizes, the arena and the chip's estimate; for an object of the caller's. NULL: out of memory.
json_t *memory_json(const struct memory *m);
