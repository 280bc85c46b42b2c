// Runs plans.
#pragma once

#include "npu/sim/exec/step.h"

/// Bytes that a run takes.
uint64_t run_size(const struct plan *p);

int run_init(struct run *r, const struct plan *p, struct error *e);
void run_done(struct run *r);

/// Puts the arena of the next runs into other memory (plan.arena_size bytes, aligned to 64), whose
/// contents do not matter; NULL: into memory of its own. On failure it stays where it is.
int run_place(struct run *r, void *memory, struct error *e);

/// Runs all steps; STATUS_FAIL if it is stopped between two of them.
int run_steps(struct run *r, struct error *e);
