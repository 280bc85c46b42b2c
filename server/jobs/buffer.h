// Shared memory for the inputs and outputs of one job, reused from job to job.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"

struct buffer_pool;
struct givebacks;

// Of all pools: what there is, and how much of it may be idle.
struct buffer_totals {
    uint64_t bytes;
    struct list idle; // the longest unused first
    uint64_t idle_bytes, most_idle_bytes;
    unsigned n_idle, most_idle;
    struct givebacks *givebacks; // NULL: those that are freed go at once
};

// Inputs and outputs are in two memories, so that a worker can be kept from writing to the inputs:
// when a job runs a second time, after its worker died, they are what the client sent.
struct buffer {
    unsigned refs;
    struct buffer_pool *pool;
    struct list link, in_totals;      // in the pool, and in the totals' list, while idle
    uint32_t id;                      // unique in the pool
    int input_fd, output_fd;          // -1 where nothing is shared (--isolation=thread)
    uint8_t *input, *output;          // page-aligned
    uint64_t input_size, output_size; // bytes there are: at least those that were asked for
    uint32_t worker; // generation of the worker that knows it; 0: none (runner_process.c)
};

/// An empty pool for the buffers of one runner. Loop thread only, as all of this. `shared`: memory
/// that can be passed to another process, sealed against any change of size; the inputs also
/// against new writable mappings, where the kernel can (Linux 5.1). `totals` may be shared by pools
/// and must outlive them. NULL: out of memory.
struct buffer_pool *buffer_pool_new(bool shared, struct buffer_totals *totals);

/// As many as `most` idle buffers may be kept, and `bytes` of them.
void buffer_totals_init(struct buffer_totals *t, unsigned most, uint64_t bytes);

/// Frees the idle buffers; those in use free themselves, and then the pool, with their last
/// reference.
void buffer_pool_free(struct buffer_pool *p);

/// Calls forget(b, owner) before an idle buffer is unmapped, until buffer_pool_free().
void buffer_pool_on_forget(struct buffer_pool *p, void (*forget)(struct buffer *b, void *owner),
                           void *owner);

/// Frees idle buffers, the longest unused first, keeping at most `keep` of them.
void buffer_pool_trim(struct buffer_pool *p, unsigned keep);

/// A buffer of at least these sizes (either may be 0), with one reference. Contents undefined: the
/// last used buffer that fits comes first, because its pages are warm.
int buffer_get(struct buffer_pool *p, uint64_t input_size, uint64_t output_size,
               struct buffer **ret, struct error *e);
struct buffer *buffer_ref(struct buffer *b);
void buffer_unref(struct buffer *b); // NULL: nothing
