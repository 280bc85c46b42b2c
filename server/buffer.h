// Shared memory for the inputs and outputs of one job, reused from job to job.
#pragma once

#include "base/error.h"
#include "base/list.h"

// Inputs and outputs lie in two memories, so that a worker can be kept from writing to the inputs:
// when a job runs a second time, after its worker died, they are what the client sent.
struct buffer {
    unsigned refs;
    struct buffer_pool *pool;
    struct list link;        // in the pool while free
    uint32_t id;             // unique in the pool
    int input_fd, output_fd; // -1 where nothing is shared (--isolation=thread)
    uint8_t *input, *output;
    uint64_t input_size, output_size;
    uint32_t worker; // generation of the worker that knows it; 0: none (host_process.c)
};

// All buffers of one host. Loop thread only.
struct buffer_pool {
    bool shared;
    struct list idle;
    unsigned n_buffers; // idle and in use; the pool outlives them
    uint32_t next_id;
    uint64_t *bytes; // running total of the server, for its status
    bool done;
    void (*on_free)(struct buffer *b,
                    void *owner); // before an idle buffer is unmapped; may be NULL
    void *owner;
};

void buffer_pool_init(struct buffer_pool *p, bool shared, uint64_t *bytes);

/// Frees the idle buffers; those in use free themselves with their last reference.
void buffer_pool_done(struct buffer_pool *p);

/// Frees idle buffers, keeping at most `keep` of them.
void buffer_pool_trim(struct buffer_pool *p, unsigned keep);

/// A buffer of at least these sizes (either may be 0), with one reference. Contents undefined.
int buffer_get(struct buffer_pool *p, uint64_t input_size, uint64_t output_size,
               struct buffer **ret, struct error *e);
struct buffer *buffer_ref(struct buffer *b);
void buffer_unref(struct buffer *b);
