// Memory in a worker: that of jobs, and that of clients, to which tensors are bound.
#pragma once

#include "worker/worker.h"

// Shared memory of jobs.
struct worker_buffer {
    struct worker_object object;
    const uint8_t *input;
    uint8_t *output;
    uint64_t input_size, output_size;
};

/// Shared memory of the daemon's; `protection` as mmap()'s.
void *worker_map(int fd, uint64_t size, int protection);

/// Custom operators of a run: those that the client computes have their tensors in its buffer.
void worker_prepare_calls(struct worker_context *c, const struct worker_buffer *b,
                          const rknnd_WorkerRun *m, const struct npu_model_info *info);

/// What the daemon's messages of these names ask for. The fds are those of the present frame.
void worker_buffer_add(struct worker *w, const rknnd_WorkerBuffer *m);
void worker_buffer_drop(struct worker *w, uint32_t number);
void worker_memory_add(struct worker *w, const rknnd_WorkerMemory *m);
void worker_memory_drop(struct worker *w, uint32_t number);
void worker_bind(struct worker_context *c, const rknnd_WorkerBind *m);

/// A context that cannot take the memory is unusable, with the reason, until it gets another one.
void worker_set_internal(struct worker_context *c, const rknnd_WorkerInternal *m);

struct worker_buffer *worker_buffer_find(struct worker *w, uint32_t number);
