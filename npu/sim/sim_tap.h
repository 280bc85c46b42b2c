// Shows what the nodes of a graph compute to an observer of a run.
#pragma once

#include "npu/npu.h"
#include "npu/sim/exec/step.h"

/// A hook after steps (run.after): shows what the step has computed to the struct npu_tap `tap`.
int sim_tap(void *tap, const struct run *r, const struct step *s, struct error *e);
