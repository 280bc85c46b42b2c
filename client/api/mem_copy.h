// Memory that the server has only a copy of: what a run sends and what it brings back.
#pragma once

#include "client/api/mem.h"

/// Adds to an INFER what has changed in the memory of the context's bound inputs: to m->writes, and
/// segments from *n on (FRAME_MAX_SEGMENTS in all, of which the inputs that are not bound need
/// some). The segments stay until the next run of the context.
int mem_copy_changes(struct context *c, rknnd_Infer *m, struct iovec *segments, int *n,
                     struct error *e);

/// … and to m->outputs_back the bound outputs that have to come in the payload.
void mem_copy_results(const struct context *c, rknnd_Infer *m);

/// A run has ended. Its outputs in copied memory have come; if it failed, what it sent may not
/// have arrived.
void mem_copy_ran(struct context *c, bool good);
