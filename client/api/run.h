// Runs of a context, in order.
//
// A context has LIMIT_RUNS runs at a time: at most one selected, the others free or pending.
// Outputs are those of the selected run. Waiting for a run selects it and drops the older ones;
// getting outputs selects the oldest pending run when the selected one has been fetched.
#pragma once

#include "client/api/context.h"

/// Waits for a run and selects it. A run that failed selects none. STATUS_TIMEOUT at `until`.
int run_select(struct context *c, struct run *r, uint64_t until, struct error *e);

/// Runs once more, with the inputs that are set, and selects that run.
int run_again(struct context *c, struct run **ret, struct error *e);

/// The run in this state (the oldest of the pending ones); NULL if there is none.
struct run *run_find(struct context *c, enum run_state state);

/// What a context's runs have in common, for INFER and DUMP: cores, limit, shapes and the inputs
/// that are set, into m, and segments (FRAME_MAX_SEGMENTS), whose number it returns.
int run_gather(struct context *c, rknnd_Infer *m, struct iovec *segments, struct error *e);
