// Compiles graphs into plans. A plan is never changed by running, so that contexts share it; each
// runs it in memory of its own (run.h).
#pragma once

#include "npu/sim/exec/step.h"

/// Compiles. The graph, and what it points into, must outlive the plan. On failure p is empty.
int plan_init(struct plan *p, const struct graph *g, struct error *e);
void plan_done(struct plan *p);
