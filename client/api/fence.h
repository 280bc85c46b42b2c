// Fences that a run waits for (RKNN_FLAG_FENCE_IN_OUTSIDE).
#pragma once

#include "client/api/context.h"

/// Waits until the fence of a run is there, as long as clock_ms() `until`; nothing to do without
/// the flag, and for fd -1, which stands for a fence that has been there. The descriptor stays the
/// program's. With the context's lock held, which is given up meanwhile. STATUS_TIMEOUT;
/// STATUS_PARAM_INVALID for what is not a fence; STATUS_FAIL for one that ended with an error.
int fence_wait(struct context *c, const rknn_run_extend *extend, uint64_t until, struct error *e);
