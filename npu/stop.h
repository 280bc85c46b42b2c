// Jobs that nobody needs any more.
#pragma once

#include "npu/npu.h"

/// npu_job.stop: 0, or STATUS_FAIL if the job is to end.
static inline int npu_stop_check(const atomic_bool *stop, struct error *e)
{
    bool stopped = stop && atomic_load_explicit(stop, memory_order_relaxed);
    return stopped ? error_set(e, STATUS_FAIL, "the run was stopped") : 0;
}
