// What the nodes of a graph compute, for whoever looks into a run.
#pragma once

#include "npu/sim/exec/plan.h"

/// Shows what the step, which has just run, has computed to r->tap.
int sim_tap(const struct run *r, const struct step *s, struct error *e);
