// Jobs that let others have the device between two of their slices.
#pragma once

#include "base/clock.h"
#include "npu/npu.h"

/// Others wait for the device. NULL: the job is not interrupted.
static inline bool npu_slices_wanted(const struct npu_slices *s)
{
    return s && atomic_load_explicit(s->wanted, memory_order_relaxed);
}

/// Between two slices: waits if others want the device, and adds how long that was to *waited_us.
static inline int npu_slices_pass(struct npu_slices *s, uint64_t *waited_us, struct error *e)
{
    if (!npu_slices_wanted(s))
        return 0;
    uint64_t start = clock_us();
    int r = s->wait(s, e);
    *waited_us += clock_us() - start;
    return r;
}
