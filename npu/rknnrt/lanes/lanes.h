// The runtime's contexts that the runs of one model are spread over: one, and up to as many as the
// device has cores once runs wait for each other. Any thread.
#pragma once

#include <pthread.h>

#include "npu/rknnrt/lanes/lane.h"

#define LANES_MAX NPU_MAX_CORES

struct lanes {
    const struct runtime *runtime;
    const struct npu_model_info *info; // of the model, once it is known
    struct bytes file;
    uint32_t flags;       // of rknn_init()
    uint32_t limit;       // 1 … LANES_MAX
    struct lanes *source; // of which these are duplicates; NULL: none
    pthread_mutex_t lock;
    pthread_cond_t idle;
    uint32_t n;
    bool busy[LANES_MAX];
    bool stale[LANES_MAX]; // a busy one may have dma-bufs of users that are gone
    struct lane list[LANES_MAX];
};

/// Opens nothing yet. The file stays mapped, and info where it is, until lanes_done().
void lanes_init(struct lanes *l, const struct runtime *r, struct bytes file, uint32_t flags,
                uint32_t limit, const struct npu_model_info *info);

/// For runs whose tensors go through memory that is bound, which had better not meet those of
/// `source` in one context. Shares its weights, where the runtime can.
void lanes_init_memory(struct lanes *l, struct lanes *source);

/// None may be taken. Zeroed: fine.
void lanes_done(struct lanes *l);

/// Gives the caller a context for a run with this core mask: if it can be, one that had it before.
/// Opens the first; waits while all are in use.
int lanes_take(struct lanes *l, uint32_t cores, struct lane **ret, struct error *e);
void lanes_give(struct lanes *l, struct lane *lane);

/// The user has no run in flight and will have none: gives back their dma-bufs.
void lanes_forget(struct lanes *l, const void *user);
